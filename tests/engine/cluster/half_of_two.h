/* One engine of two, each in a process of its own. */
#ifndef ACP_TESTS_HALF_OF_TWO_H
#define ACP_TESTS_HALF_OF_TWO_H

#include "core/engine.h"
#include "support/check.h"

#include <string.h>
#include <unistd.h>

/* The row of the other process comes through the socket. */
static inline acp_engine *half_of_two(int fd, uint32_t rank, acp_path path, const acp_method *methods)
{
    acp_engine *e;
    acp_fault fault;
    uint8_t rows[2][ACP_ROW_SIZE];
    acp_config config = {.node = 1, .memory_limit = 64 << 20, .starter_size = 10240, .span = 1ull << 30, .path = path,
                         .ptracer = 1, .peer_timeout_ns = 20000000000u, .methods = methods};
    CHECK(acp_engine_create(&config, &e, &fault) == ACP_OK);
    acp_engine_row(e, rows[rank]);
    CHECK(write(fd, rows[rank], ACP_ROW_SIZE) == ACP_ROW_SIZE);
    CHECK(read(fd, rows[1 - rank], ACP_ROW_SIZE) == ACP_ROW_SIZE);
    CHECK(acp_table_add(e, 0, rows[0], 2) == ACP_OK);
    CHECK(acp_engine_join(e, 2, rank) == ACP_OK);
    return e;
}

#endif
