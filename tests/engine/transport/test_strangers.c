/* Whoever does not know the secret has nothing run; whoever does and then sends nonsense, or
 * says things twice, loses its stream or its link, and nobody else notices. */
#include "cluster/ageing.h"
#include "cluster/stranger.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "peers/peer.h"
#include "transport/frame.h"
#include "transport/handshake.h"
#include "transport/link.h"

#include <poll.h>
#include <pthread.h>

#define PEER_TIMEOUT_NS ((uint64_t)30000000000)

static void test_who_proves_the_secret_is_served(struct town *t)
{
    struct stranger s;
    struct message answer;
    stranger_enter(t, &s, 2);
    CHECK(stranger_session(&s, 1, true, 0, &answer) && answer.status == ACP_OK && answer.a == 0);
    uint64_t before = stranger_look(t, 0);
    CHECK(stranger_adds(&s) == before + 1);
    CHECK(stranger_look(t, 0) == before + 1);
    stranger_leave(&s);
}

static void test_another_secret_has_nothing_run(struct town *t)
{
    static const uint8_t other[32] = "another secret";
    uint64_t before = stranger_look(t, 0);
    struct stranger s;
    struct message m = {.kind = ACP_SESSION, .flags = 1, .id = 2}, command = stranger_add_to(0);
    stranger_call(t, &s, 3, 0);
    CHECK(stranger_prove(t, &s, 0, other) == ACP_HANDSHAKE_BAD_MAC);
    unsigned char proof[ACP_PROOF_SIZE] = "ACPP"; /* it goes on regardless */
    stranger_send(&s, proof, sizeof proof);
    stranger_say(&s, &m, 0, NULL, 0);
    stranger_say(&s, &command, 0, NULL, 0);
    stranger_sees_the_end(&s);
    CHECK(stranger_look(t, 0) == before);
    town_check_served(t, 0);
}

static void test_frames_in_place_of_a_proof_are_not_run(struct town *t)
{
    uint64_t before = stranger_look(t, 0);
    struct message m = {.kind = ACP_SESSION, .flags = 1, .id = 3}, command = stranger_add_to(0);
    struct stranger s;
    acp_handshake hs;
    for (int hello = 0; hello < 2; hello++) {
        stranger_call(t, &s, 3, 0);
        acp_handshake_client(&hs, stranger_secret, stranger_job, ACP_ROLE_LINK, 3, 0,
                             t->rows[3].nonce, 0);
        if (hello)
            stranger_out(&s, &hs);
        stranger_say(&s, &m, 0, NULL, 0);
        stranger_say(&s, &command, 0, NULL, 0);
        stranger_sees_the_end(&s);
    }
    CHECK(stranger_look(t, 0) == before);
}

/* The bytes of an opening that was good, once more: the engine's nonce is another. */
static void test_a_recorded_opening_is_refused(struct town *t)
{
    unsigned char hello[ACP_HELLO_SIZE], proof[ACP_PROOF_SIZE];
    uint8_t challenge[ACP_CHALLENGE_SIZE];
    struct message session = {.kind = ACP_SESSION, .flags = 1, .id = 4};
    struct message command = stranger_add_to(0);
    struct message answer;
    struct stranger s;
    acp_handshake hs;
    size_t used;
    stranger_call(t, &s, 4, 0);
    acp_handshake_client(&hs, stranger_secret, stranger_job, ACP_ROLE_LINK, 4, 0,
                         t->rows[4].nonce, 0);
    memcpy(hello, hs.out, sizeof hello);
    stranger_out(&s, &hs);
    CHECK(stranger_receive(&s, challenge, sizeof challenge));
    CHECK(acp_handshake_feed(&hs, challenge, sizeof challenge, &used) == ACP_HANDSHAKE_DONE);
    memcpy(proof, hs.out, sizeof proof);
    stranger_out(&s, &hs);
    CHECK(stranger_session(&s, 4, true, 0, &answer) && answer.status == ACP_OK);
    uint64_t before = stranger_adds(&s);
    stranger_leave(&s);

    stranger_call(t, &s, 4, 0);
    stranger_send(&s, hello, sizeof hello);
    stranger_send(&s, proof, sizeof proof);
    stranger_say(&s, &session, 0, NULL, 0);
    stranger_say(&s, &command, 0, NULL, 0);
    stranger_sees_the_end(&s);
    CHECK(stranger_look(t, 0) == before);
}

