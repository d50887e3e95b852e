/* What arrives in place of frames. A file of corpus/frames is the number of its first frame, 8
 * bytes little-endian, and then a stream. */
#include "fuzz.h"
#include "core/engine.h"
#include "transport/frame.h"

#define MOST ((size_t)256 << 10)
#define FRAMES_MOST 64

struct stream {
    uint64_t number; /* of the first frame */
    unsigned char bytes[MOST];
    size_t size;
    size_t starts[FRAMES_MOST + 1]; /* of a generated one */
    size_t count;
};

/* What is accepted is, byte for byte, what frame_write makes of it with this number. */
static void check_accepted(const struct frame *f, const unsigned char *from, size_t have,
                           uint64_t number)
{
    CHECK(f->size <= FRAME_PAYLOAD_MOST && f->total == frame_bytes(f->size));
    CHECK(f->total <= have && frame_size(from) == f->total);
    CHECK(f->size ? f->payload == from + FRAME_HEAD : !f->payload);
    unsigned char *again = malloc(f->total);
    CHECK(again);
    frame_write(again, &f->message, number, f->ack, f->payload, f->size);
    CHECK(memcmp(again, from, f->total) == 0);
    free(again);
}

/* Reads to the end of the stream, in pieces of any size: WHOLE, or what it ended in the middle
 * of. *frames: how many were whole. */
static enum frame_result read_all(const unsigned char *bytes, size_t size, uint64_t number,
                                  size_t *frames)
{
    enum frame_result rc = FRAME_MORE;
    size_t at = 0, have = 0;
    *frames = 0;
    while (rc != FRAME_BAD && (at + have < size || rc == FRAME_WHOLE)) {
        struct frame f;
        if (rc == FRAME_MORE)
            have += 1 + fuzz_below(fuzz_below(2) ? size - at - have : 100);
        have = have < size - at ? have : size - at;
        unsigned char *piece = malloc(have ? have : 1); /* not a byte more is there */
        CHECK(piece);
        memcpy(piece, bytes + at, have);
        rc = frame_read(piece, have, number, &f);
        if (rc == FRAME_WHOLE) {
            check_accepted(&f, piece, have, number);
            number += frame_numbered(f.message.kind);
            at += f.total;
            have -= f.total;
            ++*frames;
        }
        free(piece);
    }
    return rc == FRAME_MORE && !have ? FRAME_WHOLE : rc;
}

static void random_message(struct message *m)
{
    static const uint8_t unnumbered[] = {ACP_SESSION, ACP_ACK, ACP_PROBE};
    for (size_t i = 0; i < sizeof *m; i += 8) {
        uint64_t value = fuzz_draw();
        memcpy((unsigned char *)m + i, &value, 8);
    }
    m->kind = fuzz_below(4) ? (uint8_t)fuzz_below(ACP_DOING + 1) : unnumbered[fuzz_below(3)];
}

static void generate(struct stream *s)
{
    static const uint32_t sizes[] = {0, 1, 3, 8, 63, 64, 65, 1000, 4096};
    uint64_t number = fuzz_below(2) ? fuzz_draw() : (fuzz_interesting() - fuzz_below(4));
    unsigned char payload[4096];
    s->number = number;
    s->size = s->count = 0;
    for (uint64_t frames = 1 + fuzz_below(8); frames; frames--) {
        struct message m;
        uint32_t size = fuzz_below(2) ? sizes[fuzz_below(sizeof sizes / sizeof *sizes)] : 0;
        random_message(&m);
        memset(payload, (int)fuzz_below(256), size);
        frame_write(s->bytes + s->size, &m, number, fuzz_draw(), payload, size);
        s->starts[s->count++] = s->size;
        s->size += frame_bytes(size);
        number += frame_numbered(m.kind);
    }
    s->starts[s->count] = s->size;
}

static uint64_t number_of(const struct stream *s, size_t which)
{
    uint64_t number = s->number;
    for (size_t i = 0; i < which; i++)
        number += frame_numbered(s->bytes[s->starts[i] + 8]);
    return number;
}

static void sound_streams_are_read_whole(struct stream *s)
{
    size_t frames;
    CHECK(read_all(s->bytes, s->size, s->number, &frames) == FRAME_WHOLE && frames == s->count);
}

