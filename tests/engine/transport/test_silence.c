/* Who is dead, and who is only out of reach for a while: the time after which a peer counts as dead is
 * that of its own silence, and nobody else's fault. */
#include "cluster/ageing.h"
#include "cluster/mailing.h"
#include "cluster/relayed.h"
#include "support/crash.h"
#include "support/methods.h"
#include "base/linux.h"
#include "core/lane.h"
#include "peers/peer.h"

#include <sys/resource.h>

#define RANKS 2u
#define STOPPED_NS 4500000000u
#define SHORT_NS 1000000000u /* only when the peer is dead: it may get no processor for as long */

static struct proxy proxies[RANKS];

static void start(struct cluster *c, uint64_t peer_timeout_ns)
{
    relayed_start(c, proxies, RANKS, peer_timeout_ns, test_methods);
}

static void put_begin(acp_engine *e, uint64_t value, acp_handle_t *pending)
{
    CHECK(acp_put(acp_engine_lane(e), acp_starter(e, 1 - acp_rank(e)), &value, 8, pending) == ACP_OK);
}

static void put_end(const struct cluster *c, acp_engine *e, uint64_t value, acp_handle_t pending)
{
    acp_failure failure;
    uint64_t more, other = 1 - acp_rank(e);
    CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
    CHECK(!acp_failures_take(e, pending, true, &failure, 1, &more));
    CHECK(words_of(c->engines[other], (uint32_t)other)[0] == value);
}

static void put_now(const struct cluster *c, acp_engine *e, uint64_t value)
{
    acp_handle_t pending;
    put_begin(e, value, &pending);
    put_end(c, e, value, pending);
}

/* Is there a connection on which nothing has come or gone yet? */
static bool has_another_wire(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool is = e->tcp.links && e->tcp.links->state == LINK_OPEN && !e->tcp.links->moved;
    pthread_mutex_unlock(&e->lock);
    return is;
}

/* An idle connection is dropped on the way, and so is the one that follows it when it is needed at
 * last: the time runs since then, not since the first. */
static void what_idled_on_a_wire_was_not_silent(void)
{
    struct cluster c;
    acp_handle_t pending;
    start(&c, CLUSTER_PATIENCE_NS);
    acp_engine *e = c.engines[0];
    for (uint64_t round = 0; round < 2; round++) {
        put_now(&c, e, 7);
        relayed_cut(&c, proxies);
        UNTIL(has_another_wire(e));
        links_age(e, 1, 2 * CLUSTER_PATIENCE_NS);
        relayed_stall(&c, proxies, true);
        put_begin(e, round, &pending);
        relayed_cut(&c, proxies);
        relayed_stall(&c, proxies, false);
        put_end(&c, e, round, pending);
    }
    relayed_stop(&c, proxies);
}

static bool has_a_full_wire(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool is = e->tcp.links->wire->writing;
    pthread_mutex_unlock(&e->lock);
    return is;
}

/* The question whether a peer is there waits for a place on the wire: the peer owes no answer until then. */
static void who_was_not_asked_was_not_silent(void)
{
    enum { CALLS = 4 };
    static unsigned char in[60000];
    struct acp_call calls[CALLS];
    struct cluster c;
    acp_handle_t h = 0;
    int small = 8192;
    start(&c, CLUSTER_PATIENCE_NS);
    acp_engine *e = c.engines[0];
    uint64_t *lock = words_of(c.engines[1], 1);
    put_now(&c, e, 1); /* the lock is held: no call has an answer */
    pthread_mutex_lock(&e->lock);
    for (struct link *l = e->tcp.links; l; l = l->next)
        setsockopt(l->wire->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    pthread_mutex_unlock(&e->lock);
    relayed_stall(&c, proxies, true);
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct acp_call){.method = LOCKED, .object = acp_starter(e, 1), .in = in,
                                     .in_size = sizeof in};
        h = acp_icall(acp_engine_lane(e), &calls[i], ACP_HANDLE_NULL);
        CHECK(h != 0);
    }
    UNTIL(has_a_full_wire(e));
    links_age(e, 1, 2 * CLUSTER_PATIENCE_NS);
    pthread_mutex_lock(&e->lock);
    CHECK(!e->tcp.links->asked);
    pthread_mutex_unlock(&e->lock);
    relayed_stall(&c, proxies, false);
    __atomic_store_n(lock, 0, __ATOMIC_SEQ_CST);
    CHECK(acp_wait(e, h, ACP_FOREVER) == ACP_OK);
    CHECK(lock[1] == CALLS);
    relayed_stop(&c, proxies);
}