/* What an engine says itself proves nothing to it, on the same stream or on another. */
static void test_an_engine_is_not_taken_in_by_its_own_words(struct town *t)
{
    static unsigned char buffer[8];
    unsigned char hello[ACP_HELLO_SIZE];
    uint8_t challenge[ACP_CHALLENGE_SIZE];
    struct stranger called, calling;
    acp_handshake hs;
    size_t used;
    CHECK(acp_iget(acp_engine_lane(t->engines[0]), buffer, stranger_word(5), 8, 0));
    stranger_accept(t, &called, 5);
    CHECK(stranger_receive(&called, hello, sizeof hello));
    stranger_send(&called, hello, sizeof hello);
    stranger_sees_the_end(&called);

    stranger_accept(t, &called, 5); /* it calls again */
    CHECK(stranger_receive(&called, hello, sizeof hello));
    stranger_call(t, &calling, 5, 0);
    stranger_send(&calling, hello, sizeof hello);
    CHECK(stranger_receive(&calling, challenge, sizeof challenge));
    CHECK(challenge[5] == -ACP_HANDSHAKE_WRONG_SLOT); /* it wanted another */
    stranger_sees_the_end(&calling);
    challenge[5] = 0;
    stranger_send(&called, challenge, sizeof challenge);
    stranger_sees_the_end(&called);

    stranger_call(t, &calling, 5, 0);
    acp_handshake_client(&hs, stranger_secret, stranger_job, ACP_ROLE_LINK, 5, 0, t->rows[5].nonce, 0);
    stranger_out(&calling, &hs);
    CHECK(stranger_receive(&calling, challenge, sizeof challenge));
    CHECK(acp_handshake_feed(&hs, challenge, sizeof challenge, &used) == ACP_HANDSHAKE_DONE);
    memcpy(hs.out + 8, challenge + 44, 32); /* its proof in place of one's own */
    stranger_out(&calling, &hs);
    stranger_sees_the_end(&calling);
    town_check_served(t, 0);
}

/* A process that was there before has the secret, but no place any more. */
static void test_a_process_that_is_not_in_the_table_is_refused(struct town *t)
{
    struct town other = *t;
    struct message answer;
    struct stranger s;
    other.rows[6].nonce++;
    stranger_call(t, &s, 6, 0);
    CHECK(stranger_prove(&other, &s, 0, stranger_secret) == ACP_HANDSHAKE_DONE);
    CHECK(!stranger_session(&s, 6, true, 0, &answer));
    stranger_leave(&s);
    stranger_call(t, &s, 7, 0); /* as another member */
    other.rows[7].nonce = t->rows[6].nonce;
    CHECK(stranger_prove(&other, &s, 0, stranger_secret) == ACP_HANDSHAKE_DONE);
    CHECK(!stranger_session(&s, 7, true, 0, &answer));
    stranger_leave(&s);
}

/* A link is of one of the colours that there are. */
static void test_a_colour_that_there_is_not_opens_no_link(struct town *t)
{
    static const uint64_t wrong[] = {LINK_COLORS, LINK_COLORS + 1, 1ull << 32, UINT64_MAX};
    struct message m = {.kind = ACP_SESSION, .flags = 1};
    struct stranger s;
    struct frame f;
    for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        stranger_enter(t, &s, 16);
        m.id = 1600 + i;
        m.b = wrong[i];
        CHECK(stranger_say(&s, &m, 0, NULL, 0) && stranger_hear(&s, &f));
        CHECK(f.message.kind == ACP_SESSION && f.message.status == ACP_E_LOST);
        stranger_sees_the_end(&s);
    }
    town_check_served(t, 0);
}

/* A get brings at most a chunk. */
static void test_a_get_is_no_longer_than_a_chunk(struct town *t)
{
    acp_lane *lane = acp_engine_lane(t->engines[0]);
    struct message answer, m = {.kind = ACP_GET, .id = 2};
    struct stranger s;
    struct frame f;
    void *data;
    CHECK(acp_memory_alloc(lane, 2 * CHUNK_BYTES, 0, &m.src, &data) == ACP_OK);
    stranger_enter(t, &s, 18);
    CHECK(stranger_session(&s, 18, true, 0, &answer) && answer.status == ACP_OK);
    for (uint64_t size = CHUNK_BYTES; size <= CHUNK_BYTES + 1; size++, m.id += 2) {
        bool refused = size > CHUNK_BYTES;
        m.a = size;
        CHECK(stranger_say(&s, &m, s.heard, NULL, 0) && stranger_hear(&s, &f));
        CHECK(f.message.kind == ACP_REPLY && f.message.id == m.id);
        CHECK(f.message.status == (refused ? ACP_E_ARGUMENT : ACP_OK));
        CHECK(f.size == (refused ? 0 : size));
    }
    stranger_leave(&s);
    acp_memory_drop(lane, data, 2 * CHUNK_BYTES);
}

