/* Waiting until a word of the own memory has a value: a spin, then a watch that writers on the node ring for. */
#include "base/linux.h"
#include "core/membarrier.h"
#include "memory/translate.h"
#include "mpi_window/window.h"
#include "operations/any_source.h"
#include "progress/wait.h"

#define ASK_NS ((uint64_t)500000000)

struct word_wait {
    const unsigned char *word;
    uint32_t width;
    acp_compare op;
    uint64_t value;
    bool is_signed;
    struct watch *watch;
    acp_engine *engine;
    acp_sources *among; /* only their losses end it; NULL: those of all */
    int64_t losses;     /* more than these end it, accepted or not; -1: any that is not accepted */
    bool gone, dies;
    bool others; /* only members of `among` write it, and this process is not one of them */
    int lost; /* why no rank writes it any more; ACP_OK */
    acp_ga_t ga;
    uint64_t arm_at; /* until then the waiter spins and needs no bell */
};

static uint64_t read_word(const void *word, uint32_t width)
{
    return width == 8 ? __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE)
                      : __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE);
}

/* Another thread may end the region, and then free its memory. */
static uint64_t read_mortal(struct word_wait *w)
{
    const struct translation *t;
    uint64_t now = 0;
    acp_lane *lane = acp_lane_take(w->engine);
    if (!lane)
        return read_word(w->word, w->width);
    while ((t = translate_find(lane, ROLE_SRC, w->ga, w->width)) && !translate_enter(t, ROLE_SRC))
        continue;
    if (t) {
        now = read_word(t->base + (w->ga - t->low), w->width);
        translate_leave(t, ROLE_SRC);
    }
    w->gone = !t;
    acp_lane_give(lane);
    return now;
}

/* Also true if the word does not exist any more. */
static bool holds(struct word_wait *w)
{
    uint64_t now = w->dies ? read_mortal(w) : read_word(w->word, w->width);
    uint64_t value = w->value;
    if (unlikely(w->gone))
        return true;
    bool less = now < value;
    if (w->is_signed) {
        int64_t a = w->width == 8 ? (int64_t)now : (int32_t)now;
        int64_t b = w->width == 8 ? (int64_t)value : (int32_t)value;
        less = a < b;
        now = (uint64_t)a;
        value = (uint64_t)b;
    }
    switch (w->op) {
    case ACP_EQ: return now == value;
    case ACP_NE: return now != value;
    case ACP_LT: return less;
    case ACP_LE: return less || now == value;
    case ACP_GT: return !less && now != value;
    case ACP_GE: return !less;
    }
    return true;
}

/* The rank that was to write the word may be lost. */
static int word_lost(const struct word_wait *w)
{
    bool lost = w->losses >= 0 ? w->engine->job.losses > w->losses : any_source_lost(w->engine, w->among);
    return lost ? ACP_E_LOST : w->others ? any_source_gone(w->engine, w->among) : ACP_OK;
}

/* Arms before it looks again, so that a writer after the look finds the watch armed. */
static bool word_ready(void *context)
{
    struct word_wait *w = context;
    if (holds(w))
        return true;
    if ((w->lost = word_lost(w)) != ACP_OK) {
        if (holds(w)) /* one of them has written it in between */
            w->lost = ACP_OK;
        return true;
    }
    if (w->watch && linux_now_ns() >= w->arm_at && !atomic_exchange(&w->watch->armed, 1)) {
        membarrier_all();
        return holds(w);
    }
    return false;
}

int acp_word_find(acp_lane *lane, acp_ga_t ga, uint32_t width, acp_word *word)
{
    struct translation t;
    enum reach reach;
    if (ga & (width - 1))
        return lane_fail(lane, ACP_E_ALIGN, ga, width);
    int rc = translate(lane, ga, width, &t, &reach);
    if (rc != ACP_OK)
        return rc;
    if (reach == REACH_DEVICE)
        return lane_fail(lane, ACP_E_DEVICE, ga, width);
    if (t.peer != lane->engine->job.own)
        return lane_fail(lane, ACP_E_PRIVATE, ga, width);
    *word = (acp_word){t.base + (ga - t.low), t.position + (ga - t.low), ga, width,
                       t.busy != lane->nowhere};
    return ACP_OK;
}

static struct watch *watch_take(acp_engine *e, const acp_word *word)
{
    struct watch *watch = NULL;
    pthread_mutex_lock(&e->space);
    for (uint32_t i = 0; i < WATCHES && !watch; i++)
        if (e->doors->watches[i].high == 0)
            watch = &e->doors->watches[i];
    if (watch) {
        watch->low = word->position;
        watch->high = word->position + word->width;
        atomic_fetch_add(&e->doors->watching, 1);
    }
    pthread_mutex_unlock(&e->space);
    return watch;
}

static void watch_give(acp_engine *e, struct watch *watch)
{
    atomic_store(&watch->armed, 0);
    watch->low = 0;
    atomic_store(&watch->high, 0);
    atomic_fetch_sub(&e->doors->watching, 1);
}

/* More threads wait than there are watches: this one looks every millisecond. */
static int word_look(struct word_wait *w, int64_t timeout_ns)
{
    acp_engine *e = w->engine;
    uint64_t start = linux_now_ns(), asked = start;
    bool watching = false, told = false;
    for (;;) {
        int rc = wait_ready(e, word_ready, w, 1000000, ACP_DOING_WAIT_UNTIL);
        int64_t waited = (int64_t)(linux_now_ns() - start);
        if (rc != ACP_E_TIMEOUT || waited >= timeout_ns)
            return rc;
        if (!watching && waited > ANYBODY_NS) {
            watching = true;
            any_source_watch(e, w->among);
        }
        if (!e->config.tick || linux_now_ns() - asked < ASK_NS)
            continue;
        asked = linux_now_ns(); /* a signal may have come between two sleeps, or to another thread */
        if (wait_tick(e, ACP_TICK_SIGNAL) || wait_told(e, start, &told))
            return ACP_E_INTERRUPTED;
    }
}

static void watch_writers(acp_engine *e, const void *among)
{
    any_source_watch(e, among);
}

int acp_word_wait(acp_engine *e, const acp_word *word, acp_compare op, uint64_t value,
                  bool is_signed, acp_sources *among, int64_t losses, int64_t timeout_ns)
{
    struct word_wait w = {.word = word->address, .width = word->width, .op = op, .value = value,
                          .is_signed = is_signed, .engine = e, .ga = word->ga,
                          .dies = word->dies, .among = among, .losses = losses,
                          .others = among && !any_source_has_self(e, among)};
    for (uint32_t spin = 0; spin < 200; spin++) {
        if (holds(&w))
            return w.gone ? ACP_E_UNREGISTERED : ACP_OK;
        linux_cpu_relax();
    }
    int unseen = window_writes(e, word->position);
    int rc;
    wait_unrung(e, unseen);
    w.arm_at = wait_arm_at(e);
    w.watch = watch_take(e, word);
    if (w.watch) {
        const struct awaited written = {word_ready, &w, watch_writers, NULL, among, false};
        rc = any_source_wait(e, &written, timeout_ns, ACP_DOING_WAIT_UNTIL);
        watch_give(e, w.watch);
    } else {
        rc = word_look(&w, timeout_ns);
    }
    wait_unrung(e, -unseen);
    if (rc == ACP_E_TIMEOUT || w.lost)
        any_source_polled(e, among);
    if (rc != ACP_OK)
        return rc;
    return w.gone ? ACP_E_UNREGISTERED : w.lost;
}
