/* Writes the examples of the corpus anew (`make corpus`): when a kind is added, or the format
 * changes on purpose. Until then the files as they are must keep their verdict. */
#include "opening.h"
#include "base/crc32c.h"
#include "core/engine.h"
#include "transport/frame.h"
#include "transport/handshake.h"

#define STREAM_MOST 8192

struct stream {
    unsigned char bytes[STREAM_MOST];
    size_t size;
    uint64_t number;
};

static void save(const char *folder, const char *name, const void *bytes, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "fuzz/corpus/%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

static void begin(struct stream *s, uint64_t number)
{
    memcpy(s->bytes, &number, sizeof number);
    s->size = sizeof number;
    s->number = number;
}

static unsigned char *say(struct stream *s, const struct message *m, const void *payload,
                          uint32_t size)
{
    unsigned char *at = s->bytes + s->size;
    CHECK(s->size + frame_bytes(size) <= STREAM_MOST);
    frame_write(at, m, s->number, 0, payload, size);
    s->size += frame_bytes(size);
    s->number += frame_numbered(m->kind);
    return at;
}

static void save_stream(const char *name, const struct stream *s)
{
    save("frames", name, s->bytes, s->size);
}

/* An address in the starter memory of rank 0. */
static acp_ga_t starter(uint64_t at)
{
    return acp_ga(0, 0, STARTER_OFFSET + at);
}

static struct message command(uint8_t kind, uint64_t id)
{
    struct message m = {.kind = kind, .id = id, .src = starter(64), .a = 1};
    if (kind == ACP_COPY || kind == ACP_PUT)
        m.dst = starter(128);
    if (kind == ACP_COPY || kind == ACP_PUT || kind == ACP_GET)
        m.a = 24;
    return m;
}

static void commands(void)
{
    static const unsigned char payload[24] = "what a put brings";
    struct stream s;
    struct message m;
    begin(&s, 0);
    m = command(ACP_COPY, 2);
    say(&s, &m, NULL, 0);
    m = command(ACP_PUT, 4);
    say(&s, &m, payload, sizeof payload);
    m = command(ACP_GET, 6);
    say(&s, &m, NULL, 0);
    save_stream("good-copies", &s);
    begin(&s, 0);
    for (uint8_t kind = ACP_CAS4; kind <= ACP_AND8; kind++) {
        m = command(kind, 2u * kind);
        say(&s, &m, NULL, 0);
    }
    save_stream("good-atomics", &s);
    begin(&s, UINT32_MAX - 1);
    for (uint64_t id = 2; id <= 8; id += 2) {
        m = command(ACP_ADD8, id);
        m.after = id - 2;
        say(&s, &m, NULL, 0);
    }
    save_stream("good-chain-past-32-bits", &s);
}

/* Three elements of each kind in one frame: records of words, as batch.c has them. */
static void batches(void)
{
    static const struct {
        uint8_t kind;
        uint32_t words;
    } kinds[] = {{ACP_PUT, 2}, {ACP_GET, 1}, {ACP_ADD8, 3}, {ACP_CAS8, 3}};
    struct stream s;
    begin(&s, 0);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        uint32_t words = kinds[k].words;
        uint64_t records[9] = {0};
        struct message m = {.kind = ACP_BATCH, .flags = kinds[k].kind, .id = 2 + 2 * k,
                            .status = 1, .a = 8, .b = 3};
        for (uint32_t i = 0; i < 3; i++)
            records[i * words] = starter(256 + 8 * i);
        say(&s, &m, records, 3 * 8 * words);
    }
    save_stream("good-batches", &s);
}

/* Methods 1 to 3 are those of fuzz_link.c. */
static void calls(void)
{
    static const unsigned char payload[16] = "what a call has";
    struct stream s;
    begin(&s, 0);
    for (uint8_t method = 1; method <= 3; method++) {
        uint32_t size = method == 1 ? sizeof payload : 0;
        struct message m = {.kind = ACP_CALL, .flags = method, .id = 2u * method,
                            .src = starter(320), .a = 1, .b = 2,
                            .after = (uint64_t)size << 32 | 24};
        say(&s, &m, payload, size);
    }
    save_stream("good-calls", &s);
}