static void test_a_resumed_link_runs_everything_once(struct town *t)
{
    struct stranger s;
    struct message answer, m = stranger_add_to(0);
    unsigned char frame[FRAME_HEAD];
    uint64_t heard;
    stranger_enter(t, &s, 7);
    CHECK(stranger_session(&s, 7, true, 0, &answer));
    uint64_t count = stranger_adds(&s);
    heard = s.heard;
    frame_write(frame, &m, s.said, 0, NULL, 0);
    frame[20] ^= 4; /* on the way */
    stranger_send(&s, frame, sizeof frame);
    stranger_sees_the_end(&s);

    stranger_enter(t, &s, 7);
    CHECK(stranger_session(&s, 7, false, heard, &answer) && answer.a == 1);
    s.said = answer.a;
    s.heard = heard;
    CHECK(stranger_adds(&s) == ++count);
    heard = s.heard;
    s.said = 1; /* what has been run already */
    stranger_say(&s, &m, heard, NULL, 0);
    stranger_sees_the_end(&s);

    stranger_enter(t, &s, 7);
    CHECK(stranger_session(&s, 7, false, heard, &answer) && answer.a == 2);
    CHECK(stranger_look(t, 0) == count);
    stranger_leave(&s);
}

static void test_a_link_is_named_first_and_once(struct town *t)
{
    struct stranger s;
    struct message answer, m = stranger_add_to(0);
    uint64_t before = stranger_look(t, 0);
    stranger_enter(t, &s, 8);
    stranger_say(&s, &m, 0, NULL, 0);
    stranger_sees_the_end(&s);
    stranger_enter(t, &s, 8);
    CHECK(stranger_session(&s, 8, true, 0, &answer) && answer.status == ACP_OK);
    m = (struct message){.kind = ACP_SESSION, .id = 8};
    stranger_say(&s, &m, 0, NULL, 0);
    stranger_sees_the_end(&s);
    stranger_enter(t, &s, 8); /* and a link that was never opened is not resumed */
    CHECK(stranger_session(&s, 88, false, 0, &answer) && answer.status == ACP_E_LOST);
    stranger_sees_the_end(&s);
    CHECK(stranger_look(t, 0) == before);
}

/* An acknowledgement of what was never said ends the link, not the engine. */
static void test_who_acknowledges_too_much_is_left_alone(struct town *t)
{
    struct stranger s;
    struct message answer, m = {.kind = ACP_ACK};
    stranger_enter(t, &s, 9);
    CHECK(stranger_session(&s, 9, true, 0, &answer));
    stranger_say(&s, &m, 1000, NULL, 0);
    stranger_sees_the_end(&s);
    stranger_enter(t, &s, 9);
    CHECK(stranger_session(&s, 9, true, 0, &answer) && answer.status == ACP_E_LOST);
    stranger_sees_the_end(&s);
    town_check_served(t, 0);
}

/* Does the first engine speak to `slot` just now? *acked: what that has said it has. */
static bool speaks_to(struct town *t, uint32_t slot, uint64_t *acked)
{
    acp_engine *e = t->engines[0];
    bool open = false;
    pthread_mutex_lock(&e->lock);
    for (struct link *link = e->tcp.links; link; link = link->next) {
        if (link->peer->slot == slot) {
            open = link->state == LINK_OPEN;
            *acked = link->out.acked;
        }
    }
    pthread_mutex_unlock(&e->lock);
    return open;
}

/* Has its end of the connection to `slot` a small buffer from now on? That of Linux grows with what earlier connections
 * to that address were like. */
