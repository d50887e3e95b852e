/* Answers that have time wait for company, and come all the same; many are said as one. */
#include "cluster/stranger.h"
#include "operations/execute.h"
#include "transport/frame.h"

/* The next answer: what was in the word before. */
static void hear_old(struct stranger *s, uint64_t before)
{
    struct frame f;
    do
        CHECK(stranger_hear(s, &f));
    while (f.message.kind != ACP_REPLY);
    CHECK(f.message.status == ACP_OK && f.message.a == before);
}

/* Who goes on may be answered later. It is answered all the same: if it says nothing more, with what
 * it says next, when it asks, and on its next stream; and each command has run once. */
static void test_an_answer_that_has_time_comes(struct town *t)
{
    enum { ROUNDS = 100 };
    struct message answer, m = stranger_add_to(0), ask = {.kind = ACP_PROBE};
    uint64_t before = stranger_look(t, 0), run = 0;
    struct stranger s;
    m.flags = ANSWER_LATER;
    stranger_enter(t, &s, 17);
    CHECK(stranger_session(&s, 17, true, 0, &answer) && answer.status == ACP_OK);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        stranger_say(&s, &m, s.heard, NULL, 0);
        if (i % 3 == 1)
            stranger_say(&s, &ask, s.heard, NULL, 0);
        if (i % 3 == 2)
            CHECK(stranger_adds(&s) == before + ++run); /* the answer to the first one */
        hear_old(&s, before + run++);
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        stranger_say(&s, &m, s.heard, NULL, 0);
        uint64_t said = s.said, heard = s.heard;
        stranger_leave(&s);
        stranger_enter(t, &s, 17);
        s.said = said;
        s.heard = heard;
        CHECK(stranger_session(&s, 17, false, heard, &answer) && answer.status == ACP_OK);
        if (answer.a < said) { /* it was on its way */
            s.said = answer.a;
            stranger_say(&s, &m, s.heard, NULL, 0);
        }
        hear_old(&s, before + run++);
    }
    CHECK(stranger_look(t, 0) == before + run);
    stranger_leave(&s);
}

/* A chain in one piece: each command has run once and is answered once, whatever fails among them; and
 * those that come after what failed fail, too. */
static void test_many_answers_are_said_as_one(struct town *t)
{
    enum { ROUNDS = 50, CHAIN = 200 };
    static unsigned char frames[CHAIN][FRAME_HEAD];
    uint64_t before = stranger_look(t, 0), run = 0, answers = 0, id = 2;
    struct message answer, add = stranger_add_to(0);
    struct stranger s;
    struct frame f;
    add.flags = ANSWER_TOGETHER;
    stranger_enter(t, &s, 18);
    CHECK(stranger_session(&s, 18, true, 0, &answer) && answer.status == ACP_OK);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t bad = i % 2 ? i * 4 : CHAIN, good = 0, failed = 0;
        uint64_t first = id, next = id;
        for (uint32_t k = 0; k < CHAIN; k++, id += 2) {
            struct message m = add;
            m.id = id;
            m.after = k ? id - 2 : 0;
            m.flags |= k ? 0 : ANSWER_LATER;
            m.src += k == bad; /* not aligned */
            frame_write(frames[k], &m, s.said++, s.heard, NULL, 0);
        }
        CHECK(stranger_send(&s, frames, sizeof frames));
        for (; good + failed < CHAIN; answers++) {
            CHECK(stranger_hear(&s, &f));
            const struct message *m = &f.message;
            if (m->kind != ACP_REPLY)
                continue;
            bool together = m->flags & ANSWER_TOGETHER;
            CHECK(m->id == next + 2 * (together ? m->b - 1 : 0));
            next = m->id + 2;
            CHECK(m->status == (together ? ACP_OK : ACP_E_ALIGN));
            good += together ? (uint32_t)m->b : 0;
            failed += !together;
        }
        CHECK(good == bad && next == first + 2 * CHAIN);
        run += good;
        CHECK(stranger_look(t, 0) == before + run);
    }
    CHECK(answers < ROUNDS * CHAIN / 2 + ROUNDS * CHAIN / 4); /* of the good rounds, far fewer */
    stranger_leave(&s);
}

