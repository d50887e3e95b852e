/* A long message that its sender and a receiver who waits copy together, step by step: who copies
 * what, and what becomes of it if one of them cannot, or stops. */
#include "cluster/mailing.h"
#include "core/lane.h"
#include "core/state/peer.h"
#include "messages/deliver.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "messages/message_send_queue.h"
#include "messages/recv.h"
#include "messages/request.h"
#include "messages/shared_copy.h"
#include "peers/peer.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define SIZE (((uint64_t)1 << 20) + 77)

static unsigned char from[SIZE], to[SIZE];

static int refusal; /* of the system: errno */

ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long here_count, const struct iovec *there,
                         unsigned long there_count, unsigned long flags)
{
    if (!refusal)
        return syscall(SYS_process_vm_readv, pid, here, here_count, there, there_count, flags);
    errno = refusal;
    return -1;
}

/* Rank 1 has brought the envelope of a message of SIZE bytes to a receive of `room` bytes at rank 0. */
static struct landing bring(acp_lane *lane, uint64_t room, acp_request **r, acp_lane *owner)
{
    acp_envelope envelope = {.source = 1, .tag = 1, .size = SIZE, .note = 7 + SIZE};
    struct landing l;
    paint(from, SIZE, 5);
    memset(to, 0xee, SIZE);
    *r = room ? ireceive(owner, 1, 1, to, room) : NULL;
    CHECK(AGAIN(match_arrive(lane, peer_of_slot(lane->engine, 0), &envelope, NULL, false, 1, &l)) ==
          ACP_OK);
    CHECK(l.open && l.matched == (room > 0));
    l.whole = from;
    return l;
}

static void received(acp_lane *lane, acp_request *r, uint64_t room)
{
    acp_envelope got;
    CHECK(acp_request_wait(lane->engine, r, ACP_FOREVER) == ACP_OK);
    CHECK(acp_request_end(lane, r, &got) == (room < SIZE ? ACP_E_TRUNCATED : ACP_OK));
    CHECK(got.size == SIZE && painted(to, room < SIZE ? room : SIZE, 5));
    CHECK(room >= SIZE || to[room] == 0xee);
}

static int fill(acp_lane *lane, struct landing *l)
{
    uint64_t at = 0;
    int rc = shared_copy_fill(lane, l, &at);
    CHECK((rc == ACP_OK) == (at == l->size));
    if (rc == ACP_OK)
        deliver_complete(lane, l);
    return rc;
}

/* `helps` parts by the receiver first, or all of them. */
static void both_copy(struct cluster *c, uint32_t helps, uint64_t room)
{
    acp_lane *mine = acp_engine_lane(c->engines[0]), *its = acp_engine_lane(c->engines[1]);
    acp_request *r;
    struct landing l = bring(its, room, &r, mine);
    uint64_t helped = 0;
    CHECK(deliver_open(its, &l) == ACP_OK && l.shares && l.entry->place == PLACE_SHARED);
    while (helped < helps && recv_follow(r))
        helped++;
    uint64_t claimed = mailbox_unsealed(l.entry->share.claimed);
    CHECK(helped ? claimed > 0 : claimed == 0);
    CHECK((claimed == l.size) == (helps == UINT32_MAX));
    CHECK(painted(to, claimed, 5) && (claimed == SIZE || to[claimed] == 0xee));
    CHECK(!acp_request_done(r));
    CHECK(fill(its, &l) == ACP_OK && l.entry->block == 0);
    received(mine, r, room);
}

/* The receive comes when some of it is in a block. */
static void asked_for_meanwhile(struct cluster *c, uint64_t room, bool follows)
{
    acp_lane *mine = acp_engine_lane(c->engines[0]), *its = acp_engine_lane(c->engines[1]);
    acp_request *r;
    struct landing l = bring(its, 0, &r, mine);
    const uint64_t there = 100000;
    CHECK(deliver_open(its, &l) == ACP_OK && !l.shares && l.entry->place == PLACE_BLOCK);
    CHECK(deliver_fill(its, &l, 0, from, there) == ACP_OK && !deliver_wanted(&l));
    CHECK(deliver_taken(its, &l) == ACP_E_BUSY);
    r = ireceive(mine, ACP_ANY, 1, to, room);
    CHECK(deliver_wanted(&l) && AGAIN(deliver_taken(its, &l)) == ACP_OK && shared_copy_usable(its->engine, &l));
    shared_copy_open(its, &l, there);
    CHECK(!follows || (recv_follow(r) && painted(to, there + 32768, 5)));
    CHECK(fill(its, &l) == ACP_OK);
    received(mine, r, room);
}

/* Its address is not one of the sender: the sender copies all of it. */
static void a_helper_that_cannot(struct cluster *c)
{
    acp_lane *mine = acp_engine_lane(c->engines[0]), *its = acp_engine_lane(c->engines[1]);
    acp_request *r;
    struct landing l = bring(its, SIZE, &r, mine);
    CHECK(deliver_open(its, &l) == ACP_OK && l.shares);
    l.entry->share.from = mailbox_sealed((uint64_t)1 << 48 | 64);
    CHECK(!recv_follow(r) && l.entry->share.undone == mailbox_sealed(1) && l.entry->share.helpers == mailbox_sealed(0));
    CHECK(fill(its, &l) == ACP_OK);
    received(mine, r, SIZE);
}

