#ifndef ACP_LINK_IO_H
#define ACP_LINK_IO_H

#include "core/engine.h"

struct frame;
struct link;
struct message;
struct wire;

void link_io_release(acp_engine *e); /* sends the frames that are held back */
void link_io_flush(acp_lane *lane);  /* the same with the lock held */
void link_io_ask_more(acp_engine *e); /* requests messages that peers hold back */
void link_io_ask(acp_engine *e); /* a thread waits: requests the answers that may come later */
/* Memory between these addresses may end: payloads lent from there are copied as they are now. With the lock held. */
void link_io_take_in_all(acp_engine *e, const unsigned char *low, const unsigned char *high);
uint64_t link_io_expects(const struct wire *wire); /* the number of the next frame */
/* Of its payload the sum, if it has one, is not checked yet; false: it is wrong, and nothing has been done. */
bool link_io_frame(acp_lane *lane, struct wire *wire, const struct frame *frame);
void link_io_received(acp_lane *lane, struct wire *wire); /* all that had come */
void link_io_writable(acp_lane *lane, struct wire *wire);
/* A frame without a number, at once: it concerns the connection, not the link. */
bool link_io_send_now(const struct wire *wire, const struct message *m, uint64_t ack);

/* Frames on its connection */
bool link_io_room(const struct link *link);
void link_io_push(acp_lane *lane, struct link *link);
size_t link_io_turn(acp_engine *engine); /* bytes of the next turn of a long transfer */
void link_io_uncork(acp_lane *lane, struct link *link); /* frames queued meanwhile go out */
int link_io_send(acp_lane *lane, struct link *link, const struct message *m, const void *payload,
                 uint64_t size);
/* The same of a message that no answer follows. One of a stream may go out with the next ones: when a thread waits, here
 * or there, or after STREAM_NS; so may one that `has_time`. */
int link_io_send_mail(acp_lane *lane, struct link *link, const struct message *m, const void *payload, uint64_t size,
                      bool has_time);
/* An answer that a caller may wait for: if even the memory kept for answers is gone, the peer is lost. */
void link_io_answer(acp_lane *lane, struct link *link, const struct message *m, const void *payload,
                    uint64_t size);
/* The same in two steps: where the payload is to be written, and the sum that goes on over it unless the link is sealed;
 * then the frame goes out, or not. */
unsigned char *link_io_reserve(acp_lane *lane, struct link *link, const struct message *m,
                               uint64_t size, uint64_t *sum);
void link_io_commit(acp_lane *lane, struct link *link, const struct message *m,
                    unsigned char *payload, uint64_t size, uint64_t sum);
void link_io_cancel(struct link *link, uint64_t size);
void link_io_take_in(struct link *link, const unsigned char *low, const unsigned char *high);

#endif
