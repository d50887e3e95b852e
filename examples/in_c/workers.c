/* Workers in C of a master in Python (master.py): pi as an integral, in pieces that they take from a counter.
 *
 *     include=$(python -c 'import acp_mpi; print(acp_mpi.get_include())')
 *     gcc -O2 -I$include $(python3-config --includes) workers.c -o workers $(python3-config --ldflags --embed)
 *     macprun job.toml
 *
 * A worker waits in its own memory for the word by which the master starts it, gets from the master's memory what
 * is to be done, takes numbers of pieces by an atomic there, puts each result there and counts it. The
 * interpreter serves for joining and leaving the job only. */
#include <Python.h>

#include <acp.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The master's starter memory, as master.py has it. */
struct plan {
    uint64_t next;   /* piece that nobody has taken */
    uint64_t pieces;
    uint64_t points; /* in each */
    uint64_t done;   /* pieces: the master waits for this word */
    double results[];
};

static void check(int status, const char *what)
{
    if (status == ACP_OK)
        return;
    acp_fault fault;
    acp_last_fault(&fault);
    fprintf(stderr, "workers: %s: %s, rank %lld, address %#llx\n", what, acp_status_name(status),
            (long long)fault.rank, (unsigned long long)fault.ga);
    exit(1);
}

/* One piece of the integral of 4 / (1 + x^2) from 0 to 1. */
static double area(uint64_t piece, const struct plan *plan)
{
    double width = 1.0 / (double)(plan->pieces * plan->points), total = 0;
    for (uint64_t point = 0; point < plan->points; point++) {
        double x = ((double)(piece * plan->points + point) + 0.5) * width;
        total += 4 / (1 + x * x);
    }
    return total * width;
}

static uint64_t work(acp_ga_t master)
{
    struct plan plan;
    check(acp_get(&plan, master, sizeof plan), "acp_get of the plan");
    for (uint64_t count = 0;; count++) {
        uint64_t piece;
        check(acp_fetch_add8(master + offsetof(struct plan, next), 1, &piece), "acp_fetch_add8 of the counter");
        if (piece >= plan.pieces)
            return count;
        double result = area(piece, &plan);
        acp_ga_t place = master + offsetof(struct plan, results) + piece * sizeof result;
        check(acp_put(place, &result, sizeof result), "acp_put of a result");
        acp_handle_t counted = acp_add8(ACP_GA_NULL, master + offsetof(struct plan, done), 1, ACP_HANDLE_NULL);
        check(acp_complete(counted), "acp_add8 of the pieces that are done");
    }
}

int main(int argc, char **argv)
{
    if (acp_init(&argc, &argv))
        return 1;
    if (argc > 1 || acp_rank() == 0) {
        fprintf(stderr, "usage: macprun job.toml; the first group of the job is master.py\n");
        return acp_finalize() ? 1 : 2;
    }
    check(acp_wait_until8(acp_query_starter_ga(acp_rank()), ACP_NE, 0, ACP_FOREVER), "acp_wait_until8");
    uint64_t count = work(acp_query_starter_ga(0));
    printf("rank %d did %llu pieces\n", acp_rank(), (unsigned long long)count);
    fflush(stdout);
    check(acp_sync(), "acp_sync");
    return acp_finalize() ? 1 : 0;
}