/* A system that does not allow it is not asked again; what else goes wrong says nothing of the next message. */
static void a_helper_that_may_not(struct cluster *c)
{
    static const int errors[] = {EPERM, ENOSYS, EACCES, EFAULT, ESRCH};
    acp_lane *mine = acp_engine_lane(c->engines[0]), *its = acp_engine_lane(c->engines[1]);
    struct peer *from_whom = peer_of_slot(c->engines[0], 1);
    for (uint32_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        acp_request *r;
        struct landing l = bring(its, SIZE, &r, mine);
        CHECK(deliver_open(its, &l) == ACP_OK && l.shares);
        refusal = errors[i];
        CHECK(!recv_follow(r) && l.entry->share.undone == mailbox_sealed(1) && from_whom->shm.vm_refused == (i < 3));
        refusal = 0;
        from_whom->shm.vm_refused = 0;
        CHECK(fill(its, &l) == ACP_OK);
        received(mine, r, SIZE);
    }
}

/* The system refuses it after all: the bytes go through a block, or what had gone there stays. */
static void refused(struct cluster *c, bool begun)
{
    acp_lane *mine = acp_engine_lane(c->engines[0]), *its = acp_engine_lane(c->engines[1]);
    acp_request *r;
    struct landing l = bring(its, begun ? 0 : SIZE, &r, mine);
    uint64_t at = 0;
    CHECK(deliver_open(its, &l) == ACP_OK);
    if (begun) {
        CHECK(deliver_fill(its, &l, 0, from, 65536) == ACP_OK);
        r = ireceive(mine, 1, 1, to, SIZE);
        CHECK(AGAIN(deliver_taken(its, &l)) == ACP_OK);
        shared_copy_open(its, &l, 65536);
    }
    CHECK(recv_follow(r));
    l.entry->share.undone = mailbox_sealed(1);
    l.to->shm.vm_refused = 1;
    CHECK(shared_copy_fill(its, &l, &at) == ACP_E_BUSY && !l.shares && at == (begun ? 65536 : 0));
    CHECK(l.entry->place == PLACE_BLOCK && l.entry->block);
    CHECK(deliver_fill(its, &l, at, from + at, SIZE - at) == ACP_OK);
    deliver_complete(its, &l);
    l.to->shm.vm_refused = 0;
    received(mine, r, SIZE);
}

/* Its process is stopped while it copies: the send goes on in the background, and is over when the
 * part is. */
static void a_helper_that_stops(struct cluster *c)
{
    acp_lane *mine = acp_engine_lane(c->engines[0]), *its = acp_engine_lane(c->engines[1]);
    acp_request *r;
    struct landing l = bring(its, SIZE, &r, mine);
    uint64_t at = 0;
    CHECK(deliver_open(its, &l) == ACP_OK && l.shares);
    __atomic_fetch_add(&l.entry->share.helpers, MAIL_ONE, __ATOMIC_RELAXED);
    CHECK(shared_copy_fill(its, &l, &at) == ACP_E_BUSY && at < SIZE && !acp_request_done(r));
    acp_request draft = {.engine = its->engine, .kind = REQUEST_SEND, .peer = l.to, .data = from,
                         .era = its->engine->mail.era, .landing = l, .step = STEP_FILL, .at = at};
    acp_request *send;
    CHECK(message_send_queue_add(its, &draft, &send) == ACP_OK);
    CHECK(acp_request_wait(its->engine, send, 20000000) == ACP_E_TIMEOUT);
    CHECK(!acp_request_done(r) && AGAIN(acp_request_cancel(its, send)) == ACP_E_HANDLE);
    __atomic_fetch_sub(&l.entry->share.helpers, MAIL_ONE, __ATOMIC_RELEASE);
    send_end_of(its, send);
    received(mine, r, SIZE);
}

/* A wild pointer has written over the number of helpers: the send fails, and its receiver hears why. */
static void a_number_of_helpers_that_is_none(struct cluster *c)
{
    static const uint64_t rubbish[] = {0, 1, UINT64_MAX, 0x2020202020202020, MAIL_ZERO - MAIL_ONE,
                                       MAIL_ZERO + 1, MAIL_ZERO ^ (uint64_t)1 << 63};
    acp_lane *mine = acp_engine_lane(c->engines[0]), *its = acp_engine_lane(c->engines[1]);
    for (uint32_t i = 0; i < sizeof rubbish / sizeof *rubbish; i++) {
        acp_request *r;
        struct landing l = bring(its, SIZE, &r, mine);
        uint64_t at = 0;
        CHECK(deliver_open(its, &l) == ACP_OK && l.shares);
        l.entry->share.helpers = rubbish[i];
        CHECK(shared_copy_fill(its, &l, &at) == ACP_E_DAMAGED && its->fault.rank == 0);
        deliver_failed(its, &l, ACP_E_DAMAGED);
        CHECK(acp_request_wait(mine->engine, r, ACP_FOREVER) == ACP_OK);
        CHECK(acp_request_end(mine, r, NULL) == ACP_E_DAMAGED && mine->fault.rank == 0);
    }
}

