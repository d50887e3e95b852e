/* Whole engines and what peers send them over real sockets: openings and streams that are not
 * what they should be, sound frames with senseless contents, and calls of the engine that are
 * answered so. It must live, serve the other engine, and end what cannot go on.
 *
 * What a member of the job says in a sound frame is believed, so two things are left out: that
 * an engine of the test is dead, and that it is held for dead itself. */
#include "fuzz.h"
#include "cluster/stranger.h"
#include "support/methods.h"
#include "core/engine.h"
#include "transport/frame.h"
#include "transport/handshake.h"

#include <poll.h>

#define PEER_TIMEOUT_NS ((uint64_t)60000000000)
#define VICTIM 0u
#define MOST ((size_t)1 << 14)
#define PAYLOAD_KEPT 128u /* longest in the corpus */

static unsigned char brought[1 << 20]; /* by gets of the victim, which may never end */
static const unsigned char answer_bytes[1 << 16];

static int method_never(acp_lane *lane, struct acp_call *c)
{
    (void)lane;
    (void)c;
    return ACP_E_BUSY;
}

static const acp_method methods[UINT8_MAX + 1] = {
    [1] = method_echo, [2] = method_add, [3] = method_never,
};

/* Any frame of any file of the corpus. */
static void pick_message(struct message *m, unsigned char *payload, uint32_t *size)
{
    const struct fuzz_entry *entry = fuzz_pick();
    const unsigned char *from = entry->data + sizeof(uint64_t);
    const unsigned char *end = entry->data + entry->size;
    for (uint64_t skip = fuzz_below(8); skip; skip--) {
        size_t whole = frame_size(from);
        if ((size_t)(end - from) < whole + FRAME_HEAD)
            break;
        from += whole;
    }
    memcpy(m, from + 8, sizeof *m);
    memcpy(size, from + 4, sizeof *size);
    *size = *size <= PAYLOAD_KEPT && (size_t)(end - from) >= frame_bytes(*size) ? *size : 0;
    memcpy(payload, from + FRAME_HEAD, *size);
}

static uint64_t some_value(uint64_t now)
{
    switch (fuzz_below(6)) {
    case 0: return fuzz_interesting();
    case 1: return stranger_word((uint32_t)fuzz_below(4)) + fuzz_below(64);
    case 2: return acp_ga((uint32_t)fuzz_below(RESIDENTS + STRANGERS + 1),
                          (uint32_t)fuzz_below(LINK_COLORS), fuzz_draw() >> fuzz_below(64) >> 24);
    case 3: return now ^ 1ull << fuzz_below(64);
    case 4: return fuzz_below(600);
    default: return now + fuzz_below(9) - 4;
    }
}

static void distort(struct message *m)
{
    uint64_t *fields[] = {&m->id, &m->dst, &m->src, &m->a, &m->b, &m->after};
    for (uint64_t n = fuzz_below(4); n; n--) {
        uint64_t *field = fields[fuzz_below(6)];
        *field = some_value(*field);
    }
    if (fuzz_below(6) == 0)
        m->kind = (uint8_t)(fuzz_below(2) ? fuzz_below(ACP_DOING + 2) : fuzz_draw());
    if (fuzz_below(8) == 0)
        m->flags = (uint8_t)fuzz_draw();
    if (fuzz_below(8) == 0)
        m->status = (int16_t)(fuzz_below(2) ? -(int)fuzz_below(20) : (int)fuzz_draw());
    if (m->kind == ACP_LOST && (uint32_t)m->a < RESIDENTS)
        m->a = RESIDENTS;
    if (m->kind == ACP_SESSION && m->status == ACP_E_LOST)
        m->status = ACP_OK;
}

