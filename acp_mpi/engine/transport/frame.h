/* Frames on links: a head of 64 bytes with the message in it, then the payload and its sum.
 *
 *   crc 4 | size of payload 4 | message 56, with the acknowledgement in place of the sender
 *   payload | crc 4                    (nothing if there is no payload)
 *   payload | tag 16                   (also without a payload, on a connection with keys: seal.h)
 *
 * The first sum covers the rest of the head and the frame's number, so that a length is not
 * believed before it is checked, and a frame that is repeated or left out is noticed. The second
 * goes on from the first over the payload, so that no head takes the payload of another. Whoever can
 * change a connection can also make sums: a tag cannot be made without the job's secret. */
#ifndef ACP_FRAME_H
#define ACP_FRAME_H

#include "core/layout.h"

#include <stdbool.h>

#define FRAME_HEAD ((size_t)64)
#define FRAME_SUM ((size_t)4)
#define FRAME_TAG ((size_t)16)
#define FRAME_AT_SIZE ((size_t)4)
#define FRAME_CLEAR ((size_t)8) /* bytes of the head that are never encrypted */
#define FRAME_PAYLOAD_MOST ((uint32_t)64 << 10)
#define FRAME_MOST (FRAME_HEAD + FRAME_PAYLOAD_MOST + FRAME_TAG)

enum frame_result { FRAME_MORE = 0, FRAME_WHOLE = 1, FRAME_BAD = -1 };

struct frame {
    struct message message; /* `from` is not set */
    uint32_t ack;           /* frames that its sender has received, modulo 2^32 */
    uint32_t size;          /* of the payload */
    uint32_t sum;           /* of the head */
    const unsigned char *payload;
    size_t total;
};

/* Kinds below ACP_SESSION are numbered: kept until acknowledged, run once. */
bool frame_numbered(uint8_t kind);

static inline size_t frame_bytes(uint32_t payload)
{
    return FRAME_HEAD + (payload ? payload + FRAME_SUM : 0);
}

static inline size_t frame_sealed_bytes(uint32_t payload)
{
    return FRAME_HEAD + payload + FRAME_TAG;
}

uint32_t frame_payload(const unsigned char *frame); /* its size, as the head says */
size_t frame_size(const unsigned char *frame); /* of a whole one */
size_t frame_sealed_size(const unsigned char *frame);

void frame_write(unsigned char *to, const struct message *m, uint64_t number, uint64_t ack,
                 const void *payload, uint32_t size);
/* The same in two steps, for a caller that puts the payload in its place: frame_begin writes the head and returns its
 * sum, which is then extended by the payload. */
uint32_t frame_begin(unsigned char *to, const struct message *m, uint64_t number, uint64_t ack,
                     uint32_t size);
void frame_end(unsigned char *to, uint32_t size, uint32_t sum);
void frame_sum(unsigned char *frame); /* its payload may have changed since */

/* A frame with a tag: its head, complete with a sum over what goes over the network, which begins with the number of
 * the frame on the connection. frame_compose writes all but that. */
void frame_compose(unsigned char *to, const struct message *m, uint64_t ack, uint32_t size);
void frame_head_close(unsigned char *frame, uint64_t number);
bool frame_head_right(const unsigned char *frame, uint64_t number);
void frame_parse(const unsigned char *from, struct frame *frame); /* without its sum and total */

/* Takes the frame at the begin of `have` bytes apart; `number` is the next expected. */
enum frame_result frame_read(const unsigned char *from, size_t have, uint64_t number,
                             struct frame *frame);
/* The same in two steps: all but the payload's sum, which goes on from frame->sum; is that right? */
enum frame_result frame_open(const unsigned char *from, size_t have, uint64_t number,
                             struct frame *frame);
bool frame_right(const struct frame *frame, uint32_t sum);

#endif