/* A wild pointer has written over what is claimed, or over the place of the bytes: they arrive. Over how many have come by
 * a block: their receiver hears of that. */
static void words_of_the_copy(struct cluster *c, bool block)
{
    const uint64_t place_of_another = mailbox_sealed((uintptr_t)to | (uint64_t)2 << 48);
    const uint64_t rubbish[] = {0, 1, SIZE, UINT64_MAX, 0x2020202020202020, MAIL_ZERO ^ 1, MAIL_ZERO - MAIL_ONE,
                                place_of_another};
    acp_lane *mine = acp_engine_lane(c->engines[0]), *its = acp_engine_lane(c->engines[1]);
    for (uint32_t i = 0; i < 7 * sizeof rubbish / sizeof *rubbish; i++) {
        acp_request *r;
        struct landing l = bring(its, block ? 0 : SIZE, &r, mine);
        struct mail_share *s = &l.entry->share;
        uint64_t *const words[] = {&s->claimed, &s->from, &s->undone, &l.entry->filled, &l.entry->filler,
                                   &s->claimed, &s->from};
        CHECK(deliver_open(its, &l) == ACP_OK);
        if (block) {
            CHECK(deliver_fill(its, &l, 0, from, 65536) == ACP_OK);
            r = ireceive(mine, 1, 1, to, SIZE);
            CHECK(AGAIN(deliver_taken(its, &l)) == ACP_OK);
            shared_copy_open(its, &l, 65536);
        }
        CHECK(i % 7 < 5 || recv_follow(r)); /* with a part that the receiver has copied */
        *words[i % 7] = rubbish[i / 7];
        recv_follow(r);
        CHECK(l.entry->share.helpers == mailbox_sealed(0) && fill(its, &l) == ACP_OK);
        if (words[i % 7] != &l.entry->filled) {
            received(mine, r, SIZE);
            continue;
        }
        CHECK(acp_request_wait(mine->engine, r, ACP_FOREVER) == ACP_OK);
        CHECK(acp_request_end(mine, r, NULL) == ACP_E_DAMAGED && mine->fault.rank == 0);
    }
}

/* All at once, at all sizes and rooms, with the parts dealt out as it happens. */
static void a_storm(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static const uint64_t sizes[] = {MAIL_SHARED - 1, MAIL_SHARED, MAIL_SHARED + 1, 131072, 300001,
                                     SIZE};
    unsigned char *out = malloc(SIZE), *in = malloc(SIZE);
    (void)c;
    (void)e;
    for (uint32_t i = 0; i < 120; i++) {
        uint64_t size = sizes[i % 6], room = i % 7 ? SIZE : size - 5;
        acp_envelope envelope = {.tag = i, .size = size};
        acp_envelope want = {.source = !rank, .tag = i, .size = room};
        acp_request *r, *s;
        paint(out, size, i + rank);
        if (i % 3)
            CHECK(AGAIN(acp_receive(lane, &want, in, &r)) == ACP_OK);
        CHECK(AGAIN(acp_send(lane, !rank, &envelope, out, &s)) == ACP_OK);
        if (i % 3 == 0)
            CHECK(AGAIN(acp_receive(lane, &want, in, &r)) == ACP_OK);
        send_end_of(lane, s);
        memset(out, 0xcc, size);
        CHECK(acp_request_wait(lane->engine, r, ACP_FOREVER) == ACP_OK);
        CHECK(acp_request_end(lane, r, NULL) == (room < size ? ACP_E_TRUNCATED : ACP_OK));
        CHECK(painted(in, size < room ? size : room, i + !rank));
    }
    free(out);
    free(in);
}

int main(void)
{
    struct cluster c;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    mailbox_heap(c.engines[1], peer_of_slot(c.engines[1], 0));
    cluster_run(&c, a_storm); /* and the peers are attached */
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t room = i ? SIZE : SIZE / 2 + 3;
        both_copy(&c, 0, room);
        both_copy(&c, 1, room);
        both_copy(&c, UINT32_MAX, room);
        asked_for_meanwhile(&c, room, i);
        refused(&c, i);
    }
    a_helper_that_cannot(&c);
    a_helper_that_may_not(&c);
    a_helper_that_stops(&c);
    a_number_of_helpers_that_is_none(&c);
    words_of_the_copy(&c, false);
    words_of_the_copy(&c, true);
    acp_heap_statistics s;
    struct acp_call call;
    acp_handle_t pending;
    CHECK(AGAIN(acp_heap_look(acp_engine_lane(c.engines[0]), 0, &s, &call, &pending)) == ACP_OK);
    CHECK(s.used < (uint64_t)256 << 10); /* entries, but no block */
    cluster_stop(&c);
    return 0;
}
