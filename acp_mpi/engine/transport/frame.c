/* Frames are summed as they are copied, so that the sum is that of the sent bytes and of those in place at the
 * receiver. */
#include "transport/frame.h"
#include "base/crc32c.h"
#include "base/crc32c_copy.h"
#include "core/engine.h"

#include <string.h>

enum { AT_CRC = 0, AT_SIZE = FRAME_AT_SIZE, AT_MESSAGE = FRAME_CLEAR };
static_assert(AT_MESSAGE + sizeof(struct message) == FRAME_HEAD, "one cache line");

bool frame_numbered(uint8_t kind)
{
    return kind < ACP_SESSION;
}

uint32_t frame_payload(const unsigned char *frame)
{
    uint32_t size;
    memcpy(&size, frame + AT_SIZE, sizeof size);
    return size;
}

size_t frame_size(const unsigned char *frame)
{
    return frame_bytes(frame_payload(frame));
}

size_t frame_sealed_size(const unsigned char *frame)
{
    return frame_sealed_bytes(frame_payload(frame));
}

static uint32_t numbered_sum(const unsigned char *frame, uint64_t number)
{
    return acp_crc32c((uint32_t)number, frame + AT_SIZE, FRAME_HEAD - AT_SIZE);
}

static uint32_t head_sum(const unsigned char *frame, uint8_t kind, uint64_t number)
{
    return numbered_sum(frame, frame_numbered(kind) ? number : 0);
}

void frame_write(unsigned char *to, const struct message *m, uint64_t number, uint64_t ack,
                 const void *payload, uint32_t size)
{
    uint32_t sum = frame_begin(to, m, number, ack, size);
    if (size)
        frame_end(to, size, acp_crc32c_copy(sum, to + FRAME_HEAD, payload, size));
}

void frame_compose(unsigned char *to, const struct message *m, uint64_t ack, uint32_t size)
{
    struct message message = *m;
    message.from = (uint32_t)ack;
    memcpy(to + AT_SIZE, &size, sizeof size);
    memcpy(to + AT_MESSAGE, &message, sizeof message);
}

uint32_t frame_begin(unsigned char *to, const struct message *m, uint64_t number, uint64_t ack,
                     uint32_t size)
{
    frame_compose(to, m, ack, size);
    uint32_t sum = head_sum(to, m->kind, number);
    memcpy(to + AT_CRC, &sum, sizeof sum);
    return sum;
}

void frame_end(unsigned char *to, uint32_t size, uint32_t sum)
{
    memcpy(to + FRAME_HEAD + size, &sum, sizeof sum);
}

void frame_sum(unsigned char *frame)
{
    uint32_t sum, size = frame_payload(frame);
    memcpy(&sum, frame + AT_CRC, sizeof sum);
    frame_end(frame, size, acp_crc32c(sum, frame + FRAME_HEAD, size));
}

void frame_head_close(unsigned char *frame, uint64_t number)
{
    uint32_t sum = numbered_sum(frame, number);
    memcpy(frame + AT_CRC, &sum, sizeof sum);
}

bool frame_head_right(const unsigned char *frame, uint64_t number)
{
    uint32_t sum = numbered_sum(frame, number);
    return memcmp(frame + AT_CRC, &sum, sizeof sum) == 0;
}

void frame_parse(const unsigned char *from, struct frame *frame)
{
    frame->size = frame_payload(from);
    memcpy(&frame->message, from + AT_MESSAGE, sizeof frame->message);
    frame->ack = frame->message.from;
    frame->payload = frame->size ? from + FRAME_HEAD : NULL;
}

enum frame_result frame_open(const unsigned char *from, size_t have, uint64_t number,
                             struct frame *frame)
{
    if (have < FRAME_HEAD)
        return FRAME_MORE;
    memcpy(&frame->sum, from + AT_CRC, sizeof frame->sum);
    frame_parse(from, frame);
    if (frame->size > FRAME_PAYLOAD_MOST ||
        frame->sum != head_sum(from, frame->message.kind, number))
        return FRAME_BAD;
    frame->total = frame_bytes(frame->size);
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
