/* A workspace's part on one rank: bytes in one block. The creator deals the bytes of all parts out in pieces of one
 * size; a head without bytes carries the list of the parts. */
#ifndef ACP_WORKSPACE_H
#define ACP_WORKSPACE_H

#include "containers/container.h"

struct workspace {
    struct container head;
    uint64_t data; /* the block; 0: no bytes */
    uint64_t size;
};

extern const struct container_type workspace_type; /* words: the bytes */

/* `b`: the first byte. */
int workspace_method_add(acp_lane *lane, struct acp_call *call); /* | the letter of its numbers */
int workspace_method_look(acp_lane *lane, struct acp_call *call); /* bytes, and where they are */
int workspace_method_read(acp_lane *lane, struct acp_call *call);
int workspace_method_write(acp_lane *lane, struct acp_call *call);
int workspace_method_zero(acp_lane *lane, struct acp_call *call);

#endif
