/* Connections that say nothing, more than a process has room for: who belongs to the job gets in all the same,
 * and nobody counts as dead meanwhile. */
#include "cluster/stranger.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "peers/peer.h"
#include "transport/connection.h"
#include "transport/connection_input.h"
#include "transport/frame.h"
#include "transport/handshake.h"
#include "transport/link.h"

#include <poll.h>
#include <sys/epoll.h>
#include <pthread.h>

#define CROWD 300u
#define MOST 256u
#define EACH 32u
#define SESSION_KNOCK 2u
#define SESSION_LATER 4u
#define LONG_NS ((uint64_t)60000000000)
#define TIMEOUT_NS ((uint64_t)2000000000)

struct crowd {
    struct town *town;
    _Atomic bool over;
    uint32_t most; /* half-open ones that the engine had, which had so many once */
    pthread_t thread;
};

static uint32_t pending(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    uint32_t count = e->tcp.pending_handshakes;
    pthread_mutex_unlock(&e->lock);
    return count;
}

/* Each connection that is closed is followed by another. */
static void *crowd_in(void *context)
{
    struct crowd *c = context;
    struct pollfd all[CROWD];
    struct stranger s;
    for (uint32_t i = 0; i < CROWD; i++)
        all[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    while (!c->over) {
        for (uint32_t i = 0; i < CROWD; i++) {
            if (all[i].fd >= 0 && all[i].revents)
                close(all[i].fd);
            if (all[i].fd < 0 || all[i].revents) {
                stranger_call(c->town, &s, 0, 0);
                all[i].fd = s.fd;
            }
        }
        poll(all, CROWD, 10);
        uint32_t count = pending(c->town->engines[0]);
        c->most = count > c->most ? count : c->most;
    }
    for (uint32_t i = 0; i < CROWD; i++)
        close(all[i].fd);
    return NULL;
}

static void crowd_start(struct crowd *c, struct town *t)
{
    *c = (struct crowd){.town = t, .most = MOST};
    CHECK(pthread_create(&c->thread, NULL, crowd_in, c) == 0);
    while (pending(t->engines[0]) < MOST)
        poll(NULL, 0, 1);
}

static void crowd_stop(struct crowd *c)
{
    c->over = true;
    pthread_join(c->thread, NULL);
    CHECK(c->most == MOST);
}

static void cut(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    for (struct link *link = e->tcp.links; link; link = link->next)
        if (link->wire && link->wire->fd >= 0)
            shutdown(link->wire->fd, SHUT_RDWR);
    pthread_mutex_unlock(&e->lock);
}

static void the_job_goes_on(struct town *t)
{
    struct crowd c;
    town_check_served(t, 0);
    crowd_start(&c, t);
    for (int turn = 0; turn < 3; turn++) {
        cut(t->engines[turn % 2]);
        town_check_served(t, 0);
        town_check_served(t, 1);
    }
    struct stranger s;
    stranger_enter(t, &s, 5); /* and who comes for the first time gets in */
    stranger_leave(&s);
    crowd_stop(&c);
    CHECK(!t->engines[0]->job.losses && !t->engines[1]->job.losses);
}

/* From an address of no host of the job. */
static void one_address_has_a_share(struct town *t)
{
    struct pollfd all[2 * EACH];
    uint32_t ended = 0;
    for (uint32_t i = 0; i < 2 * EACH; i++) {
        struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                 .sin_port = t->rows[0].port};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&from, sizeof from) == 0);
        CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
        all[i] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    while (pending(t->engines[0]) < EACH) /* so many may stay */
        poll(NULL, 0, 1);
    while (ended < EACH) {
        CHECK(pending(t->engines[0]) <= EACH);
        CHECK(poll(all, 2 * EACH, -1) > 0);
        for (uint32_t i = 0; i < 2 * EACH; i++) {
            if (!all[i].revents)
                continue;
            ended++;
            close(all[i].fd);
            all[i].fd = -1;
        }
    }
    town_check_served(t, 0);
    for (uint32_t i = 0; i < 2 * EACH; i++)
        close(all[i].fd);
}

