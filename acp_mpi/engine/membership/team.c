/* Teams: sets of ranks that have a barrier. The reason why a member will not come, and the rounds: the lowest member
 * of each node signals those of the others in ceil(log2 n) rounds. */
#include "membership/team.h"
#include "base/linux.h"
#include "core/state/peer.h"
#include "membership/barrier.h"
#include "membership/team_layout.h"
#include "operations/route.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "progress/progress.h"
#include "progress/wait.h"
#include "transport/link.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_NS ((int64_t)20000000) /* then it registers for losses */

#define ROUND_DAMAGED UINT32_MAX

/* Signals of a round; in ROUND_DAMAGED, for good, slot + 1 of the rank in whose memory that barrier is damaged. */
struct signal_count {
    uint64_t key;
    uint32_t round, count;
};

/* A member that ends in order with the others has passed the barrier of finalize: members still in it may pass. Its
 * last message may come after the notice of its end, or not at all. */
bool team_passed(const struct party *p, const struct peer *member)
{
    return p->purpose >= PURPOSE_FINALIZE && !member->alone && (member->ending || peer_left(member));
}

/* A member in finalize has told how many barriers of the whole job it has passed under the last key: one more than
 * this process, if the barrier under way was among them. */
static bool leaves_without(const acp_engine *e, const struct party *p, const struct peer *member)
{
    if (!member->leaving)
        return false;
    if (member->met_key != p->key)
        return peer_leaves(member);
    return member->meetings <= (e->sync.met_key == p->key ? e->sync.meetings : 0);
}

/* The reason, if a member will not come; else ACP_OK. */
int team_check(acp_engine *e, const struct party *p)
{
    bool all_well = e->job.departed == e->job.departed_accepted && !e->job.leavers;
    /* Lost and leaving peers have a peer structure, so that this loop finds them. */
    for (struct peer *peer = NULL; !all_well && (peer = peer_next(e, peer));) {
        bool is_lost = (peer->lost || peer->left) && !peer->loss_accepted;
        bool leaves = leaves_without(e, p, peer) && !peer->left && p->purpose < PURPOSE_FINALIZE;
        if ((is_lost || leaves) && team_layout_has(p, peer->slot) && !team_passed(p, peer)) {
            e->sync.trouble_rank = rank_table_rank(e, peer->slot);
            return is_lost ? ACP_E_LOST : ACP_E_FINALIZING;
        }
    }
    return ACP_OK;
}

/* Requests notices of losses: a process in touch with other nodes learns of losses there, and passes them on to the
 * peers that request them. */
static void ask_for_news(acp_engine *e, struct peer *leader)
{
    struct message m = {.kind = ACP_NEWS, .from = e->self};
    if (!leader || leader == e->job.own || atomic_exchange(&leader->asked, true))
        return;
    pthread_mutex_lock(&e->lock);
    route_road(e, leader)->send(&e->lanes[LANE_LOCKED], leader, 0, &m);
    pthread_mutex_unlock(&e->lock);
}

/* After a while without a result: registers for losses, and announces to all that this rank leaves. False: to be
 * called again soon, so that it can announce that all it has sent has arrived. */
bool team_watch(acp_engine *e, const struct party *p)
{
    if (p->nodes > 1)
        ask_for_news(e, peer_of_slot(e, p->leader));
    uint32_t count;
    const uint32_t *mates = rank_table_mates(e, &count);
    for (uint32_t i = 0; i < count; i++) {
        struct peer *mate = team_layout_has(p, mates[i]) ? peer_of_slot(e, mates[i]) : NULL;
        if (!mate)
            continue;
        peer_watch(e, mate);
        if (p->purpose >= PURPOSE_FINALIZE) /* it can be told, wherever it waits */
            peer_attach(e, mate);
    }
    return p->purpose < PURPOSE_FINALIZE || acp_engine_leaving(e);
}

static bool party_fits(const acp_engine *e, const struct party *p, const uint32_t *ranks,
                       uint32_t count, uint32_t purpose)
{
    struct span all = newcomers_members(e, purpose);
    return p && p->purpose == purpose && p->asked == count && p->losses == e->job.absent &&
           p->all.low == all.low && p->all.high == all.high &&
           (!ranks || !memcmp(p->ranks, ranks, count * sizeof *ranks));
}

static void party_forget(struct party **kept)
{
    if (*kept && --(*kept)->users == 0)
        team_layout_free(*kept);
    *kept = NULL;
}

/* The team, all living members if `ranks` is NULL. The last ones are kept: programs use the same sets again and
 * again. */
struct party *team_acquire(acp_engine *e, const uint32_t *ranks, uint32_t count, uint32_t purpose)
{
    struct party **kept = ranks ? &e->sync.last_party : &e->sync.everyone, *p;
    pthread_mutex_lock(&e->space);
    if (!party_fits(e, *kept, ranks, count, purpose)) {
        party_forget(kept);
        p = team_layout_new(e, ranks, count, purpose);
        if (p) {
            p->users = 1; /* being kept */
            *kept = p;
        }
    }
    p = *kept;
    if (p)
        p->users++;
    pthread_mutex_unlock(&e->space);
    return p;
}

void team_release(acp_engine *e, struct party *p)
{
    pthread_mutex_lock(&e->space);
    if (--p->users == 0)
        team_layout_free(p);
    pthread_mutex_unlock(&e->space);
}

