/* Calls that meet others at one word stand back only where that is of use. */
#include "support/check.h"
#include "core/backoff.h"

static uint64_t word, elsewhere;

/* As a call that steps the word, and has found a step of another's before its own. */
static void step(acp_lane *lane, bool others)
{
    if (others)
        backoff_contended(lane, &word, 1);
    backoff_visit(lane, &word);
    __atomic_fetch_add(&word, 1, __ATOMIC_RELAXED);
}

static void alone_nobody_stands_back(void)
{
    acp_lane lane = {.index = LANE_CALLER};
    for (uint32_t i = 0; i < 100000; i++)
        step(&lane, false);
    CHECK(lane.meetings.word == NULL && !lane.meetings.stood_back);
}

/* While one stands back the other does not step, for both are this thread. */
static void who_stands_back_for_nobody_lets_it_be(void)
{
    acp_lane lanes[2] = {{.index = LANE_CALLER}, {.index = LANE_CALLER}};
    do {
        for (uint32_t i = 0; i < 1000; i++)
            step(&lanes[i % 2], true);
    } while (lanes[0].meetings.grace < 4096 || lanes[1].meetings.grace < 4096);
    CHECK(!lanes[0].meetings.stood_back && !lanes[1].meetings.stood_back);
}

/* It drives what others wait for. */
static void who_must_not_wait_does_not(void)
{
    acp_lane leader = {.index = LANE_LEADER}, hurries = {.index = LANE_CALLER, .hurries = true};
    for (uint32_t i = 0; i < 1000; i++) {
        step(&leader, true);
        step(&hurries, true);
    }
    CHECK(leader.meetings.word == NULL && hurries.meetings.word == NULL);
}

static void what_was_learnt_is_of_one_word(void)
{
    acp_lane lane = {.index = LANE_CALLER};
    step(&lane, true);
    CHECK(lane.meetings.word == &word && lane.meetings.visits == 1);
    lane.meetings.far = 1000000;
    backoff_contended(&lane, &elsewhere, 1);
    backoff_visit(&lane, &word);
    CHECK(lane.meetings.word == &elsewhere && lane.meetings.far == 0 && lane.meetings.visits == 0);
}

int main(void)
{
    alone_nobody_stands_back();
    who_stands_back_for_nobody_lets_it_be();
    who_must_not_wait_does_not();
    what_was_learnt_is_of_one_word();
    return 0;
}
