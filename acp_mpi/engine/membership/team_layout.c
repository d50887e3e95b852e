/* Members of a team, and their layout over nodes. For the set of everybody no member is stored: it is all slots but
 * the few that are lost, or services. */
#include "membership/team_layout.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "membership/team.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "peers/rank_table.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
}

static uint64_t node_of(const acp_engine *e, uint32_t slot)
{
    uint64_t node = rank_table_node(e, slot);
    return node & NODE_APART ? slot : node;
}

static int compare_slots(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static bool among(const uint32_t *slots, uint32_t count, uint32_t slot)
{
    return count && bsearch(&slot, slots, count, sizeof *slots, compare_slots);
}

bool team_layout_has(const struct party *p, uint32_t slot)
{
    if (p->slots)
        return among(p->slots, p->count, slot);
    return slot >= p->all.low && slot < p->all.high && !among(p->absent, p->absences, slot);
}

/* Goes through the members, rising. */
struct cursor {
    const struct party *party;
    uint32_t at, skipped;
};

static bool next_member(struct cursor *c, uint32_t *slot)
{
    const struct party *p = c->party;
    if (p->slots) {
        if (c->at < p->count)
            *slot = p->slots[c->at];
        return c->at++ < p->count;
    }
    for (; c->skipped < p->absences && p->absent[c->skipped] == c->at; c->at++)
        c->skipped++;
    *slot = c->at;
    return c->at++ < p->all.high;
}

static struct cursor cursor_begin(const struct party *p)
{
    return (struct cursor){.party = p, .at = p->slots ? 0 : p->all.low};
}

static bool loss_accepted(acp_engine *e, const struct party *p, uint32_t slot)
{
    const struct peer *peer = p->losses ? peer_known(e, slot) : NULL;
    return peer && peer->loss_accepted;
}

static bool take_listed(acp_engine *e, struct party *p, const uint32_t *ranks, uint32_t count)
{
    p->slots = malloc(count * sizeof *p->slots + 1);
    p->ranks = malloc(count * sizeof *p->ranks + 1);
    if (!p->slots || !p->ranks)
        return false;
    memcpy(p->ranks, ranks, count * sizeof *ranks);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = rank_slot_of(e, ranks[i]);
        if (!loss_accepted(e, p, slot))
            p->slots[p->count++] = slot;
    }
    qsort(p->slots, p->count, sizeof *p->slots, compare_slots);
    return true;
}

static bool take_everyone(acp_engine *e, struct party *p)
{
    uint32_t services = e->config.service ? 0 : rank_table_services(e), most = p->losses + services;
    p->absent = malloc(most * sizeof *p->absent + 1); /* rising */
    if (!p->absent)
        return false;
    for (uint32_t slot = p->all.low; most && slot < p->all.high; slot++)
        if (((services && rank_table_service(e, slot)) || loss_accepted(e, p, slot)) && p->absences < most)
            p->absent[p->absences++] = slot;
    p->count = p->all.high - p->all.low - p->absences;
    return true;
}

/* A list of everybody is the same team as everybody without a list. */
static bool lists_everyone(acp_engine *e, const struct party *p)
{
    struct party all = {.all = p->all, .losses = p->losses};
    if (!p->count || p->slots[0] < p->all.low || p->slots[p->count - 1] >= p->all.high ||
        !take_everyone(e, &all))
        return false;
    bool same = p->count == all.count;
    for (uint32_t i = 0; i < all.absences; i++)
        same &= !team_layout_has(p, all.absent[i]); /* a service that is named */
    free(all.absent);
    return same;
}

struct place_of {
    uint64_t node;
    uint32_t slot;
};

static int compare_places(const void *a, const void *b)
{
    const struct place_of *x = a, *y = b;
    return x->node != y->node ? (x->node < y->node ? -1 : 1) : compare_slots(&x->slot, &y->slot);
}

/* The lowest member of each node, looked for among all members. */
static uint32_t *lowest_of_members(acp_engine *e, const struct party *p, uint32_t *count)
{
    struct place_of *places = malloc(p->count * sizeof *places + 1);
    uint32_t *lowest = malloc(p->count * sizeof *lowest + 1), n = 0;
    struct cursor c = cursor_begin(p);
    *count = 0;
    for (uint32_t slot = 0; places && next_member(&c, &slot);)
        places[n++] = (struct place_of){node_of(e, slot), slot};
    if (n)
        qsort(places, n, sizeof *places, compare_places);
    for (uint32_t i = 0; lowest && i < n; i++)
        if (i == 0 || places[i].node != places[i - 1].node)
            lowest[(*count)++] = places[i].slot;
    free(places);
    return lowest;
}

/* The lowest member of each node of the job, as the table has it but for the absent. */
static uint32_t *lowest_of_everyone(acp_engine *e, const struct party *p, uint32_t *count)
{
    uint32_t known, *lowest;
    const uint32_t *firsts = rank_table_firsts(e, &known);
    lowest = malloc(known * sizeof *lowest + 1);
    *count = 0;
    for (uint32_t i = 0; lowest && i < known; i++) {
        uint32_t slot = firsts[i];
        bool found = team_layout_has(p, slot);
        while (!found && ++slot < p->all.high)
            found = rank_table_node(e, slot) == rank_table_node(e, firsts[i]) && team_layout_has(p, slot);
        if (slot < p->all.high)
            lowest[(*count)++] = slot;
    }
    return lowest;
}

static bool spread(acp_engine *e, struct party *p)
{
    bool by_table = !p->slots && p->all.low == 0 && rank_table_together(e);
    struct cursor c = cursor_begin(p);
    uint32_t mates, slot, *lowest = by_table ? lowest_of_everyone(e, p, &p->nodes)
                                             : lowest_of_members(e, p, &p->nodes);
    if (!lowest)
        return false;
    if (p->nodes)
        qsort(lowest, p->nodes, sizeof *lowest, compare_slots);
    p->leader = UINT32_MAX;
    p->key = mix(0x61637000, p->purpose);
    while (next_member(&c, &slot)) {
        p->key = mix(p->key, slot + 1);
        if (!by_table && node_of(e, slot) == node_of(e, e->self)) {
            p->leader = slot < p->leader ? slot : p->leader;
            p->here++;
        }
    }
    p->key |= 1; /* 0 is a free entry */
    const uint32_t *slots = rank_table_mates(e, &mates);
    for (uint32_t i = 0; by_table && i < mates; i++) {
        if (team_layout_has(p, slots[i])) {
            p->leader = slots[i] < p->leader ? slots[i] : p->leader;
            p->here++;
        }
    }
    uint32_t own = 0;
    while (own < p->nodes && lowest[own] != p->leader)
        own++;
    for (uint32_t round = 0; p->nodes && 1u << round < p->nodes; round++) {
        p->partners[round] = lowest[(own + (1u << round)) % p->nodes];
        p->sources[round] = lowest[(own + p->nodes - (1u << round)) % p->nodes];
    }
    free(lowest);
    return true;
}

struct party *team_layout_new(acp_engine *e, const uint32_t *ranks, uint32_t count, uint32_t purpose)
{
    struct party *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->purpose = purpose;
    p->asked = count;
    p->losses = e->job.absent;
    p->all = newcomers_members(e, purpose);
    if (!(ranks ? take_listed(e, p, ranks, count) : take_everyone(e, p)) || !spread(e, p)) {
        team_layout_free(p);
        return NULL;
    }
    p->whole = !ranks || lists_everyone(e, p);
    return p;
}

void team_layout_free(struct party *p)
{
    free(p->ranks);
    free(p->slots);
    free(p->absent);
    free(p);
}