bool team_signals_provide(acp_engine *e)
{
    if (likely(e->sync.signal_used < e->sync.signal_room))
        return true;
    uint32_t room = e->sync.signal_room ? e->sync.signal_room * 2 : 8;
    struct signal_count *grown = realloc(e->sync.signals, room * sizeof *grown);
    if (!grown)
        return false;
    e->sync.signals = grown;
    e->sync.signal_room = room;
    return true;
}

void team_signal_arrived(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                         const unsigned char *payload, uint64_t size)
{
    (void)from;
    (void)link;
    (void)payload;
    (void)size;
    acp_engine *e = lane->engine;
    uint32_t free_at = e->sync.signal_used;
    for (uint32_t i = 0; i < e->sync.signal_used; i++) {
        struct signal_count *s = &e->sync.signals[i];
        if (s->count && s->key == m->a && s->round == (uint32_t)m->b) {
            s->count += s->round != ROUND_DAMAGED;
            progress_event(e);
            return;
        }
        if (!s->count)
            free_at = i;
    }
    if (free_at == e->sync.signal_used && !team_signals_provide(e))
        return; /* its memory was provided before the message was taken */
    if (free_at == e->sync.signal_used)
        e->sync.signal_used++;
    uint32_t count = (uint32_t)m->b == ROUND_DAMAGED ? (uint32_t)m->dst : 1;
    e->sync.signals[free_at] = (struct signal_count){m->a, (uint32_t)m->b, count};
    progress_event(e);
}

struct signal_wait {
    acp_engine *engine;
    struct party *party;
    uint32_t round, culprit;
    bool got;
    int trouble;
};

static bool signal_here(void *context)
{
    struct signal_wait *w = context;
    acp_engine *e = w->engine;
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < e->sync.signal_used && !w->got; i++) {
        struct signal_count *s = &e->sync.signals[i];
        if (!s->count || s->key != w->party->key)
            continue;
        if (s->round == ROUND_DAMAGED) {
            w->culprit = s->count;
        } else if (s->round == w->round) {
            s->count--;
            w->got = true;
        }
    }
    pthread_mutex_unlock(&e->lock);
    if (w->culprit && !w->got) {
        w->trouble = ACP_E_DAMAGED;
        return true;
    }
    struct peer *source = peer_known(e, w->party->sources[w->round]);
    w->got |= source && team_passed(w->party, source);
    return w->got || (w->trouble = team_check(e, w->party)) != ACP_OK;
}

/* Watches a rank's link: if it has never sent to this process it may die unnoticed. */
static void hear_of_death(acp_engine *e, uint32_t slot)
{
    struct peer *p = peer_of_slot(e, slot);
    if (p)
        link_watch(e, p, 0);
}

/* The signal rounds of the node's lowest member with those of the other nodes; a later call goes on where an earlier
 * one has stopped. */
int team_sync_nodes(acp_engine *e, struct party *p, struct meeting *m, int64_t timeout_ns)
{
    uint64_t start = linux_now_ns();
    acp_doing doing = p->purpose >= PURPOSE_FINALIZE ? ACP_DOING_FINALIZE : ACP_DOING_SYNC;
    for (; 1u << m->round < p->nodes; m->round++) {
        struct peer *to = peer_of_slot(e, p->partners[m->round]);
        struct message signal = {.kind = ACP_SIGNAL, .from = e->self, .a = p->key,
                                 .b = m->round};
        int rc = ACP_OK;
        if (!m->signalled) {
            pthread_mutex_lock(&e->lock);
            rc = route_road(e, to)->send(&e->lanes[LANE_LOCKED], to, 0, &signal);
            pthread_mutex_unlock(&e->lock);
            if (rc != ACP_OK && rc != ACP_E_LOST)
                return rc;
            m->signalled = true;
        }
        struct signal_wait w = {e, p, m->round, 0, false, ACP_OK};
        for (int64_t slice = FIRST_NS, left = timeout_ns;;) {
            if (timeout_ns != ACP_FOREVER)
                left = timeout_ns - (int64_t)(linux_now_ns() - start);
            rc = wait_ready(e, signal_here, &w, left < slice ? left : slice, doing);
            if (rc != ACP_E_TIMEOUT || left <= slice)
                break;
            hear_of_death(e, p->sources[m->round]);
            slice = team_watch(e, p) ? ACP_FOREVER : slice;
        }
        m->culprit = w.got ? 0 : w.culprit;
        if (rc == ACP_OK && !w.got)
            rc = w.trouble;
        if (rc != ACP_OK)
            return rc;
        m->signalled = false;
    }
    return ACP_OK;
}

/* The lowest member of a node tells its partners, as often as it fails; they tell theirs. */
void team_tell_damage(acp_engine *e, const struct party *p, uint32_t culprit)
{
    struct message m = {.kind = ACP_SIGNAL, .from = e->self, .a = p->key, .b = ROUND_DAMAGED, .dst = culprit + 1};
    for (uint32_t round = 0; 1u << round < p->nodes; round++) {
        struct peer *to = peer_of_slot(e, p->partners[round]);
        pthread_mutex_lock(&e->lock);
        if (to)
            route_road(e, to)->send(&e->lanes[LANE_LOCKED], to, 0, &m);
        pthread_mutex_unlock(&e->lock);
    }
}

/* Ranks mean other processes after a reset. */
void team_reset(acp_engine *e)
{
    pthread_mutex_lock(&e->space);
    party_forget(&e->sync.last_party);
    party_forget(&e->sync.everyone);
    pthread_mutex_unlock(&e->space);
}

void team_close(acp_engine *e)
{
    team_reset(e);
    barriers_drop_unfinished(e);
    free(e->sync.signals);
    e->sync.signals = NULL;
}
