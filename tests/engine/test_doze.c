/* How a ring reaches a thread that dozes: the engine's own functions, with a switch to another thread
 * before any step of theirs that others can see. All orders of these steps are gone through in which no
 * more than SWITCHES times a thread is left that could go on. */
#include "cluster.h"
#include "sources.h"

#include <errno.h>
#include <semaphore.h>
#include <unistd.h>

#define SWITCHES 3u
#define STEPS_MOST 200u

enum { DOZER, OTHERS_RING, ITS_RING, THREADS };
enum state { READY, ASLEEP, ENDED };

static struct {
    sem_t turn[THREADS], over;
    enum state state[THREADS];
    int running;
    unsigned switches, steps;
} run;

static struct { /* what was decided before each step, and how many ways there were */
    unsigned chosen, ways;
} decided[STEPS_MOST];
static unsigned planned; /* of them, for the next run */

/* Who goes on: the one that runs, if it can, is the first way. */
static int decide(void)
{
    int ways[THREADS], count = 0;
    bool goes_on = run.running >= 0 && run.state[run.running] == READY;
    if (goes_on)
        ways[count++] = run.running;
    for (int i = 0; i < THREADS; i++)
        if (i != run.running && run.state[i] == READY && !(goes_on && run.switches == SWITCHES))
            ways[count++] = i;
    if (!count)
        return -1;
    CHECK(run.steps < STEPS_MOST);
    unsigned chosen = run.steps < planned ? decided[run.steps].chosen : 0;
    decided[run.steps].chosen = chosen;
    decided[run.steps++].ways = (unsigned)count;
    run.switches += goes_on && chosen;
    return ways[chosen];
}

static void hand_over(void)
{
    int me = run.running, next = decide();
    if (next == me)
        return;
    bool comes_back = me >= 0 && run.state[me] != ENDED;
    run.running = next; /* after the post all of this is the other's */
    sem_post(next < 0 ? &run.over : &run.turn[next]);
    if (comes_back)
        while (sem_wait(&run.turn[me]))
            continue;
}

static long sleep_on(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns, bool shared)
{
    (void)timeout_ns;
    (void)shared;
    hand_over();
    if (*word != value)
        return 0;
    run.state[run.running] = ASLEEP;
    hand_over();
    return 0;
}

static void wake_all(_Atomic uint32_t *word, bool shared)
{
    (void)word;
    (void)shared;
    hand_over();
    for (int i = 0; i < THREADS; i++)
        if (run.state[i] == ASLEEP)
            run.state[i] = READY;
}

#undef atomic_load
#undef atomic_store
#undef atomic_exchange
#undef atomic_fetch_add
#define atomic_load(p) (hand_over(), atomic_load_explicit(p, memory_order_seq_cst))
#define atomic_store(p, v) (hand_over(), atomic_store_explicit(p, v, memory_order_seq_cst))
#define atomic_exchange(p, v) (hand_over(), atomic_exchange_explicit(p, v, memory_order_seq_cst))
#define atomic_fetch_add(p, v) (hand_over(), atomic_fetch_add_explicit(p, v, memory_order_seq_cst))
#define futex_wait sleep_on
#define futex_wake wake_all
/* The engine that is linked has these, too. */
#define door_ring own_door_ring
#define doze_ring own_doze_ring
#define doze own_doze
#define progress_kick own_progress_kick
#define watch_hit own_watch_hit
#define acp_word_find own_word_find
#define acp_word_wait own_word_wait
#include "doorbell.c"

static acp_engine engine;
static struct doors doors;
static _Atomic bool there; /* what the dozer waits for */

static bool is_there(void *nothing)
{
    (void)nothing;
    return atomic_load(&there);
}

static void *thread_main(void *number)
{
    int me = (int)(intptr_t)number;
    while (sem_wait(&run.turn[me]))
        continue;
    if (me == DOZER) {
        while (!is_there(NULL))
            doze(&engine, is_there, NULL, ACP_FOREVER);
    } else {
        if (me == ITS_RING)
            atomic_store(&there, true);
        doze_ring(&doors);
    }
    run.state[me] = ENDED;
    hand_over();
    return NULL;
}

/* One order of all steps; a dozer that nobody will wake any more is left asleep. */
static void run_once(void)
{
    pthread_t threads[THREADS];
    engine.doors = &doors;
    doors.event = doors.dozing = 0;
    there = false;
    run.running = -1;
    run.switches = run.steps = 0;
    for (intptr_t i = 0; i < THREADS; i++) {
        run.state[i] = READY;
        CHECK(pthread_create(&threads[i], NULL, thread_main, (void *)i) == 0);
    }
    hand_over();
    while (sem_wait(&run.over))
        continue;
    CHECK(run.state[DOZER] == ENDED);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* The next order: the last step that has one more way takes it. */
static bool plan_next(void)
{
    for (planned = run.steps; planned && decided[planned - 1].chosen + 1 == decided[planned - 1].ways;)
        planned--;
    if (planned)
        decided[planned - 1].chosen++;
    return planned;
}

int main(void)
{
    unsigned orders = 0;
    sem_init(&run.over, 0, 0);
    for (int i = 0; i < THREADS; i++)
        sem_init(&run.turn[i], 0, 0);
    do {
        run_once();
        orders++;
    } while (plan_next());
    CHECK(orders > 1000);
    printf("test_doze: passed, %u orders\n", orders);
    return 0;
}
