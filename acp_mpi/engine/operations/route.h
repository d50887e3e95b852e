#ifndef ACP_ROUTE_H
#define ACP_ROUTE_H

#include "operations/op_table.h"

struct peer;

/* The one function that decides which way an operation goes */
struct plan {
    enum op_way way;
    const struct road *road;
    struct peer *target;
    uint32_t color;
    bool strip;
    bool backward;
    bool halves; /* both owners can do it, each one half */
};

int route(acp_lane *lane, const struct op *op, struct plan *plan);
const struct road *route_road(acp_engine *e, struct peer *p);

#endif