static void answers(void)
{
    static const unsigned char payload[8] = "brought";
    struct stream s;
    struct message m = {.kind = ACP_REPLY, .id = 2, .a = 7};
    begin(&s, 3);
    say(&s, &m, NULL, 0);
    m.id = 4;
    m.after = sizeof payload;
    say(&s, &m, payload, sizeof payload);
    m.id = 6;
    m.status = ACP_E_BOUNDS;
    m.b = starter(0);
    say(&s, &m, NULL, 0);
    save_stream("good-replies", &s);
    begin(&s, 0);
    m = (struct message){.kind = ACP_LOST, .a = 9};
    say(&s, &m, NULL, 0);
    m = (struct message){.kind = ACP_LEAVING};
    say(&s, &m, NULL, 0);
    m = (struct message){.kind = ACP_SIGNAL, .a = 0x1234, .b = 1};
    say(&s, &m, NULL, 0);
    save_stream("good-notices", &s);
    begin(&s, 0);
    m = (struct message){.kind = ACP_PUBLISH, .id = 2, .dst = 5, .src = 6, .a = 7, .b = 8};
    say(&s, &m, NULL, 0);
    m = (struct message){.kind = ACP_LOOKUP, .id = 4, .dst = 5, .src = 6};
    say(&s, &m, NULL, 0);
    m = (struct message){.kind = ACP_DOING, .id = 6};
    say(&s, &m, NULL, 0);
    save_stream("good-board", &s);
}

static void of_links(void)
{
    struct stream s;
    struct message m = {.kind = ACP_SESSION, .flags = 1, .id = 1};
    begin(&s, 0);
    say(&s, &m, NULL, 0);
    m = command(ACP_ADD8, 2);
    say(&s, &m, NULL, 0);
    m = (struct message){.kind = ACP_ACK};
    say(&s, &m, NULL, 0);
    m = (struct message){.kind = ACP_PROBE};
    say(&s, &m, NULL, 0);
    save_stream("good-session", &s);
}

static void refused(void)
{
    static const unsigned char one[8] = "payload", two[8] = "another";
    struct stream s;
    struct message m = command(ACP_PUT, 2);
    uint32_t size = FRAME_PAYLOAD_MOST + 1;
    begin(&s, 0);
    unsigned char *frame = say(&s, &m, NULL, 0);
    memcpy(frame + 4, &size, sizeof size);
    uint32_t sum = acp_crc32c(0, frame + 4, FRAME_HEAD - 4);
    memcpy(frame, &sum, sizeof sum);
    save_stream("bad-payload-too-long", &s);
    begin(&s, 0);
    say(&s, &m, one, sizeof one);
    s.number = 0;
    say(&s, &m, one, sizeof one);
    save_stream("bad-said-twice", &s);
    begin(&s, 0);
    m.id = 4;
    frame = say(&s, &m, one, sizeof one);
    m.id = 2;
    say(&s, &m, two, sizeof two);
    memcpy(frame + FRAME_HEAD, frame + 2 * FRAME_HEAD + sizeof one + FRAME_SUM,
           sizeof two + FRAME_SUM);
    save_stream("bad-payload-of-another", &s);
    begin(&s, 0);
    memset(s.bytes + s.size, 0, FRAME_HEAD);
    s.size += FRAME_HEAD;
    save_stream("bad-nothing-but-zeros", &s);
}

static void handshakes(void)
{
    unsigned char server[OPENING_MOST], client[OPENING_MOST];
    size_t to_server = opening_bytes(true, server), to_client = opening_bytes(false, client);
    save("handshake", "server-good", server, to_server);
    save("handshake", "client-good", client, to_client);
    save("handshake", "server-hello-alone", server, ACP_HELLO_SIZE);
    save("handshake", "server-proof-alone", server + ACP_HELLO_SIZE, ACP_PROOF_SIZE);
    save("handshake", "server-own-challenge", client, to_client);
    save("handshake", "client-own-hello", server, ACP_HELLO_SIZE);
    client[5] = (unsigned char)-ACP_HANDSHAKE_WRONG_SLOT;
    save("handshake", "client-forged-refusal", client, to_client);
    memset(server + ACP_HELLO_SIZE + 8, 0, ACP_PROOF_SIZE - 8);
    save("handshake", "server-empty-proof", server, to_server);
}

int main(void)
{
    commands();
    batches();
    calls();
    answers();
    of_links();
    refused();
    handshakes();
    return 0;
}
