/* Backoff between two processors that call the same object without a pause. Each call would wait until cache lines
 * have come over from the other processor, and both together would do half of the calls that one does alone. So a lane
 * that detects the other stands back for a while, in which the other's calls stay in its own cache.
 *
 * Backoff pays if bringing the lines takes longer than the caller's own work between two calls: both are timed.
 * Processors that share a cache do better without, and so do callers with other work. */
#include "core/backoff.h"
#include "base/linux.h"

#define BACK_NS 6000u
#define APART_NS 4095u    /* random part, so that two lanes that stand back at once do not return at once */
#define GRACE 6u
#define TRIAL_NS 500u     /* between two calls, at the most, to find out how far the other is */
#define VAIN_MOST 8u      /* timings in a row that spoke against backoff, or showed nothing */
#define TRY_AGAIN 4096u   /* calls: the system may have moved a thread to another processor */

static uint64_t timed_look(const uint64_t *word, uint64_t *value)
{
    uint64_t before = linux_now_ns();
    atomic_thread_fence(memory_order_seq_cst); /* not before the clock is read */
    *value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    return linux_now_ns() - before;
}

static void stand_back(struct meetings *m, const uint64_t *word, uint32_t lines, uint64_t now)
{
    uint64_t before = __atomic_load_n(word, __ATOMIC_RELAXED), value, own = 0;
    uint64_t back = now + BACK_NS + (now & APART_NS);
    while (linux_now_ns() < back)
        linux_cpu_relax();
    uint64_t here = timed_look(&own, &own); /* the first time is longer */
    here = timed_look(&own, &own);
    uint64_t there = timed_look(word, &value);
    m->vain++;
    if (value != before) { /* else no other processor has written it meanwhile */
        m->far = there > here ? lines * (there - here) : 1;
        m->vain = 0;
    }
    m->stood_back = true;
}

void backoff_contended(acp_lane *lane, const uint64_t *word, uint32_t lines)
{
    struct meetings *m = &lane->meetings;
    if (m->word == word && m->visits < m->grace)
        return;
    if (!lane_may_wait(lane))
        return;
    uint64_t now = linux_now_ns(), passed = now - m->since;
    if (m->word != word) {
        *m = (struct meetings){.word = word, .since = now};
        return;
    }
    uint64_t worth = !m->far ? TRIAL_NS : m->stood_back ? 2 * m->far : 3 * m->far;
    m->grace = GRACE;
    if (passed < worth * m->visits)
        stand_back(m, word, lines, now);
    else
        m->vain++; /* but one of the two may have lost its processor in between */
    if (m->vain > VAIN_MOST)
        *m = (struct meetings){.word = word, .grace = TRY_AGAIN};
    m->since = linux_now_ns();
    m->visits = 0;
}
