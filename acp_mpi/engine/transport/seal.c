#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* explicit_bzero */
#endif
#include "transport/seal.h"
#include "base/gmac.h"
#include "base/libcrypto.h"
#include "base/linux.h"
#include "base/sha256.h"
#include "transport/tcp_send_queue.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define AHEAD_MAC ((size_t)512 << 10)    /* bytes sealed at a time, and what is left of the last frame */
#define AHEAD_ENCRYPT ((size_t)32 << 10) /* likewise; they are in memory of their own */

static_assert(FRAME_TAG == GMAC_TAG && FRAME_TAG == LIBCRYPTO_TAG && FRAME_HEAD == GMAC_HEAD, "as frames have them");

struct direction {
    struct gmac mac;
    void *context;    /* of libcrypto; NULL: `mac` is used */
    uint64_t counter; /* of the next frame */
};

struct seal {
    struct direction out, in;
    const struct libcrypto *lib;
    bool encrypts;
    bool opened;           /* the next frame has been checked, and decrypted in its place */
    size_t ahead;          /* bytes that are sealed and not sent */
    unsigned char *sealed; /* these bytes, encrypted; NULL: they are in the send queue */
    size_t at;             /* where the first of them is in `sealed` */
};

static bool direction_begin(struct direction *d, const struct libcrypto *lib, bool encrypts, const uint8_t *key,
                            bool out)
{
    if (!encrypts && (gmac_is_fast() || !lib->handle)) {
        gmac_init(&d->mac, key, gmac_is_fast());
        return true;
    }
    return (d->context = libcrypto_key(lib, key, !encrypts || out)) != NULL;
}

struct seal *seal_new(const struct libcrypto *lib, uint8_t mode, const uint8_t *out, const uint8_t *in)
{
    struct seal *s = linux_map(-1, 0, sizeof *s, PROT_READ | PROT_WRITE);
    if (s == MAP_FAILED)
        return NULL;
    s->lib = lib;
    s->encrypts = mode == ACP_LINKS_ENCRYPT;
    if ((!s->encrypts || lib->handle) && direction_begin(&s->out, lib, s->encrypts, out, true) &&
        direction_begin(&s->in, lib, s->encrypts, in, false))
        return s;
    seal_free(s);
    return NULL;
}

void seal_free(struct seal *s)
{
    if (!s)
        return;
    libcrypto_forget(s->lib, s->out.context);
    libcrypto_forget(s->lib, s->in.context);
    free(s->sealed);
    explicit_bzero(s, sizeof *s);
    munmap(s, sizeof *s);
}

static bool tag_make(const struct libcrypto *lib, struct direction *d, const unsigned char *head,
                     const unsigned char *body, size_t size, unsigned char *tag)
{
    if (d->context)
        return libcrypto_begin(lib, d->context, d->counter) &&
               libcrypto_go_on(lib, d->context, NULL, head, FRAME_HEAD) &&
               libcrypto_go_on(lib, d->context, NULL, body, size) && libcrypto_tag(lib, d->context, tag);
    gmac_tag(&d->mac, d->counter, head, body, size, tag);
    return true;
}

/* Seals `frame`, whose payload may be elsewhere, into `to`, which is the frame itself if it only gets a tag. */
static bool seal_one(struct seal *s, unsigned char *frame, const unsigned char *body, unsigned char *to)
{
    struct direction *d = &s->out;
    size_t size = frame_payload(frame);
    unsigned char *tag = to + FRAME_HEAD + size;
    bool good;
    if (s->encrypts) {
        memmove(to, frame, FRAME_CLEAR);
        good = libcrypto_begin(s->lib, d->context, d->counter) &&
               libcrypto_go_on(s->lib, d->context, NULL, to + FRAME_AT_SIZE, FRAME_CLEAR - FRAME_AT_SIZE) &&
               libcrypto_go_on(s->lib, d->context, to + FRAME_CLEAR, frame + FRAME_CLEAR, FRAME_HEAD - FRAME_CLEAR) &&
               libcrypto_go_on(s->lib, d->context, to + FRAME_HEAD, body, size) &&
               libcrypto_tag(s->lib, d->context, tag);
        frame_head_close(to, d->counter);
    } else {
        frame_head_close(frame, d->counter);
        good = tag_make(s->lib, d, frame, body, size, tag);
    }
    d->counter++;
    return good;
}

size_t seal_write(struct seal *s, unsigned char *to, const struct message *m, uint64_t ack, const void *payload,
                  uint32_t size)
{
    if (!s) {
        frame_write(to, m, 0, ack, payload, size);
        return frame_bytes(size);
    }
    frame_compose(to, m, ack, size);
    if (size)
        memcpy(to + FRAME_HEAD, payload, size);
    return seal_one(s, to, to + FRAME_HEAD, to) ? frame_sealed_bytes(size) : 0;
}

