/* A death is the end of what needs the dead, and of nothing else: not of a receive that has the place of
 * one of theirs, nor of who lives. */
#include "cluster/collecting.h"
#include "cluster/stranger.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "messages/flow.h"
#include "messages/mailbox.h"
#include "messages/request.h"
#include "operations/notices.h"
#include "peers/peer.h"
#include "progress/progress.h"
#include "transport/frame.h"
#include "transport/handshake.h"
#include "transport/link.h"
#include "transport/shm_ring.h"

#include <sys/wait.h>
#include <unistd.h>

#define SIZE ((uint64_t)200000)
#define PIECE ((uint64_t)FRAME_PAYLOAD_MOST)

static unsigned char data[SIZE], into[2][SIZE];

/* A part of a message that is all `data`: the first one is with its envelope. */
static void say_part(struct stranger *s, uint64_t id, int64_t tag, uint64_t at)
{
    uint64_t size = SIZE - at < PIECE ? SIZE - at : PIECE;
    struct message m = {.kind = ACP_MAIL_PART, .id = id, .a = at};
    if (!at)
        m = (struct message){.kind = ACP_MAIL, .id = id, .src = (uint64_t)tag, .a = SIZE,
                             .b = (uint64_t)tag * 7 + SIZE};
    CHECK(stranger_say(s, &m, s->heard, data + at, (uint32_t)size));
}

static void come_in(struct town *t, struct stranger *s, uint32_t slot)
{
    struct message answer;
    stranger_call(t, s, slot, 0);
    CHECK(stranger_prove(t, s, 0, stranger_secret) == ACP_HANDSHAKE_DONE);
    CHECK(stranger_session(s, 1, true, 0, &answer) && answer.status == ACP_OK);
}

/* From here to progress_leader_release rank 0 hears of nothing and does nothing by itself. */
static void take_lead(acp_engine *e)
{
    UNTIL(progress_leader_try(e));
}

static bool in_touch(acp_engine *e, const struct peer *p)
{
    pthread_mutex_lock(&e->lock);
    bool any = links_reach(e, p);
    pthread_mutex_unlock(&e->lock);
    return any;
}

/* Its farewell may be lost with the wire. */
static void who_has_said_that_it_ends_is_not_missed(struct town *t)
{
    enum { SLOT = RESIDENTS + 10 };
    acp_engine *e = t->engines[0];
    struct peer *p = peer_of_slot(e, SLOT);
    struct message word = {.kind = ACP_LEAVING, .a = ENDING, .src = RESIDENTS + STRANGERS};
    struct stranger s;
    come_in(t, &s, SLOT);
    CHECK(stranger_say(&s, &word, s.heard, NULL, 0));
    UNTIL(p->leaving);
    close(t->listeners[SLOT]);
    t->listeners[SLOT] = -1;
    stranger_leave(&s);
    UNTIL(!in_touch(e, p));
    CHECK(!p->lost);
    uint32_t both[] = {0, SLOT};
    CHECK(acp_barrier(e, both, 2, 2, ACP_FOREVER) == ACP_OK);
}

static bool is_lost_as_told(struct town *t, uint32_t slot, uint64_t how)
{
    acp_engine *e = t->engines[0];
    const struct message word = {.kind = ACP_LOST, .a = slot, .b = how};
    pthread_mutex_lock(&e->lock);
    notices_loss_heard(&e->lanes[LANE_LOCKED], &word);
    bool lost = peer_of_slot(e, slot)->lost;
    pthread_mutex_unlock(&e->lock);
    return lost;
}

/* What a peer has said before it left in order comes first; who has died has nothing more to say. */
static void a_loss_is_told_by_others(struct town *t)
{
    enum { LEAVES = RESIDENTS + 11, DIES = RESIDENTS + 12 };
    struct stranger s;
    come_in(t, &s, LEAVES);
    CHECK(!is_lost_as_told(t, LEAVES, LOST_IN_ORDER));
    close(t->listeners[LEAVES]);
    t->listeners[LEAVES] = -1;
    stranger_leave(&s);
    UNTIL(peer_of_slot(t->engines[0], LEAVES)->lost);
    come_in(t, &s, DIES);
    CHECK(is_lost_as_told(t, DIES, 0));
    stranger_leave(&s);
}

