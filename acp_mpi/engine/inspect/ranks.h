#ifndef ACP_RANKS_H
#define ACP_RANKS_H

#include <stdint.h>

struct survey_member;

/* By a descriptor of the table: at most `room` of them; `*count`: all. */
int ranks_members(int fd, struct survey_member *out, uint32_t room, uint32_t *count);

#endif