static bool sends_little_to(struct town *t, uint32_t slot)
{
    acp_engine *e = t->engines[0];
    int small = 4096;
    bool done = false;
    pthread_mutex_lock(&e->lock);
    for (struct link *link = e->tcp.links; link; link = link->next)
        if (link->peer->slot == slot && link->wire)
            done = setsockopt(link->wire->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0;
    pthread_mutex_unlock(&e->lock);
    return done;
}

/* The engine that called says what it has to say at once; a peer that claims to have more of it
 * than was sent loses the stream, and hears all of it on the next. */
static void test_a_session_cannot_acknowledge_what_was_not_sent(struct town *t)
{
    static unsigned char buffer[1 << 20];
    struct message m = {.kind = ACP_SESSION};
    struct stranger s;
    struct frame f;
    uint64_t acked;
    acp_lane *lane = acp_engine_lane(t->engines[0]);
    int small = 4096, segment = 536; /* what is not read stays unsent */
    CHECK(setsockopt(t->listeners[10], SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
    CHECK(setsockopt(t->listeners[10], IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment) == 0);
    for (uint64_t at = 0; at < sizeof buffer; at += 1 << 16)
        CHECK(acp_iput(lane, acp_ga(10, 0, STARTER_OFFSET + at), buffer, 1 << 16, 0));
    CHECK(sends_little_to(t, 10));
    stranger_accept(t, &s, 10);
    CHECK(stranger_let_prove(&s) && stranger_hear(&s, &f) && f.message.kind == ACP_SESSION);
    m.id = f.message.id;
    m.a = 2;
    CHECK(speaks_to(t, 10, &acked));
    stranger_say(&s, &m, 0, NULL, 0);
    while (speaks_to(t, 10, &acked)) /* nothing is read here, or it would be sent after all */
        poll(NULL, 0, 1);
    stranger_leave(&s);
    stranger_accept(t, &s, 10);
    CHECK(stranger_let_prove(&s) && stranger_hear(&s, &f) && f.message.kind == ACP_SESSION);
    CHECK(!speaks_to(t, 10, &acked) && acked < 2);
    m.a = s.heard = acked;
    stranger_say(&s, &m, 0, NULL, 0);
    CHECK(stranger_hear(&s, &f) && f.message.kind == ACP_PUT && f.size == 1 << 16);
    stranger_leave(&s);
    town_check_served(t, 0);
}

/* Somebody on the way may keep a stream open of which the other end has gone. */
static void test_who_does_not_name_the_link_is_called_again(struct town *t)
{
    static uint64_t old;
    struct message session = {.kind = ACP_SESSION};
    struct stranger mute, s;
    struct frame f;
    acp_handle_t pending;
    for (uint64_t turn = 1; turn <= 2; turn++) {
        CHECK(acp_fetch(acp_engine_lane(t->engines[0]), ACP_ADD8, stranger_word(17), 1, 0, &old,
                        &pending) == ACP_OK);
        stranger_accept(t, &mute, 17);
        CHECK(stranger_let_prove(&mute) && stranger_hear(&mute, &f));
        stranger_accept(t, &s, 17);
        CHECK(stranger_let_prove(&s) && stranger_hear(&s, &f) && f.message.kind == ACP_SESSION);
        session.id = f.message.id;
        s.said = f.message.a;
        s.heard = session.a;
        CHECK(stranger_say(&s, &session, 0, NULL, 0));
        CHECK(stranger_hear(&s, &f) && f.message.kind == ACP_ADD8);
        struct message reply = {.kind = ACP_REPLY, .flags = ANSWER_COUNTED, .id = f.message.id,
                                .a = turn};
        stranger_say(&s, &reply, s.heard, NULL, 0);
        CHECK(acp_wait(t->engines[0], pending, ACP_FOREVER) == ACP_OK && old == turn);
        session.a = s.heard;
        stranger_leave(&s);
        stranger_leave(&mute);
    }
}

/* Also one that is called and does not call hears that it is held for dead. */
static void test_who_is_held_for_dead_is_told(struct town *t)
{
    struct stranger s;
    struct message answer;
    struct frame f;
    stranger_enter(t, &s, 13);
    CHECK(stranger_session(&s, 13, true, 0, &answer));
    peer_mark_lost(t->engines[0], peer_of_slot(t->engines[0], 13));
    CHECK(stranger_hear(&s, &f) && f.message.kind == ACP_SESSION);
    CHECK(f.message.status == ACP_E_LOST);
    stranger_sees_the_end(&s);
}

/* It hears so on a stream that it did not open, and tells nobody that they are. */
static void test_an_engine_that_is_held_for_dead_goes_in_silence(struct town *t)
{
    struct stranger s, other;
    struct message answer, m = {.kind = ACP_SESSION, .status = ACP_E_LOST};
    struct frame f;
    stranger_enter(t, &s, 14);
    CHECK(stranger_session(&s, 14, true, 0, &answer));
    stranger_enter(t, &other, 15);
    CHECK(stranger_session(&other, 15, true, 0, &answer));
    stranger_say(&s, &m, 0, NULL, 0);
    stranger_sees_the_end(&s);
    CHECK(t->engines[0]->job.outcast);
    while (stranger_hear(&other, &f))
        CHECK(f.message.kind != ACP_SESSION);
    stranger_leave(&other);
    stranger_enter(t, &other, 16);
    CHECK(!stranger_session(&other, 16, true, 0, &answer));
    stranger_leave(&other);
}

/* What failed is remembered for the chain behind it, however much fails. */
static void test_failures_of_a_peer_do_not_pile_up(struct town *t)
{
    struct message answer, m = {.kind = ACP_GET, .src = 1, .a = 8};
    acp_engine *e = t->engines[0];
    struct stranger s;
    struct frame f;
    stranger_enter(t, &s, 12);
    CHECK(stranger_session(&s, 12, true, 0, &answer));
    for (uint64_t i = 0; i < 10 * OPS; i++) {
        m.id = i < 5 * OPS ? 2 : (1ull << 40) - 4 * OPS * i; /* one again and again; many */
        stranger_say(&s, &m, s.heard, NULL, 0);
        CHECK(stranger_hear(&s, &f) && f.message.kind == ACP_REPLY && f.message.status != ACP_OK);
        pthread_mutex_lock(&e->lock);
        CHECK(peer_of_slot(e, 12)->ops.chain_failure_count <= 2 * OPS);
        pthread_mutex_unlock(&e->lock);
    }
    stranger_leave(&s);
}

static void test_an_idle_stream_that_breaks_is_no_loss(struct town *t)
{
    static uint64_t old;
    uint64_t acked;
    acp_handle_t pending;
    struct stranger s;
    struct frame f;
    CHECK(acp_fetch(acp_engine_lane(t->engines[0]), ACP_ADD8, stranger_word(11), 1, 0, &old,
                    &pending) == ACP_OK);
    stranger_accept(t, &s, 11);
    CHECK(stranger_let_prove(&s) && stranger_hear(&s, &f));
    struct message session = {.kind = ACP_SESSION, .id = f.message.id};
    stranger_say(&s, &session, 0, NULL, 0);
    CHECK(stranger_hear(&s, &f) && f.message.kind == ACP_ADD8);
    struct message reply = {.kind = ACP_REPLY, .flags = ANSWER_COUNTED, .id = f.message.id, .a = 5};
    stranger_say(&s, &reply, s.heard, NULL, 0);
    CHECK(acp_wait(t->engines[0], pending, ACP_FOREVER) == ACP_OK && old == 5);
    session.a = s.heard;
    for (int again = 0; again < 2; again++) {
        stranger_leave(&s);
        stranger_accept(t, &s, 11);
        CHECK(stranger_let_prove(&s) && stranger_hear(&s, &f));
        CHECK(f.message.kind == ACP_SESSION && f.message.id == session.id && f.message.a == 1);
        stranger_say(&s, &session, session.a, NULL, 0);
        while (!speaks_to(t, 11, &acked))
            poll(NULL, 0, 1);
        links_age(t->engines[0], 11, 2 * PEER_TIMEOUT_NS);
        CHECK(recv(s.fd, s.in, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN); /* nobody speaks for long */
    }
    CHECK(acp_lost_ranks(t->engines[0], false, &(uint32_t){0}, 1) == 0);
    stranger_leave(&s);
}

int main(void)
{
    static void (*const tests[])(struct town *) = {
        test_who_proves_the_secret_is_served,
        test_another_secret_has_nothing_run,
        test_frames_in_place_of_a_proof_are_not_run,
        test_a_recorded_opening_is_refused,
        test_an_engine_is_not_taken_in_by_its_own_words,
        test_a_process_that_is_not_in_the_table_is_refused,
        test_a_colour_that_there_is_not_opens_no_link,
        test_a_get_is_no_longer_than_a_chunk,
        test_a_resumed_link_runs_everything_once,
        test_a_link_is_named_first_and_once,
        test_who_acknowledges_too_much_is_left_alone,
        test_a_session_cannot_acknowledge_what_was_not_sent,
        test_failures_of_a_peer_do_not_pile_up,
        test_who_does_not_name_the_link_is_called_again,
        test_who_is_held_for_dead_is_told,
        test_an_engine_that_is_held_for_dead_goes_in_silence, /* the last */
    };
    struct town t;
    town_start(&t, PEER_TIMEOUT_NS);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tests[i](&t);
    town_stop(&t);
    town_start(&t, PEER_TIMEOUT_NS);
    test_an_idle_stream_that_breaks_is_no_loss(&t);
    town_stop(&t);
    return 0;
}