/* Who has opened a link hears nothing of its end when only the other side's has come to it. The other side
 * knocks, and it calls again. */
static void a_wire_with_one_end_is_noticed(uint32_t speaker, uint64_t peer_timeout_ns)
{
    struct cluster c;
    acp_request *r = NULL;
    uint64_t got = 0;
    start(&c, peer_timeout_ns);
    put_now(&c, c.engines[0], 1); /* rank 0 has opened the link */
    relayed_half_cut(proxies, 1);
    if (speaker == 0)
        r = ireceive(acp_engine_lane(c.engines[0]), 1, 5, &got, sizeof got);
    put_now(&c, c.engines[1], 2);
    if (speaker == 0) {
        uint64_t sent = 3;
        post_message(acp_engine_lane(c.engines[1]), 0, 5, &sent, sizeof sent);
        receive_end_of(acp_engine_lane(c.engines[0]), r);
        CHECK(got == sent);
    }
    relayed_stop(&c, proxies);
}

/* Somebody takes calls at the first address of rank 1, and says nothing. */
static void an_address_that_leads_nowhere_is_one_of_several(void)
{
    uint8_t addresses[] = {127, 0, 0, 2, 127, 0, 0, 1};
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    struct row *far = (struct row *)(void *)rows[1];
    struct sockaddr_in at = {.sin_family = AF_INET};
    struct cluster c;
    int mute = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cluster_create(&c, RANKS, RANKS, ACP_PATH_LINK, CLUSTER_SHARED, 2000000000u, rows);
    at.sin_port = far->port;
    memcpy(&at.sin_addr, addresses, sizeof at.sin_addr);
    while (bind(mute, (struct sockaddr *)&at, sizeof at)) { /* another test has that number there */
        CHECK(errno == EADDRINUSE && addresses[3]++ < 200);
        memcpy(&at.sin_addr, addresses, sizeof at.sin_addr);
    }
    CHECK(listen(mute, 8) == 0);
    far->host++;
    memcpy(far->addresses, addresses, sizeof addresses);
    for (uint32_t i = 0; i < RANKS; i++) {
        CHECK(acp_table_add(c.engines[i], 0, rows[0], RANKS) == ACP_OK);
        CHECK(acp_engine_join(c.engines[i], RANKS, i) == ACP_OK);
    }
    put_now(&c, c.engines[0], 7);
    cluster_stop(&c);
    close(mute);
}

