/* Two processes that open a link to each other at a time have two. The one of the higher slot leaves its own when all
 * is acknowledged there: from then on both send on one, and the order of what either has sent remains. */
#include "cluster/mailing.h"
#include "core/state/peer.h"
#include "peers/peer.h"
#include "transport/link.h"

#define ROUNDS 200u
#define BURST 5u

static struct link *used_by(struct cluster *c, uint32_t rank)
{
    acp_engine *e = c->engines[rank];
    return peer_of_slot(e, 1 - rank)->tcp.links[FLOW_COLOR];
}

/* No call is taken while both locks are held. */
static void open_both(struct cluster *c)
{
    for (uint32_t i = 0; i < 2; i++)
        pthread_mutex_lock(&c->engines[i]->lock);
    for (uint32_t i = 0; i < 2; i++) {
        acp_engine *e = c->engines[i];
        CHECK(!used_by(c, i) && link_to(&e->lanes[LANE_LOCKED], peer_of_slot(e, 1 - i), FLOW_COLOR));
    }
    for (uint32_t i = 0; i < 2; i++)
        pthread_mutex_unlock(&c->engines[i]->lock);
}

/* Bursts both ways, which are received in the order in which they were sent: all have the same tag. */
static void talk(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    (void)e;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        acp_request *sends[BURST];
        uint32_t out[BURST], in;
        for (uint32_t i = 0; i < BURST; i++) {
            out[i] = round * BURST + i;
            sends[i] = isend(lane, 1 - rank, 1, &out[i], sizeof out[i]);
        }
        for (uint32_t i = 0; i < BURST; i++) {
            take_message(lane, 1 - rank, 1, &in, sizeof in);
            CHECK(in == round * BURST + i);
        }
        for (uint32_t i = 0; i < BURST; i++)
            send_end_of(lane, sends[i]);
    }
}

/* The link that rank 0 has opened, of which rank 1 knows when its first frame has come. */
static void check_shared(struct cluster *c, const struct link *own)
{
    struct link *first, *second;
    for (uint32_t i = 0; i < 2; i++)
        pthread_mutex_lock(&c->engines[i]->lock);
    first = used_by(c, 0);
    second = used_by(c, 1);
    CHECK(first->opener && !second->opener && first->session == second->session);
    CHECK(second->twin == own && own->state == LINK_OPEN && !own->out.held);
    for (uint32_t i = 0; i < 2; i++)
        pthread_mutex_unlock(&c->engines[i]->lock);
}

int main(void)
{
    struct cluster c;
    cluster_start(&c, 2, 2, ACP_PATH_LINK, CLUSTER_SHARED);
    open_both(&c);
    struct link *own = used_by(&c, 1);
    cluster_run(&c, talk);
    check_shared(&c, own);
    uint64_t before = own->out.next;
    cluster_run(&c, talk);
    check_shared(&c, own);
    CHECK(own->out.next == before);
    cluster_stop(&c);
    return 0;
}
