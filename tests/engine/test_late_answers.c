/* Answers that have time wait for company, and come all the same. */
#include "stranger.h"

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

int main(void)
{
    struct town t;
    town_start(&t, 30000000000);
    test_an_answer_that_has_time_comes(&t);
    town_stop(&t);
    return 0;
}
