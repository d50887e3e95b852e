#ifndef ACP_HEAP_MESSAGES_H
#define ACP_HEAP_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

struct survey_tiles;

void survey_messages(struct survey_tiles *t);
/* Does a sent message lie in the block at `at`? */
bool survey_held(struct survey_tiles *t, uint64_t at, uint64_t size);

#endif
