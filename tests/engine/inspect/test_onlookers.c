/* Who has no slot may ask what a rank does, if it knows the secret, and nothing else. */
#include "cluster/stranger.h"
#include "core/engine_state.h"
#include "inspect/heap_walk.h"
#include "inspect/query.h"
#include "transport/frame.h"
#include "transport/handshake.h"

/* Somebody without a slot; what came of the handshake at this side. */
static int look_on(struct town *t, struct stranger *s, const uint8_t *secret)
{
    stranger_call(t, s, ACP_NO_SLOT, 0);
    return stranger_prove(t, s, 0, secret);
}

static void test_an_onlooker_is_told_what_a_rank_does(struct town *t)
{
    struct control *c = t->engines[0]->control;
    unsigned char question[QUERY_MOST], answer[QUERY_MOST];
    _Atomic uint64_t *notice = (void *)(t->engines[0]->memory.base + NOTICE_OFFSET);
    struct survey_doing heard;
    struct stranger s;
    c->awaited = 7;
    *notice = 1234567890123;
    CHECK(look_on(t, &s, stranger_secret) == ACP_HANDSHAKE_DONE);
    CHECK(query_ask(NULL, question) == FRAME_HEAD);
    for (uint32_t i = 0; i < 3; i++) {
        c->doing = ACP_DOING_RECEIVE + i;
        CHECK(stranger_send(&s, question, FRAME_HEAD));
        CHECK(stranger_receive(&s, answer, FRAME_HEAD));
        CHECK(query_hear(NULL, answer, FRAME_HEAD, &heard) == ACP_OK);
        CHECK(heard.rank == 0 && heard.doing == ACP_DOING_RECEIVE + i && heard.awaited == 7);
        CHECK(heard.notice == 1234567890123);
    }
    c->doing = c->awaited = 0;
    answer[FRAME_HEAD - 1] ^= 1;
    CHECK(query_hear(NULL, answer, FRAME_HEAD, &heard) == ACP_E_ARGUMENT);
    stranger_leave(&s);
    town_check_served(t, 0);
}

static void test_an_onlooker_has_nothing_run_and_no_link(struct town *t)
{
    static const uint8_t other[32] = "another secret";
    uint64_t before = stranger_look(t, 0);
    struct message wishes[] = {{.kind = ACP_SESSION, .flags = 1, .id = 9}, stranger_add_to(0)};
    unsigned char question[QUERY_MOST];
    struct stranger s;
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(look_on(t, &s, stranger_secret) == ACP_HANDSHAKE_DONE);
        stranger_say(&s, &wishes[i], 0, NULL, 0);
        stranger_sees_the_end(&s);
    }
    CHECK(look_on(t, &s, other) == ACP_HANDSHAKE_BAD_MAC);
    unsigned char proof[ACP_PROOF_SIZE] = "ACPP";
    stranger_send(&s, proof, sizeof proof);
    CHECK(query_ask(NULL, question) == FRAME_HEAD);
    stranger_send(&s, question, FRAME_HEAD);
    CHECK(!stranger_receive(&s, question, FRAME_HEAD));
    stranger_leave(&s);
    CHECK(stranger_look(t, 0) == before);
    town_check_served(t, 0);
}

int main(void)
{
    struct town t;
    town_start(&t, 30000000000);
    test_an_onlooker_is_told_what_a_rank_does(&t);
    test_an_onlooker_has_nothing_run_and_no_link(&t);
    town_stop(&t);
    return 0;
}
