#ifndef ACP_HEAP_MESSAGES_H
#define ACP_HEAP_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

struct survey_tiles;

void heap_messages_all(struct survey_tiles *t);
/* Does a sent message lie in the block at `at`? */
bool heap_messages_held(struct survey_tiles *t, uint64_t at, uint64_t size);

#endif
