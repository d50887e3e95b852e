/* Solicitation. A receiver without room for another envelope still gets the messages for receives that its program
 * posts: it solicits them from the senders that it has stopped, wherever they stand in the queue.
 *
 * A message that is tried meets a receive or goes back to its place. None may overtake an earlier one of its sender.
 * So each is tried at once, in the order of the queue, for the receives that were posted when the receiver stopped the
 * flow (`full_at`); and after that only when it is solicited: the first one that fits, and the next one when the
 * outcome of that is known. Several threads may post at a time, and solicit in another order: so a message meets the
 * receive that solicited it, and none that has not solicited yet. */
#include "messages/flow_solicit.h"
#include "core/state/peer.h"
#include "messages/flow.h"
#include "messages/flow_send.h"
#include "peers/rank_table.h"

#include <stdlib.h>

struct ask {
    struct ask *next;
    uint64_t context, before; /* the receive is the last one before this place in the sequence */
    int64_t tag;
    bool idle; /* no queued message fits it */
};

static bool ask_fits(const struct ask *ask, const struct outgoing *p)
{
    return ask->context == p->envelope.context &&
           (ask->tag == ACP_ANY || ask->tag == p->envelope.tag);
}

void flow_solicit_match(struct flow *c, const struct outgoing *p)
{
    for (struct ask *ask = c->asks; ask; ask = ask->next)
        if (ask_fits(ask, p))
            ask->idle = false;
}

static void ask_drop(struct flow *c, struct ask *ask)
{
    struct ask **at = &c->asks;
    while (*at != ask)
        at = &(*at)->next;
    *at = ask->next;
    if (!*at)
        c->asks_end = at;
    free(ask);
}

void flow_solicit_drop(struct flow *c)
{
    while (c->asks)
        ask_drop(c, c->asks);
    c->tried = NULL;
}

void flow_solicit_done(struct flow *c, const struct outgoing *p)
{
    if (c->tried != p)
        return;
    ask_drop(c, c->answering);
    c->tried = NULL;
}

void flow_solicit_arrived(struct flow *c, const struct message *m)
{
    struct ask *ask = c->heard == WORD_FULL ? calloc(1, sizeof *ask) : NULL;
    if (!ask)
        return; /* the message goes with all others when there is room */
    *ask = (struct ask){.context = m->dst, .tag = (int64_t)m->src, .before = m->after};
    *c->asks_end = ask;
    c->asks_end = &ask->next;
}

/* The first queued message that fits; NULL: none. */
static struct outgoing *meant(struct flow *c, const struct ask *ask)
{
    struct outgoing *p = c->outgoing;
    while (p && !((p->state == OUTGOING_WAITING || p->state == OUTGOING_TRIED) && ask_fits(ask, p)))
        p = p->next;
    return p;
}

bool flow_solicit_answer(acp_lane *lane, struct flow *c, int *rc)
{
    for (struct ask *ask = c->tried ? NULL : c->asks; ask; ask = ask->next) {
        struct outgoing *p = ask->idle ? NULL : meant(c, ask);
        if (p && p->state == OUTGOING_TRIED)
            return false; /* a later one might overtake it */
        if (p) {
            c->tried = p;
            c->answering = ask;
            *rc = flow_send_try(lane, c, p, FLOW_ASKED, ask->before);
            return true;
        }
        ask->idle = true;
    }
    return false;
}

void flow_solicit_senders(acp_engine *e, const acp_envelope *want, uint64_t sequence)
{
    acp_lane *lane = &e->lanes[LANE_LOCKED];
    struct message m = {.flags = WORD_ASK, .dst = want->context, .src = (uint64_t)want->tag,
                        .after = sequence + 1};
    pthread_mutex_lock(&e->lock);
    for (struct flow *c = e->mail.flows; c; c = c->next)
        if (c->told == WORD_FULL && !c->peer->lost &&
            (want->source == ACP_ANY || want->source == rank_table_rank(e, c->peer->slot)))
            flow_answer(lane, c, &m, NULL, 0);
    pthread_mutex_unlock(&e->lock);
}
