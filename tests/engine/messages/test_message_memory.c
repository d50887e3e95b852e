/* Messages of ranks that are short of memory: past their bounds, and with a full heap. */
#include "cluster/mailing.h"
#include "core/engine_state.h"
#include "memory/heap.h"
#include "messages/mailbox.h"
#include "messages/request.h"

/* Past the bound the bytes stay with who sent them, past that of the envelopes sends wait. */
static void past_the_bound(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { MANY = 200, SIZE = 3000 };
    uint64_t bound = box_of(e)->bound;
    acp_heap_statistics before, after;
    struct acp_call call;
    acp_handle_t pending;
    unsigned char *room = malloc(MANY * SIZE);
    (void)c;
    box_of(e)->bound = 64 << 10;
    CHECK(AGAIN(acp_heap_look(lane, rank, &before, &call, &pending)) == ACP_OK);
    meet(e);
    if (rank == 1) {
        acp_request *r[MANY];
        uint32_t waiting = 0;
        for (uint32_t i = 0; i < MANY; i++) {
            paint(room + i * SIZE, SIZE, i);
            r[i] = isend(lane, 0, i, room + i * SIZE, SIZE);
            waiting += r[i] != NULL;
        }
        CHECK(waiting > 0 && waiting < MANY);
        meet(e);
        for (uint32_t i = 0; i < MANY; i++)
            send_end_of(lane, r[i]);
    } else {
        meet(e);
        if (rank == 0)
            CHECK(box_of(e)->bytes <= (64 << 10) * 9 / 8);
        for (uint32_t i = 0; rank == 0 && i < MANY; i++) { /* the last that can be here first */
            uint32_t tag = i < 50 ? 49 - i : i;
            CHECK(take_message(lane, 1, tag, room, SIZE).size == SIZE);
            CHECK(painted(room, SIZE, tag));
        }
    }
    meet(e);
    box_of(e)->bound = bound;
    CHECK(AGAIN(acp_heap_look(lane, rank, &after, &call, &pending)) == ACP_OK);
    CHECK(after.used <= before.used + (64 << 10) + MANY * sizeof(struct mail_entry)); /* slabs stay */
    free(room);
    meet(e);
}

/* Whose receive comes while the sender still copies them into its own heap needs them there no more. */
static void wanted_meanwhile(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { SIZE = 8 << 20, ROUNDS = 1000 };
    uint64_t bound = box_of(e)->bound, kept = 1;
    acp_heap_statistics before, after;
    struct acp_call call;
    acp_handle_t pending;
    unsigned char *data = malloc(SIZE);
    const struct heap *theirs = mailbox_heap(c->engines[1], c->engines[1]->job.own);
    CHECK(AGAIN(acp_heap_look(lane, rank, &before, &call, &pending)) == ACP_OK);
    box_of(e)->bound = 64 << 10;
    meet(e);
    for (uint32_t i = 0; kept && rank == 1; i++) {
        paint(data, SIZE, i);
        post_message(lane, 0, i, data, SIZE);
        take_message(lane, 0, i, &kept, 8);
    }
    for (uint32_t i = 0; kept && rank == 0; i++) {
        CHECK(i < ROUNDS);
        UNTIL(__atomic_load_n(&theirs->head->used, __ATOMIC_RELAXED) > SIZE);
        acp_request *r = ireceive(lane, 1, i, data, SIZE);
        CHECK(acp_request_wait(e, r, ACP_FOREVER) == ACP_OK);
        kept = r->entry->place == PLACE_HELD;
        CHECK(receive_end_of(lane, r).size == SIZE && painted(data, SIZE, i));
        post_message(lane, 1, i, &kept, 8);
    }
    meet(e);
    box_of(e)->bound = bound;
    CHECK(AGAIN(acp_heap_look(lane, rank, &after, &call, &pending)) == ACP_OK);
    CHECK(after.used <= before.used + (64 << 10));
    free(data);
    meet(e);
}

/* All of the own heap, in blocks chained by their first words. */
static acp_ga_t fill_heap(acp_lane *lane)
{
    struct acp_call call;
    acp_handle_t pending;
    acp_ga_t last = 0;
    uint32_t rank = acp_rank(lane->engine);
    for (uint64_t size = (uint64_t)64 << 20; size >= 64; size /= 2)
        while (AGAIN(acp_malloc(lane, rank, size, &call, &pending)) == ACP_OK) {
            void *place;
            CHECK(acp_query_address(lane, call.result[0], 8, &place) == ACP_OK);
            memcpy(place, &last, 8);
            last = call.result[0];
        }
    return last;
}

static void free_heap(acp_lane *lane, acp_ga_t last)
{
    struct acp_call call;
    acp_handle_t pending;
    while (last) {
        acp_ga_t ga = last;
        void *place;
        CHECK(acp_query_address(lane, ga, 8, &place) == ACP_OK);
        memcpy(&last, place, 8);
        CHECK(AGAIN(acp_free(lane, ga, &call, &pending)) == ACP_OK);
    }
}

/* A message that has no room anywhere waits until its receive is posted; one that cannot be written
 * there either, until there is some. */