/* One answer is for commands whose numbers follow each other: of others, between them, it says nothing. */
static void test_an_answer_leaves_out_what_was_not_asked(struct town *t)
{
    static const uint64_t gaps[] = {2, 4, 8, 10, 12, 20, 24, 26};
    enum { COUNT = sizeof gaps / sizeof *gaps };
    static unsigned char frames[COUNT][FRAME_HEAD];
    struct message answer, add = stranger_add_to(0);
    uint64_t before = stranger_look(t, 0);
    struct stranger s;
    struct frame f;
    stranger_enter(t, &s, 16);
    CHECK(stranger_session(&s, 16, true, 0, &answer) && answer.status == ACP_OK);
    for (uint64_t round = 0, asked = 0; round < 50; round++) {
        for (uint32_t k = 0; k < COUNT; k++) {
            struct message m = add;
            m.id = 100 * round + gaps[k];
            m.flags = ANSWER_TOGETHER;
            frame_write(frames[k], &m, s.said++, s.heard, NULL, 0);
        }
        CHECK(stranger_send(&s, frames, sizeof frames));
        for (uint32_t k = 0; k < COUNT;) {
            CHECK(stranger_hear(&s, &f));
            if (f.message.kind != ACP_REPLY)
                continue;
            uint64_t count = f.message.flags & ANSWER_TOGETHER ? f.message.b : 1;
            CHECK(f.message.status == ACP_OK && count > 0 && k + count <= COUNT);
            for (uint64_t i = count; i-- > 0; k++)
                CHECK(f.message.id - 2 * i == 100 * round + gaps[k]);
            asked += count;
        }
        CHECK(stranger_look(t, 0) == before + asked);
    }
    stranger_leave(&s);
}

/* Who waits believes no answer for more than it has asked there. */
static void test_an_answer_for_others_is_none(struct town *t)
{
    acp_engine *e = t->engines[0];
    acp_lane *lane = acp_engine_lane(e);
    const uint32_t slot = 19, other = 20;
    uint64_t old = 7, more;
    acp_failure failure;
    struct message answer = {.kind = ACP_REPLY, .flags = ANSWER_TOGETHER, .b = UINT64_MAX};
    struct stranger s;
    struct frame f;
    acp_handle_t first = acp_atomic(lane, ACP_ADD8, ACP_GA_NULL, stranger_word(slot), 1, 0,
                                    ACP_HANDLE_CONT);
    acp_lane_previous(lane, first);
    acp_handle_t second = acp_atomic(lane, ACP_ADD8, ACP_GA_NULL, stranger_word(slot), 1, 0,
                                     ACP_HANDLE_CONT);
    acp_handle_t value = 0, elsewhere = acp_atomic(lane, ACP_ADD8, ACP_GA_NULL,
                                                   stranger_word(other), 1, 0, ACP_HANDLE_NULL);
    CHECK(acp_fetch(lane, ACP_ADD8, stranger_word(slot), 1, 0, &old, &value) == ACP_OK);
    stranger_accept(t, &s, slot);
    CHECK(stranger_let_prove(&s) && stranger_hear(&s, &f) && f.message.kind == ACP_SESSION);
    struct message session = {.kind = ACP_SESSION, .id = f.message.id};
    CHECK(stranger_say(&s, &session, 0, NULL, 0));
    for (uint64_t asked = 0; asked < 3; asked += layout_is_atomic(f.message.kind))
        CHECK(stranger_hear(&s, &f));
    answer.id = first - 2; /* of none */
    stranger_say(&s, &answer, s.heard, NULL, 0);
    CHECK(acp_wait(e, first, 20000000) == ACP_E_TIMEOUT);
    answer.id = value; /* of these two, and of two that are none of its business */
    stranger_say(&s, &answer, s.heard, NULL, 0);
    CHECK(acp_wait(e, second, ACP_FOREVER) == ACP_OK && acp_done(e, first));
    CHECK(!acp_done(e, elsewhere) && !acp_done(e, value));
    answer = (struct message){.kind = ACP_REPLY, .id = value, .a = 41};
    stranger_say(&s, &answer, s.heard, NULL, 0);
    CHECK(acp_wait(e, value, ACP_FOREVER) == ACP_OK && old == 41);
    CHECK(acp_failures_take(e, value, true, &failure, 1, &more) == 0);
    stranger_leave(&s);
}

int main(void)
{
    struct town t;
    town_start(&t, 30000000000);
    test_an_answer_that_has_time_comes(&t);
    test_many_answers_are_said_as_one(&t);
    test_an_answer_leaves_out_what_was_not_asked(&t);
    test_an_answer_for_others_is_none(&t);
    town_stop(&t);
    return 0;
}