static uint64_t hear_leaving(struct stranger *s)
{
    struct frame f;
    do
        CHECK(stranger_hear(s, &f));
    while (f.message.kind != ACP_LEAVING);
    return f.message.a;
}

static void *stop(void *town)
{
    town_stop(town);
    return NULL;
}

/* Who ends says so until that has arrived, and only then farewell. */
static void the_end_is_announced_until_it_is_heard(struct town *t)
{
    struct message answer, ack = {.kind = ACP_ACK};
    struct stranger s;
    pthread_t thread;
    come_in(t, &s, RESIDENTS);
    CHECK(pthread_create(&thread, NULL, stop, t) == 0);
    CHECK(hear_leaving(&s) == ENDING);
    stranger_leave(&s);
    stranger_enter(t, &s, RESIDENTS);
    CHECK(stranger_session(&s, 1, false, 0, &answer) && answer.status == ACP_OK);
    CHECK(hear_leaving(&s) == ENDING);
    CHECK(stranger_say(&s, &ack, s.heard, NULL, 0));
    CHECK(hear_leaving(&s) == FAREWELL);
    stranger_sees_the_end(&s);
    pthread_join(thread, NULL);
}

static void lost(acp_lane *lane, acp_request *r, uint32_t rank)
{
    CHECK(acp_request_wait(lane->engine, r, ACP_FOREVER) == ACP_OK);
    CHECK(acp_request_end(lane, r, NULL) == ACP_E_LOST);
    CHECK(acp_lane_fault(lane)->rank == rank);
}

/* Who receives from the dead is done when nothing is written to its buffer any more: parts of the message
 * may still be on their way through this process, and its entry is the next receive's. */
static void a_receive_ends_after_its_bytes(struct town *t)
{
    acp_engine *e = t->engines[0];
    acp_lane *lane = acp_engine_lane(e);
    for (uint32_t parts = 1; parts <= 4; parts++) {
        uint32_t slot = RESIDENTS + parts;
        struct stranger s;
        come_in(t, &s, slot);
        acp_request *first = ireceive(lane, slot, 1, into[0], SIZE), *second;
        say_part(&s, 1, 1, 0);
        UNTIL(mailbox_entry_state(first->entry) == ENTRY_FILLING);
        take_lead(e);
        for (uint32_t i = 1; i < parts; i++)
            say_part(&s, 1, 1, i * PIECE);
        peer_mark_lost(e, peer_of_slot(e, slot));
        bool early = acp_request_done(first);
        if (early)
            CHECK(acp_request_end(lane, first, NULL) == ACP_E_LOST);
        second = ireceive(lane, 1, 2, into[1], SIZE);
        progress_leader_release(e);
        if (!early)
            lost(lane, first, slot);
        post_message(acp_engine_lane(t->engines[1]), 0, 2, data, SIZE);
        CHECK(receive_end_of(lane, second).source == 1 && !memcmp(into[1], data, SIZE));
        CHECK(!early);
        stranger_leave(&s);
    }
}

/* Who finds a stream broken when it writes may not have read yet what had come on it. */
static void what_came_before_the_end_is_read(struct town *t)
{
    enum { SLOT = RESIDENTS + 9 };
    acp_engine *e = t->engines[0];
    acp_lane *lane = acp_engine_lane(e);
    struct linger hard = {1, 0};
    struct stranger s;
    acp_failure failure;
    uint64_t word = 0, more;
    come_in(t, &s, SLOT);
    struct message last = {.kind = ACP_MAIL, .id = 1, .src = 1, .a = 8, .b = 1 * 7 + 8};
    acp_request *r = ireceive(lane, SLOT, 1, into[0], SIZE);
    take_lead(e);
    CHECK(stranger_say(&s, &last, s.heard, data, 8));
    CHECK(setsockopt(s.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard) == 0);
    stranger_leave(&s);
    acp_handle_t h = acp_iput(lane, stranger_word(SLOT), &word, 8, ACP_HANDLE_NULL);
    progress_leader_release(e);
    CHECK(h && receive_end_of(lane, r).source == SLOT && !memcmp(into[0], data, 8));
    peer_mark_lost(e, peer_of_slot(e, SLOT));
    CHECK(acp_wait(e, h, ACP_FOREVER) == ACP_OK);
    CHECK(acp_failures_take(e, h, true, &failure, 1, &more) && failure.fault.status == ACP_E_LOST);
}