/* CRC-32C finds any three flipped bits at every size that a frame may have. */
static void flipped_bits_are_found(struct stream *s)
{
    size_t which = fuzz_below(s->count), start = s->starts[which];
    size_t size = s->starts[which + 1] - start;
    uint64_t flips = 1 + fuzz_below(3), bits[3];
    struct frame f;
    for (uint64_t i = 0; i < flips; i++) {
        bits[i] = fuzz_below(8 * size);
        for (uint64_t k = 0; k < i; k++)
            if (bits[k] == bits[i])
                return; /* it would flip back */
    }
    for (uint64_t i = 0; i < flips; i++)
        s->bytes[start + bits[i] / 8] ^= (unsigned char)(1u << bits[i] % 8);
    CHECK(frame_read(s->bytes + start, size, number_of(s, which), &f) == FRAME_BAD);
}

static void every_flipped_bit_is_found(struct stream *s)
{
    size_t which = fuzz_below(s->count), start = s->starts[which];
    size_t size = s->starts[which + 1] - start;
    uint64_t number = number_of(s, which);
    struct frame f;
    for (size_t bit = 0; bit < 8 * size; bit++) {
        unsigned char *byte = s->bytes + start + bit / 8, mask = (unsigned char)(1u << bit % 8);
        *byte ^= mask;
        CHECK(frame_read(s->bytes + start, size, number, &f) == FRAME_BAD);
        *byte ^= mask;
    }
}

static void another_number_is_refused(struct stream *s)
{
    size_t which = fuzz_below(s->count), start = s->starts[which];
    size_t size = s->starts[which + 1] - start;
    uint64_t number = number_of(s, which), off = fuzz_below(2) ? 1 : fuzz_draw() % UINT32_MAX + 1;
    bool numbered = frame_numbered(s->bytes[start + 8]);
    struct frame f;
    CHECK(frame_read(s->bytes + start, size, number + off, &f) ==
          (numbered && (uint32_t)off ? FRAME_BAD : FRAME_WHOLE));
}

/* A frame with the payload of another of the same size, both sound. */
static void a_payload_belongs_to_its_head(void)
{
    unsigned char one[FRAME_HEAD + 8 + FRAME_SUM], two[sizeof one];
    struct message m;
    uint64_t value = fuzz_draw();
    struct frame f;
    random_message(&m);
    frame_write(one, &m, 5, 0, &value, sizeof value);
    value++;
    m.id++;
    frame_write(two, &m, 6, 0, &value, sizeof value);
    memcpy(one + FRAME_HEAD, two + FRAME_HEAD, sizeof one - FRAME_HEAD);
    CHECK(frame_read(one, sizeof one, 5, &f) == FRAME_BAD);
}

static void load(struct stream *s, const struct fuzz_entry *entry)
{
    CHECK(entry->size >= sizeof s->number && entry->size - sizeof s->number <= MOST);
    memcpy(&s->number, entry->data, sizeof s->number);
    s->size = entry->size - sizeof s->number;
    memcpy(s->bytes, entry->data + sizeof s->number, s->size);
}

int main(void)
{
    struct stream *s = malloc(sizeof *s);
    size_t frames;
    CHECK(s);
    fuzz_begin("frame", 30000);
    fuzz_corpus("frames");
    for (size_t i = 0; i < fuzz.count; i++) {
        bool good = strncmp(fuzz.entries[i].name, "good-", 5) == 0;
        CHECK(good || strncmp(fuzz.entries[i].name, "bad-", 4) == 0);
        fuzz_start_round(i);
        load(s, &fuzz.entries[i]);
        CHECK(read_all(s->bytes, s->size, s->number, &frames) == (good ? FRAME_WHOLE : FRAME_BAD));
    }
    fuzz.round = UINT64_MAX;
    while (fuzz_more()) {
        uint64_t what = fuzz_below(8);
        if (what < 5)
            generate(s);
        if (what == 0) {
            sound_streams_are_read_whole(s);
        } else if (what < 3) {
            flipped_bits_are_found(s);
        } else if (what == 3) {
            if (fuzz_below(16) == 0)
                every_flipped_bit_is_found(s);
            a_payload_belongs_to_its_head();
        } else if (what == 4) {
            another_number_is_refused(s);
        } else {
            load(s, fuzz_pick());
            s->size = fuzz_mutate(s->bytes, s->size, MOST);
            read_all(s->bytes, s->size, s->number, &frames);
        }
    }
    free(s);
    return fuzz_end();
}