/* The event may be looked at after its connection has ended. */
static void events_of_no_connection(struct town *t)
{
    acp_engine *e = t->engines[0];
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < e->tcp.wire_room + 3; i++)
        if (i >= e->tcp.wire_room || !e->tcp.wires[i])
            connection_input_ready(&e->lanes[LANE_LOCKED], i, EPOLLIN | EPOLLOUT | EPOLLHUP);
    pthread_mutex_unlock(&e->lock);
    town_check_served(t, 0);
}

/* The peer may be busy with others: only after a multiple of the time it is dead, and not before. */
static void a_listener_that_is_silent_is_not_dead(struct town *t)
{
    static uint64_t old;
    acp_engine *e = t->engines[0];
    acp_handle_t pending_add;
    struct stranger s;
    struct frame f;
    struct message session = {.kind = ACP_SESSION};
    uint64_t until = linux_now_ns() + TIMEOUT_NS + TIMEOUT_NS / 2;
    CHECK(acp_fetch(acp_engine_lane(e), ACP_ADD8, stranger_word(7), 1, 0, &old, &pending_add) == ACP_OK);
    while (linux_now_ns() < until) { /* takes calls and says nothing */
        struct pollfd call = {.fd = t->listeners[7], .events = POLLIN};
        if (poll(&call, 1, 100) > 0) {
            stranger_accept(t, &s, 7);
            unsigned char hello[ACP_HELLO_SIZE];
            CHECK(stranger_receive(&s, hello, sizeof hello));
            stranger_sees_the_end(&s);
        }
    }
    CHECK(!peer_of_slot(e, 7)->lost);
    for (stranger_accept(t, &s, 7); !stranger_let_prove(&s) || !stranger_hear(&s, &f); stranger_accept(t, &s, 7))
        stranger_leave(&s); /* the engine has given up that call meanwhile */
    CHECK(f.message.kind == ACP_SESSION);
    session.id = f.message.id;
    CHECK(stranger_say(&s, &session, 0, NULL, 0));
    CHECK(stranger_hear(&s, &f) && f.message.kind == ACP_ADD8);
    struct message reply = {.kind = ACP_REPLY, .flags = ANSWER_COUNTED, .id = f.message.id, .a = 3};
    stranger_say(&s, &reply, s.heard, NULL, 0);
    CHECK(acp_wait(e, pending_add, ACP_FOREVER) == ACP_OK && old == 3);
    stranger_leave(&s);
}

/* The engine waits for the call of a peer that owes it an acknowledgement, and knocks; the peer has no descriptor. */
static void a_knock_is_put_off(struct town *t)
{
    struct message answer, later = {.kind = ACP_SESSION, .flags = SESSION_LATER};
    struct stranger s;
    struct frame f;
    stranger_enter(t, &s, 6);
    CHECK(stranger_session(&s, 77, true, 0, &answer));
    CHECK(stranger_adds(&s) == 1);
    stranger_leave(&s);
    for (uint32_t i = 0; i < 3; i++) {
        stranger_accept(t, &s, 6);
        CHECK(stranger_let_prove(&s) && stranger_hear(&s, &f));
        CHECK(f.message.kind == ACP_SESSION && f.message.flags == SESSION_KNOCK);
        CHECK(stranger_say(&s, &later, 0, NULL, 0));
        stranger_sees_the_end(&s);
    }
    stranger_enter(t, &s, 6);
    CHECK(stranger_session(&s, 77, false, 1, &answer) && answer.status == ACP_OK && answer.a == 1);
    stranger_leave(&s);
    CHECK(!peer_of_slot(t->engines[0], 6)->lost);
}

int main(void)
{
    struct town t;
    town_start(&t, LONG_NS);
    a_knock_is_put_off(&t);
    town_stop(&t);
    town_start(&t, TIMEOUT_NS);
    a_listener_that_is_silent_is_not_dead(&t);
    one_address_has_a_share(&t);
    events_of_no_connection(&t);
    the_job_goes_on(&t);
    town_stop(&t);
    return 0;
}