/* While this process is stopped it hears nobody; when it goes on it asks again, or goes on to call. */
static void who_did_not_listen_asks_again(bool calls)
{
    int status;
    pid_t pid = child_start();
    if (!pid) {
        struct cluster c;
        acp_handle_t pending;
        start(&c, STOPPED_NS * 2 / 3);
        put_now(&c, c.engines[0], 1);
        relayed_stall(&c, proxies, true);
        if (calls)
            relayed_cut(&c, proxies);
        put_begin(c.engines[0], 2, &pending);
        CHECK(acp_wait(c.engines[0], pending, 300000000) == ACP_E_TIMEOUT);
        raise(SIGSTOP);
        relayed_stall(&c, proxies, false);
        put_end(&c, c.engines[0], 2, pending);
        relayed_stop(&c, proxies);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    usleep(STOPPED_NS / 1000);
    CHECK(kill(pid, SIGCONT) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Who asks while this process is late to look at its links, as it ends, has waited for no time at all. */
static void who_was_asked_just_now_was_not_silent(void)
{
    struct cluster c;
    acp_handle_t pending;
    start(&c, CLUSTER_PATIENCE_NS);
    acp_engine *e = c.engines[0];
    put_now(&c, e, 1);
    relayed_stall(&c, proxies, true);
    put_begin(e, 2, &pending);
    pthread_mutex_lock(&e->lock);
    e->tcp.links->asked = linux_now_ns();
    keepalive_tick(&e->lanes[LANE_LOCKED], 500000000);
    pthread_mutex_unlock(&e->lock);
    relayed_stall(&c, proxies, false);
    put_end(&c, e, 2, pending);
    relayed_stop(&c, proxies);
}

/* No descriptor is left to call anew with: that says nothing of the peer. */
static void who_cannot_call_waits(void)
{
    struct cluster c;
    struct rlimit before, none;
    acp_handle_t pending;
    start(&c, 2000000000u);
    acp_engine *e = c.engines[0];
    put_now(&c, e, 1);
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    relayed_cut(&c, proxies);
    put_begin(e, 2, &pending);
    CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_E_SHORT && acp_short_error(e) == EMFILE);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    put_end(&c, e, 2, pending);
    relayed_stop(&c, proxies);
}

/* Writes to the other until that fails: the network may still carry something. */
static void *wait_for_death(void *engine)
{
    acp_engine *e = engine;
    acp_lane *lane = acp_engine_lane(e);
    uint64_t value = 1, more;
    acp_handle_t pending = 0;
    acp_failure failure = {.fault.status = ACP_OK};
    int rc = ACP_OK;
    while (rc == ACP_OK && failure.fault.status == ACP_OK) {
        rc = acp_put(lane, acp_starter(e, 1 - acp_rank(e)), &value, 8, &pending);
        if (rc == ACP_OK) {
            CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
            acp_failures_take(e, pending, true, &failure, 1, &more);
        }
    }
    CHECK((rc ? rc : failure.fault.status) == ACP_E_LOST);
    return NULL;
}

static void end_unequal(struct cluster *c)
{
    for (uint32_t i = 0; i < RANKS; i++)
        acp_engine_close(c->engines[i]);
    for (uint32_t i = 0; i < RANKS; i++)
        acp_engine_free(c->engines[i]);
    for (uint32_t i = 0; i < RANKS; i++)
        proxy_stop(&proxies[i]);
}

static void who_is_silent_is_dead(void)
{
    struct cluster c;
    pthread_t threads[RANKS];
    start(&c, CLUSTER_PATIENCE_NS);
    put_now(&c, c.engines[0], 1);
    relayed_stall(&c, proxies, true);
    cluster_patience(&c, SHORT_NS);
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK(pthread_create(&threads[i], NULL, wait_for_death, c.engines[i]) == 0);
    for (uint32_t i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    relayed_stall(&c, proxies, false);
    end_unequal(&c);
}

static int take_a_while(void *context, int reason)
{
    (void)context;
    (void)reason;
    usleep(300000); /* the next look at the links comes meanwhile */
    return 0;
}

static void who_handles_signals_waits_all_the_same(void)
{
    struct cluster c;
    uint64_t got;
    start(&c, CLUSTER_PATIENCE_NS);
    acp_engine *e = c.engines[0];
    e->config.tick = take_a_while;
    put_now(&c, e, 1);
    acp_request *r = ireceive(acp_engine_lane(e), 1, 5, &got, sizeof got);
    relayed_stall(&c, proxies, true);
    cluster_patience(&c, SHORT_NS);
    CHECK(acp_request_wait(e, r, 20000000000) == ACP_OK);
    CHECK(acp_request_end(acp_engine_lane(e), r, NULL) == ACP_E_LOST);
    relayed_stall(&c, proxies, false);
    end_unequal(&c);
}

/* Nor does who reads nothing in the middle of a long transfer live for ever. */
static void who_takes_nothing_is_dead(void)
{
    struct cluster c;
    uint64_t size = (uint64_t)48 << 20, key[2] = {0, 1}, value[2] = {0, 0}, more;
    unsigned char *here = calloc(1, size);
    acp_failure failure;
    acp_ga_t ga;
    void *there;
    start(&c, CLUSTER_PATIENCE_NS);
    acp_engine *e = c.engines[0], *other = c.engines[1];
    CHECK(acp_memory_alloc(acp_engine_lane(other), size, 0, &ga, &there) == ACP_OK);
    value[0] = ga;
    CHECK(acp_publish(other, key, value, 0, NULL, ACP_FOREVER) == ACP_OK);
    CHECK(acp_lookup(e, key, value, ACP_FOREVER) == ACP_OK);
    relayed_stall(&c, proxies, true);
    cluster_patience(&c, SHORT_NS);
    acp_handle_t h = acp_iput(acp_engine_lane(e), ga, here, size, ACP_HANDLE_NULL);
    CHECK(h && acp_wait(e, h, ACP_FOREVER) == ACP_OK);
    CHECK(acp_failures_take(e, h, true, &failure, 1, &more) && failure.fault.status == ACP_E_LOST);
    relayed_stall(&c, proxies, false);
    acp_memory_drop(acp_engine_lane(other), there, size);
    end_unequal(&c);
    free(here);
}

/* What a handshake says before it has proved anything may be a flipped bit, or a lie. */
static void who_is_told_once_that_a_stranger_listens_calls_again(void)
{
    uint64_t value = 7;
    for (uint32_t times = 1; times <= 2; times++) {
        struct cluster c;
        acp_handle_t pending;
        start(&c, 20000000000u);
        acp_engine *e = c.engines[0];
        proxies[1].spoiled_hellos = times;
        CHECK(acp_put(acp_engine_lane(e), acp_starter(e, 1), &value, 8, &pending) == ACP_OK);
        int rc = acp_wait(e, pending, ACP_FOREVER);
        CHECK(proxies[1].spoiled_hellos == 0);
        CHECK(peer_of_slot(e, 1)->lost == (times == 2));
        CHECK(times == 2 || (rc == ACP_OK && words_of(c.engines[1], 1)[0] == value));
        end_unequal(&c);
    }
}

static bool has_links(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool any = e->tcp.links != NULL;
    pthread_mutex_unlock(&e->lock);
    return any;
}

/* The one that others hold for dead learns it from the first that it speaks to, though their last word be
 * lost on the way. */
static void who_is_declared_dead_learns_it(bool at_once)
{
    struct cluster c;
    start(&c, 20000000000u);
    put_now(&c, c.engines[0], 1);
    relayed_stall(&c, proxies, !at_once);
    peer_mark_lost(c.engines[0], peer_of_slot(c.engines[0], 1));
    UNTIL(at_once || !has_links(c.engines[0]));
    if (!at_once)
        relayed_cut(&c, proxies);
    relayed_stall(&c, proxies, false);
    wait_for_death(c.engines[1]);
    CHECK(c.engines[1]->job.outcast);
    end_unequal(&c);
}

int main(void)
{
    what_idled_on_a_wire_was_not_silent();
    who_was_not_asked_was_not_silent();
    a_wire_with_one_end_is_noticed(1, 2000000000u);
    a_wire_with_one_end_is_noticed(0, 2000000000u);
    a_wire_with_one_end_is_noticed(1, 800000000u);
    an_address_that_leads_nowhere_is_one_of_several();
    who_did_not_listen_asks_again(false);
    who_did_not_listen_asks_again(true);
    who_was_asked_just_now_was_not_silent();
    who_cannot_call_waits();
    who_is_silent_is_dead();
    who_handles_signals_waits_all_the_same();
    who_takes_nothing_is_dead();
    who_is_told_once_that_a_stranger_listens_calls_again();
    who_is_declared_dead_learns_it(true);
    who_is_declared_dead_learns_it(false);
    return 0;
}