static void without_memory(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { SIZE = 100000 };
    struct pages p = pages_take();
    uint64_t word = 7;
    (void)c;
    if (rank == 1) /* they need entries */
        post_message(lane, 0, 1, &word, 8);
    if (rank == 0)
        take_message(lane, 1, 1, &word, 8);
    meet(e);
    acp_ga_t blocks = rank < 2 ? fill_heap(lane) : 0;
    meet(e);
    if (rank == 1) {
        paint(p.mine, SIZE, 3);
        acp_request *r = isend(lane, 0, 2, p.mine, SIZE);
        CHECK(r && !acp_request_done(r));
        post_message(lane, 0, 3, &word, 8); /* its envelope is there: nobody waits behind it */
        meet(e);
        send_end_of(lane, r);
    } else {
        meet(e);
        acp_request *r = rank == 0 ? ireceive(lane, ACP_ANY, 2, p.theirs, SIZE) : NULL;
        if (rank == 0 && e->config.path == ACP_PATH_OWNER) {
            free_heap(lane, blocks);
            blocks = 0;
        }
        if (r) {
            CHECK(receive_end_of(lane, r).size == SIZE && painted(p.theirs, SIZE, 3));
            take_message(lane, 1, 3, &word, 8);
        }
    }
    free_heap(lane, blocks);
    meet(e);
    pages_give(p);
}

/* The peer's answer takes a send back, also between two looks of its canceller. */
static void taken_back(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { SIZE = 1000000, ROUNDS = 300 };
    unsigned char *data = calloc(1, SIZE);
    uint64_t bound = box_of(e)->bound;
    (void)c;
    box_of(e)->bound = 64 << 10;
    acp_ga_t blocks = fill_heap(lane);
    meet(e);
    for (uint32_t i = 0; i < ROUNDS && rank == 1; i++) {
        acp_request *r = isend(lane, 0, 1, data, SIZE);
        struct timespec pause = {.tv_nsec = i * 1000};
        nanosleep(&pause, NULL);
        CHECK(AGAIN(acp_request_cancel(lane, r)) == ACP_OK);
        CHECK(acp_request_end(lane, r, NULL) == ACP_E_CANCELLED);
    }
    meet(e);
    free_heap(lane, blocks);
    box_of(e)->bound = bound;
    meet(e);
    free(data);
}

/* Sends numbers until one waits because rank 0 has no memory for it; the last number. */
static acp_request *send_until_one_waits(acp_engine *e, acp_lane *lane, uint64_t *number)
{
    for (*number = 0;; ++*number) {
        acp_request *r = isend(lane, 0, 2, number, 8);
        if (r && acp_request_wait(e, r, 50000000) == ACP_E_TIMEOUT)
            return r;
        send_end_of(lane, r);
    }
}

/* A receive asks for bytes that stayed with their sender: they pass a later message that has no memory here. */
static void wanted_behind_what_has_no_memory(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { SIZE = 1000000 };
    unsigned char *data = malloc(SIZE);
    uint64_t word = 7, bound = box_of(e)->bound;
    (void)c;
    box_of(e)->bound = 64 << 10;
    meet(e);
    if (rank == 1) {
        paint(data, SIZE, 5);
        acp_ga_t blocks = fill_heap(lane); /* else the bytes move into it */
        acp_request *large = isend(lane, 0, 1, data, SIZE);
        post_message(lane, 0, 3, &word, 8);
        meet(e);
        acp_request *waits = send_until_one_waits(e, lane, &word);
        meet(e);
        acp_request *number = isend(lane, 0, 4, &word, 8); /* its receive is for all that came before */
        send_end_of(lane, large);
        send_end_of(lane, waits);
        send_end_of(lane, number);
        free_heap(lane, blocks);
    } else {
        take_message(lane, 1, 3, &word, 8);
        acp_ga_t blocks = fill_heap(lane);
        box_of(e)->bound = bound; /* now memory ends first */
        meet(e);
        meet(e);
        CHECK(take_message(lane, 1, 1, data, SIZE).size == SIZE && painted(data, SIZE, 5));
        free_heap(lane, blocks);
        uint64_t last, number;
        take_message(lane, 1, 4, &last, 8);
        for (uint64_t i = 0; i <= last; i++) {
            take_message(lane, 1, 2, &number, 8);
            CHECK(number == i);
        }
    }
    meet(e);
    free(data);
}

int main(void)
{
    static const cluster_body bodies[] = {past_the_bound, wanted_meanwhile, without_memory};
    static const acp_path paths[] = {ACP_PATH_ANY, ACP_PATH_OWNER};
    for (uint32_t i = 0; i < 2; i++) {
        struct cluster c;
        cluster_start(&c, 3, 1, paths[i], CLUSTER_SHARED);
        cluster_run_each(&c, bodies, sizeof bodies / sizeof *bodies);
        cluster_stop(&c);
    }
    struct cluster apart;
    cluster_start(&apart, 2, 2, ACP_PATH_ANY, CLUSTER_SHARED);
    cluster_run(&apart, taken_back);
    cluster_run(&apart, wanted_behind_what_has_no_memory);
    cluster_stop(&apart);
    return 0;
}
