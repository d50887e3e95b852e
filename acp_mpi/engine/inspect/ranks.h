#ifndef ACP_RANKS_H
#define ACP_RANKS_H

#include <stdint.h>

struct survey_member;

/* By a descriptor of the table: `room` of them at most, all in `*count`. */
int survey_members(int fd, struct survey_member *out, uint32_t room, uint32_t *count);

#endif