void seal_unsent(struct seal *s)
{
    if (s)
        s->out.counter--;
}

struct filling {
    struct seal *s;
    unsigned char *to; /* NULL: tags only */
};

static bool fill(void *context, unsigned char *frame, const unsigned char *lent)
{
    struct filling *f = context;
    unsigned char *to = f->to ? f->to : frame;
    if (f->to)
        f->to += frame_sealed_size(frame);
    return seal_one(f->s, frame, lent ? lent : frame + FRAME_HEAD, to);
}

/* Seals the next frames of the queue, as far as is to be sent now; false: it cannot. */
static bool seal_ahead(struct seal *s, struct outbox *o, size_t turn)
{
    size_t ahead = s->encrypts ? AHEAD_ENCRYPT : AHEAD_MAC, most = turn < ahead ? turn : ahead;
    struct filling filling = {.s = s};
    if (s->encrypts) {
        s->sealed = malloc(tcp_send_queue_ahead(o, most, frame_sealed_size, NULL, NULL));
        s->at = 0;
        filling.to = s->sealed;
        if (!s->sealed)
            return false;
    }
    s->ahead = tcp_send_queue_ahead(o, most, frame_sealed_size, fill, &filling);
    return s->ahead != 0;
}

int seal_pieces(struct seal *s, struct outbox *o, struct iovec *pieces, int most, size_t turn)
{
    if (!s->ahead && !seal_ahead(s, o, turn))
        return 0;
    if (s->sealed) {
        pieces[0] = (struct iovec){s->sealed + s->at, s->ahead};
        return 1;
    }
    size_t left = s->ahead;
    int count = tcp_send_queue_pieces(o, pieces, most), used = 0;
    for (; used < count && left; left -= pieces[used++].iov_len)
        if (pieces[used].iov_len > left)
            pieces[used].iov_len = left;
    return used;
}

void seal_sent(struct seal *s, size_t size)
{
    s->ahead -= size;
    s->at += size;
    if (!s->ahead) {
        free(s->sealed);
        s->sealed = NULL;
    }
}

bool seal_between(const struct seal *s)
{
    return !s || !s->ahead;
}

static bool open_one(struct seal *s, unsigned char *from, size_t size)
{
    struct direction *d = &s->in;
    unsigned char *tag = from + FRAME_HEAD + size, expected[FRAME_TAG];
    if (s->encrypts)
        return libcrypto_begin(s->lib, d->context, d->counter) &&
               libcrypto_go_on(s->lib, d->context, NULL, from + FRAME_AT_SIZE, FRAME_CLEAR - FRAME_AT_SIZE) &&
               libcrypto_go_on(s->lib, d->context, from + FRAME_CLEAR, from + FRAME_CLEAR, FRAME_HEAD - FRAME_CLEAR + size) &&
               libcrypto_check(s->lib, d->context, tag);
    return tag_make(s->lib, d, from, from + FRAME_HEAD, size, expected) &&
           acp_equal_ct(expected, tag, sizeof expected);
}

enum frame_result seal_read(struct seal *s, unsigned char *from, size_t have, struct frame *frame)
{
    if (have < FRAME_HEAD)
        return FRAME_MORE;
    uint32_t size = frame_payload(from);
    if (!s->opened && (size > FRAME_PAYLOAD_MOST || !frame_head_right(from, s->in.counter)))
        return FRAME_BAD;
    if (have < frame_sealed_bytes(size))
        return FRAME_MORE;
    if (!s->opened && !open_one(s, from, size))
        return FRAME_BAD;
    s->opened = true;
    frame_parse(from, frame);
    frame->total = frame_sealed_bytes(size);
    return FRAME_WHOLE;
}

void seal_taken(struct seal *s)
{
    s->in.counter++;
    s->opened = false;
}

static bool code_make(struct seal *s, struct direction *d, const void *head, size_t head_size, const void *body,
                      size_t size, uint8_t *code)
{
    unsigned char whole[FRAME_HEAD] = {0};
    memcpy(whole, head, head_size);
    return tag_make(s->lib, d, whole, body, size, code);
}

bool seal_code(struct seal *s, const void *head, size_t head_size, const void *body, size_t size, uint8_t *code)
{
    bool good = code_make(s, &s->out, head, head_size, body, size, code);
    s->out.counter++;
    return good;
}

bool seal_code_right(struct seal *s, const void *head, size_t head_size, const void *body, size_t size,
                     const uint8_t *code)
{
    uint8_t expected[FRAME_TAG];
    bool right = code_make(s, &s->in, head, head_size, body, size, expected) &&
                 acp_equal_ct(expected, code, sizeof expected);
    s->in.counter++;
    return right;
}
