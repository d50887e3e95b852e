#ifndef ACP_SIZE_CLASS_H
#define ACP_SIZE_CLASS_H

#include <stdbool.h>
#include <stdint.h>

struct heap;
struct hold;

uint64_t block_mark(const struct heap *h, uint64_t at);
bool block_plausible(const struct heap *h, uint64_t at); /* one may begin there */
bool block_whole(const struct heap *h, uint64_t at, bool is_free);
bool block_listed(const struct heap *h, uint64_t at);
void heap_class(uint64_t size, uint32_t *level, uint32_t *width);
bool same_class(uint64_t one, uint64_t other);
uint64_t list_find(const struct heap *h, uint64_t size);
void list_add(struct hold *hold, uint64_t at, uint64_t size); /* inside a change */
void list_remove(struct hold *hold, uint64_t at);
void list_replace(struct hold *hold, uint64_t at, uint64_t by);

#endif