/* Reads what has come, so that the engine is not kept from going on. */
static void listen_a_little(struct stranger *s)
{
    unsigned char bytes[4096];
    while (recv(s->fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        continue;
}

static void say_something(struct stranger *s)
{
    unsigned char payload[FRAME_PAYLOAD_MOST];
    struct message m;
    uint32_t size;
    memset(payload, 0xa5, sizeof payload);
    pick_message(&m, payload, &size);
    if (fuzz_below(3))
        distort(&m);
    if (size && fuzz_below(3) == 0)
        payload[fuzz_below(size)] ^= (unsigned char)(1u << fuzz_below(8));
    if (fuzz_below(12) == 0)
        size = (uint32_t)fuzz_below(sizeof payload + 1);
    if (m.kind == ACP_PUT && fuzz_below(4))
        m.a = size;
    uint64_t ack = fuzz_below(40) ? 0 : fuzz_interesting();
    stranger_say(s, &m, ack, payload, size);
}

/* A frame with flipped bits: whatever it would have said, the stream ends here. */
static void say_flipped(struct stranger *s)
{
    unsigned char frame[FRAME_HEAD], payload[PAYLOAD_KEPT];
    struct message m;
    uint32_t size;
    pick_message(&m, payload, &size);
    frame_write(frame, &m, s->said, 0, NULL, 0);
    for (uint64_t n = 1 + fuzz_below(3), bit = fuzz_below(100); n; n--, bit += 1 + fuzz_below(100))
        frame[bit / 8] ^= (unsigned char)(1u << bit % 8);
    stranger_send(s, frame, sizeof frame);
    stranger_sees_the_end(s);
}

static void say_garbage(struct stranger *s)
{
    unsigned char bytes[MOST];
    const struct fuzz_entry *entry = fuzz_pick();
    size_t size = entry->size < MOST ? entry->size : MOST;
    memcpy(bytes, entry->data, size);
    size = fuzz_mutate(bytes, size, MOST);
    stranger_send(s, bytes, size);
}

static void talk(struct stranger *s)
{
    for (uint64_t n = fuzz_below(60); n && s->fd >= 0; n--) {
        uint64_t what = fuzz_below(200);
        if (what == 0)
            say_garbage(s);
        else if (what < 3)
            say_flipped(s);
        else
            say_something(s);
        if (s->fd >= 0 && fuzz_below(4))
            listen_a_little(s);
    }
}

/* Without the secret: nothing is run, so the first word of the victim stays what it was. */
static void break_in(struct town *t, uint32_t slot)
{
    static const uint8_t wrong[32] = "another secret";
    struct stranger s;
    unsigned char bytes[MOST];
    uint64_t before = stranger_look(t, VICTIM);
    struct message session = {.kind = ACP_SESSION, .flags = 1, .id = 1};
    struct message add = {.kind = ACP_ADD8, .id = 2, .src = stranger_word(VICTIM), .a = 1};
    stranger_call(t, &s, slot, VICTIM);
    if (fuzz_below(2)) {
        stranger_prove(t, &s, VICTIM, wrong);
        memset(bytes, 0, ACP_PROOF_SIZE);
        memcpy(bytes, "ACPP", 4);
        stranger_send(&s, bytes, ACP_PROOF_SIZE);
    } else {
        acp_handshake hs;
        acp_handshake_client(&hs, stranger_secret, stranger_job, ACP_ROLE_LINK, slot, VICTIM,
                             t->rows[slot].nonce, 0);
        memcpy(bytes, hs.out, hs.out_len);
        size_t size = fuzz_mutate(bytes, hs.out_len, MOST / 2);
        memset(bytes + size, 'A', ACP_HELLO_SIZE + ACP_PROOF_SIZE); /* never short of a message */
        stranger_send(&s, bytes, size + ACP_HELLO_SIZE + ACP_PROOF_SIZE);
    }
    stranger_say(&s, &session, 0, NULL, 0);
    stranger_say(&s, &add, 0, NULL, 0);
    stranger_sees_the_end(&s);
    CHECK(stranger_look(t, VICTIM) == before);
}

/* With the secret: a link over several streams. */
static void visit(struct town *t, uint32_t slot)
{
    struct message answer;
    uint64_t said = 0, id = 1 + fuzz_below(3);
    for (uint64_t streams = 1 + fuzz_below(3); streams; streams--) {
        struct stranger s;
        stranger_call(t, &s, slot, VICTIM);
        if (stranger_prove(t, &s, VICTIM, stranger_secret) != ACP_HANDSHAKE_DONE)
            CHECK(!"the engine refuses a member of the job");
        if (fuzz_below(16) == 0)
            say_garbage(&s);
        if (!stranger_session(&s, id, true, 0, &answer)) {
            stranger_leave(&s);
            continue;
        }
        CHECK(answer.status == ACP_E_LOST || (answer.status == ACP_OK && answer.a <= said));
        s.said = answer.a;
        talk(&s);
        said = s.said > said ? s.said : said;
        if (s.fd >= 0 && fuzz_below(4) == 0)
            say_flipped(&s);
        stranger_leave(&s);
    }
}

/* What is brought lies apart, so that no two calls write the same bytes. */
static void call_stranger(acp_lane *lane, uint32_t slot)
{
    static struct acp_call calls[1024];
    static unsigned char room[1024][64];
    static uint32_t next;
    uint32_t i = next++ % 1024;
    calls[i] = (struct acp_call){.method = 1, .object = stranger_word(slot), .in = brought,
                                 .in_size = fuzz_below(65), .out = room[i],
                                 .out_room = fuzz_below(65)};
    acp_icall(lane, &calls[i], ACP_HANDLE_NULL);
}

static void chain_to_stranger(acp_lane *lane, uint32_t slot)
{
    for (uint64_t n = fuzz_below(8); n; n--) {
        acp_handle_t h = acp_atomic(lane, ACP_ADD8, ACP_GA_NULL, stranger_word(slot), 1, 0,
                                    ACP_HANDLE_CONT);
        if (h)
            acp_lane_previous(lane, h);
    }
}

/* The victim calls: it has something to ask of a stranger, who answers as it likes. */
static void be_visited(struct town *t, uint32_t slot)
{
    acp_lane *lane = acp_engine_lane(t->engines[VICTIM]);
    struct pollfd p = {.fd = t->listeners[slot], .events = POLLIN};
    if (fuzz_below(3) == 0)
        call_stranger(lane, slot);
    else if (fuzz_below(3) == 0)
        chain_to_stranger(lane, slot);
    else if (fuzz_below(2))
        acp_iget(lane, brought, stranger_word(slot), 1 + fuzz_below(sizeof brought), 0);
    else
        acp_iput(lane, stranger_word(slot), brought, 1 + fuzz_below(sizeof brought), 0);
    for (uint64_t streams = 1 + fuzz_below(3); streams; streams--) {
        struct stranger s;
        struct frame f;
        if (poll(&p, 1, 60) != 1)
            return; /* it has a link already, or holds this one for dead */
        stranger_accept(t, &s, slot);
        uint64_t what = fuzz_below(8);
        if (what == 0) {
            say_garbage(&s);
        } else if (what > 1 && stranger_let_prove(&s) && stranger_receive(&s, s.in, FRAME_HEAD)) {
            CHECK(frame_read(s.in, FRAME_HEAD, 0, &f) == FRAME_WHOLE);
            struct message session = {.kind = ACP_SESSION, .id = f.message.id};
            uint64_t claim = fuzz_below(3) ? 0 : fuzz_below(2) ? fuzz_below(20) : fuzz_draw();
            session.a = claim;
            stranger_say(&s, &session, 0, NULL, 0);
            s.said = f.message.a;
            for (uint64_t n = fuzz_below(20); n; n--) {
                struct message reply = {.kind = ACP_REPLY, .id = 2 + 2 * fuzz_below(8),
                                        .flags = fuzz_below(2)   ? ANSWER_TOGETHER
                                                 : fuzz_below(2) ? ANSWER_COUNTED
                                                                 : 0,
                                        .dst = fuzz_below(4) << 16, .a = fuzz_draw(),
                                        .b = fuzz_below(2) ? fuzz_below(8) : fuzz_draw(),
                                        .after = 1 << 16};
                if (fuzz_below(2))
                    distort(&reply);
                uint32_t size = fuzz_below(2) ? 0 : (uint32_t)fuzz_below(1 + sizeof answer_bytes);
                stranger_say(&s, &reply, fuzz_below(8), answer_bytes, size);
                listen_a_little(&s);
            }
            talk(&s);
        }
        stranger_leave(&s);
    }
}

int main(void)
{
    static struct town t;
    fuzz_begin("link", 8);
    fuzz_corpus("frames");
    while (fuzz_more()) {
        town_start(&t, PEER_TIMEOUT_NS);
        for (uint32_t i = 0; i < RESIDENTS; i++)
            t.engines[i]->config.methods = methods;
        for (uint32_t slot = RESIDENTS; slot < RESIDENTS + STRANGERS; slot++) {
            if (slot < RESIDENTS + 4)
                break_in(&t, slot);
            else if (fuzz_below(3))
                visit(&t, slot);
            else
                be_visited(&t, slot);
            if (fuzz_below(4) == 0)
                town_check_served(&t, VICTIM);
        }
        town_check_served(&t, VICTIM);
        town_stop(&t);
    }
    return fuzz_end();
}
