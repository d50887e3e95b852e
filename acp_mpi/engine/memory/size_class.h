#ifndef ACP_SIZE_CLASS_H
#define ACP_SIZE_CLASS_H

#include <stdbool.h>
#include <stdint.h>

struct heap;
struct hold;

uint64_t size_class_mark(const struct heap *h, uint64_t at);
bool size_class_plausible(const struct heap *h, uint64_t at); /* one may begin there */
bool size_class_whole(const struct heap *h, uint64_t at, bool is_free);
bool size_class_listed(const struct heap *h, uint64_t at);
void size_class_of(uint64_t size, uint32_t *level, uint32_t *width);
bool size_class_same(uint64_t one, uint64_t other);
uint64_t size_class_find(const struct heap *h, uint64_t size);
void size_class_add(struct hold *hold, uint64_t at, uint64_t size); /* inside a change */
void size_class_remove(struct hold *hold, uint64_t at);
void size_class_replace(struct hold *hold, uint64_t at, uint64_t by);

#endif
