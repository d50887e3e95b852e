/* The send queue of a link: whole frames in order, some sent already, kept until the peer has acknowledged them, so
 * that a broken stream can be resumed where it stopped. */
#ifndef ACP_TCP_SEND_QUEUE_H
#define ACP_TCP_SEND_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct outbox_block;
struct outbox_spares;

/* Frames are numbered from 0. */
struct outbox {
    struct outbox_block *head, *tail;
    struct outbox_block *at; /* holds the next byte to send */
    size_t offset;           /* offset of that byte in `at` */
    uint64_t first;          /* number of the first frame in `head` */
    uint64_t next;           /* number of the next frame */
    uint64_t acked;          /* frames that have arrived */
    struct outbox_spares *spares;
    size_t held;             /* bytes in all blocks */
    size_t unsent;
};

/* Room for one more frame, which counts as added; NULL: no memory. An answer may use the memory kept for answers. */
unsigned char *tcp_send_queue_add(struct outbox *o, size_t size, bool answer);

/* Some memory is kept for answers; false: there is none to keep. */
bool tcp_send_queue_provide(struct outbox_spares *spares);

/* Of `frame`, the last one added and the only one in its block that borrows, `size` bytes from `at`
 * on are not in its room but at `body`. They stay there until they have arrived or are taken in. */
void tcp_send_queue_lend(struct outbox *o, unsigned char *frame, size_t at, const unsigned char *body,
                         size_t size);

/* Copies the lent bytes from between `low` and `high` into their room, and lets `seal`, if given, make the frame agree
 * with them. */
void tcp_send_queue_take_in(struct outbox *o, const unsigned char *low, const unsigned char *high,
                            void (*seal)(unsigned char *frame));

/* Takes the frame that was added last back. */
void tcp_send_queue_drop(struct outbox *o, size_t size);

/* The bytes to send next, at most `most` pieces; how many there are. */
int tcp_send_queue_pieces(const struct outbox *o, struct iovec *pieces, int most);
void tcp_send_queue_sent(struct outbox *o, size_t size);

/* The frames from the next byte to send on, which begins one, up to the first that ends behind `most` bytes: their
 * bytes. `take` gets each of them, and what it has lent or NULL; false ends it before that frame. NULL: they are only
 * counted. */
size_t tcp_send_queue_ahead(const struct outbox *o, size_t most, size_t (*size_of)(const unsigned char *frame),
                            bool (*take)(void *context, unsigned char *frame, const unsigned char *lent),
                            void *context);

/* The peer acknowledges the first `count` frames; false: that many were not sent. */
bool tcp_send_queue_ack(struct outbox *o, uint64_t count);

/* A new stream: frames that have not arrived are sent again. `size_of` tells the size of a frame. */
void tcp_send_queue_rewind(struct outbox *o, size_t (*size_of)(const unsigned char *frame));

void tcp_send_queue_free(struct outbox *o);
void tcp_send_queue_spares_free(struct outbox_spares *spares);

#endif
