/* One element of a few bytes at an end of a list, which is what lists are asked for most: its node comes
 * from the blocks that are kept and goes back there, in a change whose words go to the journal all at
 * once. Whatever is not as simple as that takes the other way, which does the same. */
#include "list.h"

#define FEW ((uint64_t)64) /* bytes */

bool list_end_put(struct hold *hold, struct list *l, bool front, const void *data, uint64_t size,
                  struct list_id *id)
{
    uint64_t at = l->spare, beside = front ? l->first : l->last;
    if (!at || size > FEW || l->spare_size != block_for(sizeof(struct list_node) + size))
        return false;
    struct list_node *n = list_node(hold->heap, at);
    struct list_node *other = beside ? list_node(hold->heap, beside) : NULL;
    if (unlikely(!n || (beside && !other)))
        return false;
    uint64_t *inner = other ? (front ? &other->previous : &other->next)
                            : (front ? &l->last : &l->first);
    section_begin(hold);
    const struct setting settings[] = {
        {&l->spare, heap_kept(hold->heap, at)->next}, {&n->next, front ? beside : 0},
        {&n->previous, front ? 0 : beside},           {inner, at},
        {front ? &l->first : &l->last, at},           {&l->size, l->size + 1},
        {&l->changes, l->changes + 1}};
    section_set_all(hold, settings, sizeof settings / sizeof *settings);
    *id = (struct list_id){at, list_name(hold, l)};
    store(&n->number, id->number);
    store(&n->era, l->era);
    store(&n->size, size);
    store(&n->payload, 0);
    store(&n->block, 0);
    words_in(n + 1, data, size);
    section_commit(hold);
    return true;
}

bool list_end_take(struct hold *hold, struct list *l, struct acp_call *c, bool front)
{
    struct heap *h = hold->heap;
    uint64_t at = front ? l->first : l->last;
    struct list_node *n = list_node(h, at);
    if (unlikely(!n || (uintptr_t)c->out % 8) || n->payload || n->block || n->size > FEW)
        return false;
    uint64_t beside = front ? n->next : n->previous, length = 8 * words_of(n->size);
    struct list_node *other = beside ? list_node(h, beside) : NULL;
    uint64_t block = load(&block_at(h, at - BLOCK_HEAD)->size) & ~BLOCK_FLAGS;
    const struct list_record r = {{at, n->number}, n->size, 0, 0};
    if ((beside && !other) || !container_inside(h, at + sizeof *n, length) || !l->spare_size ||
        block - l->spare_size > BLOCK_HEAD ||
        c->out_room < sizeof(struct list_answer) + sizeof r + length)
        return false;
    uint64_t *out = c->out;
    uint64_t *inner = other ? (front ? &other->previous : &other->next)
                            : (front ? &l->last : &l->first);
    struct heap_kept *kept = heap_kept(h, at);
    uint64_t spares = list_spares(hold, l) + 1;
    section_begin(hold);
    const struct setting settings[] = {
        {inner, 0},        {front ? &l->first : &l->last, beside}, {&l->size, l->size - 1},
        {&l->spare, at},   {&l->changes, l->changes + 1},          {&kept->count, spares},
        {&n->number, 0},   {&kept->next, l->spare}};
    section_set_all(hold, settings, sizeof settings / sizeof *settings);
    words_out((unsigned char *)out + sizeof(struct list_answer) + sizeof r, n + 1, length);
    section_commit(hold);
    const uint64_t words[] = {1, l->changes, l->orders, l->size, 0, 0, beside,
                              other ? other->number : 0, at, r.id.number, r.size, 0, 0};
    static_assert(sizeof words == sizeof(struct list_answer) + sizeof(struct list_record), "both");
#pragma GCC unroll 13
    for (uint32_t i = 0; i < sizeof words / 8; i++) /* word by word: a processor forwards those */
        __atomic_store_n(out + i, words[i], __ATOMIC_RELAXED);
    c->out_size = sizeof words + length;
    if (spares > l->size / 8 + HEAP_ROW && list_settled(hold))
        list_spare_trim(hold, l);
    return true;
}
