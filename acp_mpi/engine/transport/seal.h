/* What makes the frames of one connection its members' own: keys of both directions, made from the job's secret and its
 * handshake, and the frames counted so far. With the lock held.
 *
 *   mac:      head 64 | payload | tag 16            AES-256-GMAC of head and payload
 *   encrypt:  crc 4, size 4 | encrypted: message 56, payload | tag 16            AES-256-GCM, `size` in clear
 *
 * The nonce is the number of the frame on this connection in this direction, from 0, whatever the frame is: one that is
 * sent again after a resumption has another key and another number. No number is used for two frames. The head's sum
 * covers the head as it goes over the network, so that damage to a length is found before its bytes are awaited. */
#ifndef ACP_SEAL_H
#define ACP_SEAL_H

#include "core/engine.h"
#include "transport/frame.h"

#include <sys/uio.h>

struct libcrypto;
struct outbox;
struct seal;

/* Keys of 32 bytes; NULL: no memory, or libcrypto refuses them. `mode`: ACP_LINKS_MAC or ACP_LINKS_ENCRYPT. */
struct seal *seal_new(const struct libcrypto *lib, uint8_t mode, const uint8_t *out, const uint8_t *in);
void seal_free(struct seal *s); /* NULL: nothing */

/* Writes a frame of no send queue, which goes out next; `s` NULL: with sums. Its bytes; 0: libcrypto fails. */
size_t seal_write(struct seal *s, unsigned char *to, const struct message *m, uint64_t ack, const void *payload,
                  uint32_t size);
void seal_unsent(struct seal *s); /* NULL: nothing; not a byte of that has gone out, nor will: its number is the next one's */

/* Codes of messages that are no frames, as the rendezvous has them: of at most FRAME_HEAD bytes of head, filled up with
 * zeros, and a body. They are counted as frames are. False: libcrypto fails, or the code is wrong. */
bool seal_code(struct seal *s, const void *head, size_t head_size, const void *body, size_t size, uint8_t *code);
bool seal_code_right(struct seal *s, const void *head, size_t head_size, const void *body, size_t size,
                     const uint8_t *code);

/* The next bytes of a send queue to send, at most `most` pieces. Frames are sealed when they are about to go out, no more
 * of them than cover `turn` bytes; those that are sealed and not sent come first, unless the connection ends. 0: no
 * memory, or libcrypto fails. */
int seal_pieces(struct seal *s, struct outbox *o, struct iovec *pieces, int most, size_t turn);
void seal_sent(struct seal *s, size_t size);
bool seal_between(const struct seal *s); /* NULL, or is the connection between two frames of the queue? */

/* Takes the frame at the begin of `have` bytes apart, which are overwritten if it is encrypted. It is the next one until
 * seal_taken. */
enum frame_result seal_read(struct seal *s, unsigned char *from, size_t have, struct frame *frame);
void seal_taken(struct seal *s);

#endif