/* The heap and its entries. */
static uint32_t use_up(acp_lane *lane, acp_ga_t *blocks, acp_request **receives, uint32_t most)
{
    struct acp_call call;
    acp_handle_t pending;
    uint32_t count = 0;
    void *place;
    *blocks = 0;
    for (uint64_t size = (uint64_t)64 << 20; size >= 64; size /= 2)
        while (AGAIN(acp_malloc(lane, 0, size, &call, &pending)) == ACP_OK) {
            CHECK(acp_query_address(lane, call.result[0], 8, &place) == ACP_OK);
            memcpy(place, blocks, 8);
            *blocks = call.result[0];
        }
    acp_envelope never = {.source = 1, .tag = 99, .size = 8};
    while (AGAIN(acp_receive(lane, &never, into[1], &receives[count])) == ACP_OK)
        CHECK(++count < most);
    return count;
}

static void give_back(acp_lane *lane, acp_ga_t blocks, acp_request **receives, uint32_t count)
{
    struct acp_call call;
    acp_handle_t pending;
    void *place;
    while (count--) {
        CHECK(AGAIN(acp_request_cancel(lane, receives[count])) == ACP_OK);
        CHECK(acp_request_end(lane, receives[count], NULL) == ACP_E_CANCELLED);
    }
    for (acp_ga_t ga; (ga = blocks);) {
        CHECK(acp_query_address(lane, ga, 8, &place) == ACP_OK);
        memcpy(&blocks, place, 8);
        CHECK(AGAIN(acp_free(lane, ga, &call, &pending)) == ACP_OK);
    }
}

static bool has_come(acp_engine *e, uint32_t slot)
{
    pthread_mutex_lock(&e->lock);
    bool all = !peer_of_slot(e, slot)->mail.flow->late;
    pthread_mutex_unlock(&e->lock);
    return all;
}

/* A message that there is no room for waits for room, also when its sender is dead, and those that have begun do not
 * wait behind it: one that has come wholly is taken while its sender lives, one that has not is lost with it. */
static void nobody_waits_behind_what_has_no_room(struct town *t)
{
    enum { MOST = 4096, SLOT = RESIDENTS + 8 };
    static acp_request *receives[MOST];
    acp_engine *e = t->engines[0];
    acp_lane *lane = acp_engine_lane(e);
    struct stranger s;
    acp_ga_t blocks;
    uint64_t word = 0;
    come_in(t, &s, SLOT);
    acp_request *whole = ireceive(lane, SLOT, 1, into[0], SIZE);
    acp_request *half = ireceive(lane, SLOT, 2, into[1], SIZE);
    uint32_t count = use_up(lane, &blocks, receives, MOST);
    struct message kept = {.kind = ACP_MAIL, .id = 3, .src = 3, .a = 8, .b = 3 * 7 + 8};
    say_part(&s, 1, 1, 0);
    say_part(&s, 2, 2, 0);
    CHECK(stranger_say(&s, &kept, s.heard, data, 8));
    for (uint64_t at = PIECE; at < SIZE; at += PIECE)
        say_part(&s, 1, 1, at);
    say_part(&s, 2, 2, PIECE);
    CHECK(stranger_adds(&s) > 0); /* all that is there */
    CHECK(acp_request_wait(e, whole, (int64_t)PATIENCE_S * 1000000000) == ACP_OK);
    CHECK(receive_end_of(lane, whole).source == SLOT && !memcmp(into[0], data, SIZE));
    CHECK(!has_come(e, SLOT) && !acp_request_done(half));
    peer_mark_lost(e, peer_of_slot(e, SLOT));
    lost(lane, half, SLOT);
    CHECK(!has_come(e, SLOT));
    give_back(lane, blocks, receives, count);
    UNTIL(has_come(e, SLOT));
    CHECK(take_message(lane, SLOT, 3, &word, 8).size == 8 && !memcmp(&word, data, 8));
    stranger_leave(&s);
}

/* They do not meet again. */
static void close_all(struct cluster *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        acp_engine_close(c->engines[i]);
    for (uint32_t i = 0; i < c->count; i++)
        acp_engine_free(c->engines[i]);
}

static bool has_handled_loss(acp_engine *e, uint32_t slot)
{
    const struct peer *p = peer_of_slot(e, slot);
    pthread_mutex_lock(&e->lock);
    bool handled = p->loss_handled;
    pthread_mutex_unlock(&e->lock);
    return handled;
}

