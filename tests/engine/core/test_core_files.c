/* What no core file is to show: the memory of other processes, and the secret. */
#include "cluster/cluster.h"
#include "cluster/stranger.h"
#include "core/engine_state.h"
#include "transport/connection.h"

#include <string.h>

static bool undumped(const void *place)
{
    char line[512];
    uintptr_t low, high, at = (uintptr_t)place;
    bool here = false, found = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps);
    while (!found && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx ", &low, &high) == 2)
            here = low <= at && at < high;
        if (here && !strncmp(line, "VmFlags:", 8))
            found = strstr(line, " dd") != NULL;
    }
    fclose(maps);
    return found;
}

static uint32_t memory_files_shown(void)
{
    char line[512];
    bool here = false;
    uint32_t shown = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps);
    while (fgets(line, sizeof line, maps)) {
        here |= strstr(line, "memfd:acp_mpi") != NULL;
        if (here && !strncmp(line, "VmFlags:", 8)) {
            shown += strstr(line, " dd") == NULL;
            here = false;
        }
    }
    fclose(maps);
    return shown;
}

static void talk(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    struct acp_call call = {0};
    acp_handle_t pending;
    uint64_t word;
    (void)c;
    CHECK(acp_malloc(lane, !rank, 64, &call, &pending) == ACP_OK && !pending); /* by its heap */
    CHECK(acp_get(lane, &word, acp_starter(e, !rank), sizeof word, &pending) == ACP_OK && !pending);
}

int main(void)
{
    struct cluster c;
    struct town t;
    struct stranger s;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, false);
    cluster_run(&c, talk);
    CHECK(!memory_files_shown());
    CHECK(undumped(c.engines[0]->config.secret));
    cluster_stop(&c);

    town_start(&t, 5000000000u);
    stranger_call(&t, &s, 3, 0); /* and says nothing: a handshake is open */
    acp_engine *e = t.engines[0];
    for (bool open = false; !open; usleep(1000)) {
        pthread_mutex_lock(&e->lock);
        for (uint32_t i = 0; i < e->tcp.wire_room; i++)
            if (e->tcp.wires[i] && e->tcp.wires[i]->handshake) {
                open = true;
                CHECK(undumped(e->tcp.wires[i]->handshake));
            }
        pthread_mutex_unlock(&e->lock);
    }
    stranger_leave(&s);
    town_stop(&t);
    return 0;
}
