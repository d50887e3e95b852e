/* Two engines in one process, each a rank of one job with its own mapping of the other's memory. */
#ifndef ENGINE_PAIR_H
#define ENGINE_PAIR_H

#include "core/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MOST = 64 };

static void check(int status, const char *what)
{
    if (status != ACP_OK) {
        fprintf(stderr, "%s: %s\n", what, acp_status_name(status));
        exit(1);
    }
}

static void engine_pair_start(acp_engine **engines)
{
    uint8_t rows[2][ACP_ROW_SIZE];
    for (int i = 0; i < 2; i++) {
        acp_fault fault;
        acp_config config = {.node = 1, .memory_limit = 1 << 26, .starter_size = 4096, .ptracer = 1,
                             .peer_timeout_ns = 5000000000u};
        memset(config.secret, 7, sizeof config.secret);
        check(acp_engine_create(&config, &engines[i], &fault), "acp_engine_create");
        acp_engine_row(engines[i], rows[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        check(acp_table_add(engines[i], 0, rows[0], 2), "acp_table_add");
        check(acp_engine_join(engines[i], 2, i), "acp_engine_join");
    }
}

static void engine_pair_end(acp_engine **engines)
{
    for (int i = 0; i < 2; i++)
        acp_engine_leaving(engines[i]);
    for (int i = 0; i < 2; i++)
        acp_engine_close(engines[i]);
    for (int i = 0; i < 2; i++)
        acp_engine_free(engines[i]);
}

/* The arguments of the program: [rounds [calls in a round]]. */
static void engine_pair_arguments(int argc, char **argv, int *rounds, long *count)
{
    *rounds = argc > 1 ? atoi(argv[1]) : 11;
    *count = argc > 2 ? atol(argv[2]) : *count;
    if (*rounds < 1 || *rounds > ROUNDS_MOST || *count < 10) {
        fprintf(stderr, "usage: %s [rounds [calls in a round]]\n", argv[0]);
        exit(2);
    }
}

static int engine_pair_ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Prints the median of each side, which are sorted by this. */
static void engine_pair_print(double (*ns)[ROUNDS_MOST], int sides, int rounds)
{
    for (int side = 0; side < sides; side++) {
        qsort(ns[side], (size_t)rounds, sizeof ns[side][0], engine_pair_ascending);
        printf("%.3f\n", ns[side][rounds / 2]);
    }
}

#endif
