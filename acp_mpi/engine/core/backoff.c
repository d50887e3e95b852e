/* Where two processors call the same thing without a pause, each call waits until lines of memory have come
 * over from the other, and both together do half of what one does alone. So whoever meets another there stands back
 * for a while, in which that one's calls stay in its own cache. It is not held up when it comes back, by the call
 * with which the other learns of it.
 *
 * That is worth while if bringing the lines takes longer than all that a caller does between two calls: both are
 * timed. Processors that share a cache do better without, and so do callers with other work. */
#include "core/backoff.h"
#include "base/linux.h"

#define BACK_NS 6000u
#define APART_NS 4095u    /* or less, so that two who stand back at once do not come back at once */
#define GRACE 6u
#define TRIAL_NS 500u     /* between two calls, at the most, to find out how far the other is */
#define VAIN_MOST 8u      /* looks at the clock that spoke against it, or told nothing */
#define TRY_AGAIN 4096u   /* calls: the system may have moved somebody */

static uint64_t timed_look(const uint64_t *word, uint64_t *value)
{
    uint64_t before = now_ns();
    atomic_thread_fence(memory_order_seq_cst); /* not before the clock is read */
    *value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    return now_ns() - before;
}

static void stand_back(struct meetings *m, const uint64_t *word, uint32_t lines, uint64_t now)
{
    uint64_t before = __atomic_load_n(word, __ATOMIC_RELAXED), value, own = 0;
    uint64_t back = now + BACK_NS + (now & APART_NS);
    while (now_ns() < back)
        cpu_relax();
    uint64_t here = timed_look(&own, &own); /* the first time is longer */
    here = timed_look(&own, &own);
    uint64_t there = timed_look(word, &value);
    m->vain++;
    if (value != before) { /* else nobody has taken it away meanwhile */
        m->far = there > here ? lines * (there - here) : 1;
        m->vain = 0;
    }
    m->stood_back = true;
}

void meeting(acp_lane *lane, const uint64_t *word, uint32_t lines)
{
    struct meetings *m = &lane->meetings;
    if (m->word == word && m->visits < m->grace)
        return;
    if (!lane_may_wait(lane))
        return;
    uint64_t now = now_ns(), passed = now - m->since;
    if (m->word != word) {
        *m = (struct meetings){.word = word, .since = now};
        return;
    }
    uint64_t worth = !m->far ? TRIAL_NS : m->stood_back ? 2 * m->far : 3 * m->far;
    m->grace = GRACE;
    if (passed < worth * m->visits)
        stand_back(m, word, lines, now);
    else
        m->vain++; /* but one of them may have lost its processor in between */
    if (m->vain > VAIN_MOST)
        *m = (struct meetings){.word = word, .grace = TRY_AGAIN};
    m->since = now_ns();
    m->visits = 0;
}