/* Rank 1 is held for dead and on its way to give all others up: none of them hears that another has died. */
static void who_is_held_for_dead_has_no_say(void)
{
    struct cluster c;
    uint64_t in[3] = {0}, out[3];
    struct script s;
    cluster_start(&c, 3, 3, ACP_PATH_LINK, CLUSTER_SHARED);
    for (uint32_t from = 0; from < 3; from++)
        for (uint32_t to = 0; to < 3; to++) {
            post_message(acp_engine_lane(c.engines[from]), to, 1, data, SIZE);
            take_message(acp_engine_lane(c.engines[to]), from, 1, into[0], SIZE);
        }
    acp_engine *outcast = c.engines[1], *other = c.engines[2];
    atomic_store(&outcast->job.outcast, true);
    peer_mark_lost(outcast, peer_of_slot(outcast, 0));
    UNTIL(has_handled_loss(outcast, 0));
    script_begin(&s, 3, -1, 0);
    script_send(&s, 2, IN, 0, 8);
    script_await(&s);
    s.buffers[IN] = in;
    s.buffers[OUT] = out;
    acp_collective *one = begin(outcast, &s, 5);
    CHECK(acp_collective_run(one, ACP_FOREVER) == ACP_E_LOST);
    acp_collective_end(one);
    script_begin(&s, 3, -1, 0);
    script_receive(&s, 1, OUT, 0, 8);
    script_await(&s);
    s.buffers[IN] = in;
    s.buffers[OUT] = out;
    one = begin(other, &s, 5);
    uint64_t theirs, why;
    CHECK(acp_collective_run(one, ACP_FOREVER) == ACP_E_LEFT);
    CHECK(acp_collective_trouble(one, &theirs, &why) == 1);
    acp_collective_end(one);
    CHECK(!peer_of_slot(other, 0)->lost);
    close_all(&c);
}

/* In the middle of a put whose parts go through this process's own memory. */
static void the_dead_is_named_and_not_who_calls(void)
{
    enum { LONG = 1 << 20 };
    struct cluster c;
    struct acp_call call;
    acp_handle_t pending;
    acp_failure failure;
    uint64_t more;
    unsigned char *bytes = calloc(1, LONG);
    cluster_start(&c, 2, 1, ACP_PATH_OWNER, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    acp_lane *owner = acp_engine_lane(c.engines[1]);
    CHECK(AGAIN(acp_malloc(owner, 1, LONG, &call, &pending)) == ACP_OK);
    take_lead(e);
    CHECK(acp_put(acp_engine_lane(e), call.result[0], bytes, LONG, &pending) == ACP_OK && pending);
    UNTIL(shm_ring_due(e) == DUE_NOW); /* the answer that lets the next part go */
    peer_mark_lost(e, peer_of_slot(e, 1));
    progress_leader_release(e);
    CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
    CHECK(acp_failures_take(e, pending, true, &failure, 1, &more) == 1);
    CHECK(failure.fault.status == ACP_E_LOST && failure.fault.rank == 1);
    close_all(&c);
    free(bytes);
}

/* Not only when its own system has told this process, too: its program may accept it before that. */
static void who_is_said_to_have_died_is_lost_at_once(void)
{
    struct cluster c;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    struct peer *p = peer_of_slot(e, 1);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, NULL, 0) == child);
    take_lead(e);
    peer_watch(e, p);
    p->row.pid = (uint32_t)child; /* whose end is an event that nobody has looked at */
    peer_said_lost(e, p);
    CHECK(p->lost);
    progress_leader_release(e);
    close_all(&c);
}

int main(void)
{
    struct town t;
    for (uint64_t i = 0; i < SIZE; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    town_start(&t, (uint64_t)PATIENCE_S * 1000000000);
    a_receive_ends_after_its_bytes(&t);
    nobody_waits_behind_what_has_no_room(&t);
    what_came_before_the_end_is_read(&t);
    who_has_said_that_it_ends_is_not_missed(&t);
    a_loss_is_told_by_others(&t);
    the_end_is_announced_until_it_is_heard(&t);
    who_is_held_for_dead_has_no_say();
    the_dead_is_named_and_not_who_calls();
    who_is_said_to_have_died_is_lost_at_once();
    return 0;
}
