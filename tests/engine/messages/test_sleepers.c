/* A thread that sleeps for a message has said so before: else nothing would ring for it. So it is also when many waits in
 * vain have shortened the look before the sleep. */
#include "cluster/posting.h"
#include "core/layout.h"
#include "messages/mailbox.h"
#include "messages/request.h"

enum { TRIES = 1000, VAIN = 5 };

struct sleeper {
    acp_engine *engine;
    acp_request *receive;
    _Atomic bool over;
};

/* For less than the first slice of a sleep. */
static void *sleeps(void *argument)
{
    struct sleeper *s = argument;
    CHECK(acp_request_wait(s->engine, s->receive, 5000000) == ACP_E_TIMEOUT);
    s->over = true;
    return NULL;
}

static bool is_asleep(const acp_engine *e)
{
    return atomic_load(&e->control->asleep) && layout_doing_threads(e->control);
}

static bool says_so(const struct sleeper *s)
{
    return __atomic_load_n(&s->receive->entry->attention, __ATOMIC_SEQ_CST) == ATTENTION_SLEEPS;
}

int main(void)
{
    struct cluster c;
    uint64_t word = 0;
    bool seen = false;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    struct sleeper s = {.engine = e, .receive = irecv(e, 1, 1, &word, sizeof word)};
    for (int i = 0; i < TRIES && !seen; i++) { /* one may see nothing, where the processors are busy */
        pthread_t thread;
        s.over = false;
        e->progress.vain = VAIN;
        CHECK(pthread_create(&thread, NULL, sleeps, &s) == 0);
        while (!s.over)
            seen |= is_asleep(e) && says_so(&s) && is_asleep(e);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK(seen);
    CHECK(!isend(c.engines[1], 0, 1, &word, sizeof word));
    got(e, s.receive, ACP_OK);
    cluster_stop(&c);
    return 0;
}
