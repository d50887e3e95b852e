/* Frames are summed as they are copied, so that the sum is that of the sent bytes and of those in place at the
 * receiver. */
#include "transport/frame.h"
#include "base/crc32c.h"
#include "base/crc32c_copy.h"
#include "core/engine.h"

#include <string.h>

enum { AT_CRC = 0, AT_SIZE = 4, AT_MESSAGE = 8 };
static_assert(AT_MESSAGE + sizeof(struct message) == FRAME_HEAD, "one cache line");

bool frame_numbered(uint8_t kind)
{
    return kind < ACP_SESSION;
}

size_t frame_size(const unsigned char *frame)
{
    uint32_t size;
    memcpy(&size, frame + AT_SIZE, sizeof size);
    return frame_bytes(size);
}

static uint32_t head_sum(const unsigned char *frame, uint8_t kind, uint64_t number)
{
    uint32_t seed = frame_numbered(kind) ? (uint32_t)number : 0;
    return acp_crc32c(seed, frame + AT_SIZE, FRAME_HEAD - AT_SIZE);
}

void frame_write(unsigned char *to, const struct message *m, uint64_t number, uint64_t ack,
                 const void *payload, uint32_t size)
{
    uint32_t sum = frame_begin(to, m, number, ack, size);
    if (size)
        frame_end(to, size, acp_crc32c_copy(sum, to + FRAME_HEAD, payload, size));
}

uint32_t frame_begin(unsigned char *to, const struct message *m, uint64_t number, uint64_t ack,
                     uint32_t size)
{
    struct message message = *m;
    message.from = (uint32_t)ack;
    memcpy(to + AT_SIZE, &size, sizeof size);
    memcpy(to + AT_MESSAGE, &message, sizeof message);
    uint32_t sum = head_sum(to, m->kind, number);
    memcpy(to + AT_CRC, &sum, sizeof sum);
    return sum;
}

void frame_end(unsigned char *to, uint32_t size, uint32_t sum)
{
    memcpy(to + FRAME_HEAD + size, &sum, sizeof sum);
}

void frame_seal(unsigned char *frame)
{
    uint32_t sum, size;
    memcpy(&sum, frame + AT_CRC, sizeof sum);
    memcpy(&size, frame + AT_SIZE, sizeof size);
    frame_end(frame, size, acp_crc32c(sum, frame + FRAME_HEAD, size));
}

enum frame_result frame_open(const unsigned char *from, size_t have, uint64_t number,
                             struct frame *frame)
{
    if (have < FRAME_HEAD)
        return FRAME_MORE;
    memcpy(&frame->sum, from + AT_CRC, sizeof frame->sum);
    memcpy(&frame->size, from + AT_SIZE, sizeof frame->size);
    memcpy(&frame->message, from + AT_MESSAGE, sizeof frame->message);
    if (frame->size > FRAME_PAYLOAD_MOST ||
        frame->sum != head_sum(from, frame->message.kind, number))
        return FRAME_BAD;
    frame->ack = frame->message.from;
    frame->total = frame_bytes(frame->size);
    frame->payload = frame->size ? from + FRAME_HEAD : NULL;
    return have < frame->total ? FRAME_MORE : FRAME_WHOLE;
}

bool frame_right(const struct frame *frame, uint32_t sum)
{
    return !frame->size || memcmp(frame->payload + frame->size, &sum, sizeof sum) == 0;
}

enum frame_result frame_read(const unsigned char *from, size_t have, uint64_t number,
                             struct frame *frame)
{
    enum frame_result rc = frame_open(from, have, number, frame);
    bool wrong = rc == FRAME_WHOLE &&
                 !frame_right(frame, acp_crc32c(frame->sum, frame->payload, frame->size));
    return wrong ? FRAME_BAD : rc;
}
