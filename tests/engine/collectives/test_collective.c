/* Collectives that go well: steps in their order, folds, several at once, waits. Those that do not:
 * test_collective_ends.c. */
#include "cluster/collecting.h"
#include "core/engine_state.h"

static const uint64_t counts[] = {0, 1, 3, 1000, 40000, 300000};
#define COUNTS (sizeof counts / sizeof *counts)
#define MOST ((uint64_t)300000)

/* Whole numbers: any order of folding gives the same. */
static double value(uint64_t at, uint32_t rank)
{
    return (double)((at * 7 + rank * 13) % 101);
}

static void folded_along_a_chain(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    double *room = malloc(4 * MOST * sizeof *room);
    (void)lane;
    for (uint32_t i = 0; i < 2 * COUNTS; i++) {
        uint64_t count = counts[i / 2];
        struct script s;
        script_begin(&s, c->count, ACP_SUM, ACP_FLOAT64);
        script_chain(&s, rank, count * sizeof *room);
        for (uint32_t b = 0; b < 4; b++)
            s.buffers[b] = room + b * MOST;
        for (uint64_t k = 0; k < count; k++)
            room[k] = value(k, rank);
        CHECK(carry(e, &s, 100 + i, i % 2, NULL) == ACP_OK);
        for (uint64_t k = 0; k < count; k++) {
            double sum = 0;
            for (uint32_t r = 0; r < c->count; r++)
                sum += value(k, r);
            CHECK(room[MOST + k] == sum);
        }
    }
    free(room);
}

/* Pieces that came in one round go out in the next. */
static void around_a_ring(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static const uint64_t sizes[] = {0, 1, 255, 300, 70000, 2 << 20};
    unsigned char *mine = malloc(2 << 20), *all = malloc((uint64_t)c->count * (2 << 20));
    (void)lane;
    for (uint32_t i = 0; i < 12; i++) {
        uint64_t size = sizes[i / 2];
        struct script s;
        script_begin(&s, c->count, -1, 0);
        script_ring(&s, rank, size);
        s.buffers[IN] = mine;
        s.buffers[OUT] = all;
        paint(mine, size, rank + i);
        CHECK(carry(e, &s, 200 + i, i % 2, NULL) == ACP_OK);
        for (uint32_t r = 0; r < c->count; r++)
            CHECK(painted(all + r * size, size, r + i));
    }
    free(mine);
    free(all);
}

/* What the engine has no fold for its caller folds, the left one always that of the lower ranks. */
/* Rank 0 looks after other things now and then, and in every other turn lets it go on by itself. */
static void in_slices(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t in[CLUSTER_MOST], out[CLUSTER_MOST];
    (void)lane;
    for (uint32_t i = 0; i < 20; i++) {
        struct script s;
        script_begin(&s, c->count, -1, 0);
        for (uint32_t round = 0; round < 3; round++)
            script_exchange(&s, rank, 8);
        for (uint32_t r = 0; r < c->count; r++)
            in[r] = 100 * rank + r + i;
        s.buffers[IN] = in;
        s.buffers[OUT] = out;
        acp_collective *one = rank ? NULL : begin(e, &s, 250 + i);
        if (one && c->count > 1)
            CHECK(acp_collective_run_for(one, 20000 * (int64_t)i) == ACP_E_TIMEOUT);
        meet(e);
        if (!one) {
            CHECK(carry(e, &s, 250 + i, i % 2, NULL) == ACP_OK);
        } else if (i % 2) {
            acp_collective_release(one);
            CHECK(end_of(one, acp_collective_wait(one, ACP_FOREVER), NULL, NULL) == ACP_OK);
        } else {
            int rc;
            while ((rc = acp_collective_run_for(one, 100000)) == ACP_E_TIMEOUT)
                continue;
            CHECK(end_of(one, rc, NULL, NULL) == ACP_OK);
        }
        for (uint32_t r = 0; r < c->count; r++)
            CHECK(r == rank || out[r] == 100 * r + rank + i);
    }
}

static void folded_by_the_caller(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)lane;
    for (uint32_t i = 0; i < 20; i++) {
        uint64_t in = rank + 1, out = 0, tmp = 0, sum = 0, digits = 0;
        uint32_t folds = 0;
        struct script s;
        script_begin(&s, c->count, -1, 0);
        script_chain(&s, rank, 8);
        s.buffers[IN] = &in;
        s.buffers[OUT] = &out;
        s.buffers[TMP] = &tmp;
        s.buffers[SUM] = &sum;
        acp_collective *one = i % 2 ? begin_released(e, &s, 300 + i) : begin(e, &s, 300 + i);
        int rc;
        while ((rc = i % 2 ? acp_collective_wait(one, ACP_FOREVER)
                           : acp_collective_run(one, ACP_FOREVER)) == ACP_COLLECTIVE_FOLD) {
            void *where;
            const void *left, *right;
            uint64_t size;
            CHECK(acp_collective_called(one) == -1);
            acp_collective_due(one, &where, &left, &right, &size);
            CHECK(where == &out && left == &tmp && right == &in && size == 8);
            *(uint64_t *)where = *(const uint64_t *)left * 10 + *(const uint64_t *)right;
            folds++;
            acp_collective_folded(one);
        }
        CHECK(end_of(one, rc, NULL, NULL) == ACP_OK && folds == (rank > 0));
        for (uint32_t r = 0; r < c->count; r++)
            digits = digits * 10 + r + 1;
        CHECK(out == digits);
    }
}

/* Of these members some have something to do before their messages, and after them. */
static void called_between_the_steps(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)lane;
    for (uint32_t i = 0; i < 20; i++) {
        uint64_t in[CLUSTER_MOST] = {0}, out[CLUSTER_MOST] = {0};
        uint32_t calls = 0, expected = (rank + i) % 3 ? 2 : 0;
        struct script s;
        script_begin(&s, c->count, -1, 0);
        if (expected)
            script_add(&s, (acp_step){.kind = ACP_STEP_CALL, .rank = 70});
        script_exchange(&s, rank, 8);
        if (expected)
            script_add(&s, (acp_step){.kind = ACP_STEP_CALL, .rank = 71});
        s.buffers[IN] = in;
        s.buffers[OUT] = out;
        for (uint32_t r = 0; !expected && r < c->count; r++)
            in[r] = 100 * rank + r + i;
        acp_collective *one = i % 2 ? begin_released(e, &s, 350 + i) : begin(e, &s, 350 + i);
        int rc;
        while ((rc = i % 2 ? acp_collective_wait(one, ACP_FOREVER)
                           : acp_collective_run(one, ACP_FOREVER)) == ACP_COLLECTIVE_FOLD) {
            CHECK(acp_collective_called(one) == 70 + calls);
            for (uint32_t r = 0; r < c->count; r++) {
                CHECK(r == rank || out[r] == (calls ? 100 * r + rank + i : 0));
                in[r] = 100 * rank + r + i;
            }
            calls++;
            acp_collective_folded(one);
        }
        CHECK(end_of(one, rc, NULL, NULL) == ACP_OK && calls == expected);
        for (uint32_t r = 0; r < c->count; r++)
            CHECK(r == rank || out[r] == 100 * r + rank + i);
    }
}

/* Each has messages of its own, in whatever order they are begun and waited for. */
static void many_at_once(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { MANY = 16, PIECE = 3000 };
    struct script *scripts = calloc(MANY, sizeof *scripts);
    unsigned char *room = malloc((size_t)MANY * 2 * CLUSTER_MOST * PIECE);
    acp_collective *all[MANY];
    (void)lane;
    for (uint32_t k = 0; k < MANY; k++) {
        uint32_t i = rank % 2 ? MANY - 1 - k : k;
        struct script *s = &scripts[i];
        uint64_t size = i % 3 ? PIECE : 8;
        script_begin(s, c->count, -1, 0);
        script_exchange(s, rank, size);
        s->buffers[IN] = room + (size_t)i * 2 * CLUSTER_MOST * PIECE;
        s->buffers[OUT] = (unsigned char *)s->buffers[IN] + CLUSTER_MOST * PIECE;
        for (uint32_t r = 0; r < c->count; r++)
            paint((unsigned char *)s->buffers[IN] + r * size, size, i + rank * 10 + r);
        all[i] = begin_released(e, s, 400 + i);
    }
    for (uint32_t k = 0; k < MANY; k++) {
        uint32_t i = rank == 1 ? k : MANY - 1 - k;
        uint64_t size = i % 3 ? PIECE : 8;
        CHECK(end_of(all[i], acp_collective_wait(all[i], ACP_FOREVER), NULL, NULL) == ACP_OK);
        for (uint32_t r = 0; r < c->count; r++)
            CHECK(r == rank || painted((unsigned char *)scripts[i].buffers[OUT] + r * size, size,
                                       i + r * 10 + rank));
    }
    free(scripts);
    free(room);
}

/* Who drives progress brings it to its end; a wait for it may run out, and it goes on. */
static void done_without_being_waited_for(struct cluster *c, uint32_t rank, acp_engine *e,
                                          acp_lane *lane)
{
    unsigned char in[24], out[24];
    (void)lane;
    for (uint32_t i = 0; i < 10; i++) {
        struct script s;
        script_begin(&s, c->count, -1, 0);
        script_ring(&s, rank, 8);
        s.buffers[IN] = in;
        s.buffers[OUT] = out;
        paint(in, 8, rank + i);
        if (rank == 2) /* what the others wait for */
            meet(e);
        acp_collective *one = begin_released(e, &s, 500 + i);
        if (rank != 2) {
            CHECK(!acp_collective_done(one));
            CHECK(acp_collective_wait(one, i % 2 ? 0 : 1000000) == ACP_E_TIMEOUT);
            meet(e);
        }
        UNTIL(acp_collective_done(one));
        CHECK(end_of(one, acp_collective_wait(one, 0), NULL, NULL) == ACP_OK);
        for (uint32_t r = 0; r < c->count; r++)
            CHECK(painted(out + r * 8, 8, r + i));
    }
}

static void *wait_too(void *collective)
{
    CHECK(acp_collective_wait(collective, ACP_FOREVER) == ACP_OK);
    return NULL;
}

static void several_threads_wait_for_one(struct cluster *c, uint32_t rank, acp_engine *e,
                                         acp_lane *lane)
{
    unsigned char in[24], out[24];
    pthread_t threads[3];
    (void)lane;
    for (uint32_t i = 0; i < 10; i++) {
        struct script s;
        script_begin(&s, c->count, -1, 0);
        script_ring(&s, rank, 8);
        s.buffers[IN] = in;
        s.buffers[OUT] = out;
        paint(in, 8, rank + i);
        if (rank == 2)
            UNTIL(c->engines[0]->control->asleep &&
                  layout_doing(c->engines[0]->control) == ACP_DOING_COLLECTIVE);
        acp_collective *one = begin_released(e, &s, 600 + i);
        for (uint32_t t = 0; t < 3; t++)
            CHECK(pthread_create(&threads[t], NULL, wait_too, one) == 0);
        for (uint32_t t = 0; t < 3; t++)
            pthread_join(threads[t], NULL);
        CHECK(end_of(one, acp_collective_wait(one, 0), NULL, NULL) == ACP_OK);
        for (uint32_t r = 0; r < c->count; r++)
            CHECK(painted(out + r * 8, 8, r + i));
        meet(e);
    }
}

/* Of several, whichever stands ends the wait for any. */
static void any_of_several(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { MANY = 5 };
    uint64_t in[MANY][3], out[MANY][3];
    struct script s[MANY];
    acp_collective *all[MANY];
    (void)lane;
    for (uint32_t i = 0; i < MANY; i++) {
        script_begin(&s[i], c->count, -1, 0);
        script_ring(&s[i], rank, 8);
        s[i].buffers[IN] = in[i];
        s[i].buffers[OUT] = out[i];
        in[i][0] = rank * 10 + i;
        if (rank == 0)
            all[i] = begin_released(e, &s[i], 700 + i);
    }
    meet(e);
    for (uint32_t k = 0; rank && k < MANY; k++)
        CHECK(carry(e, &s[k * 2 % MANY], 700 + k * 2 % MANY, false, NULL) == ACP_OK);
    for (uint32_t left = MANY; !rank && left; left--) {
        uint32_t i = 0;
        CHECK(acp_wait_any(e, NULL, 0, all, left, NULL, 0, ACP_FOREVER) == ACP_OK);
        while (i < left && !acp_collective_done(all[i]))
            i++;
        CHECK(i < left);
        CHECK(end_of(all[i], acp_collective_wait(all[i], 0), NULL, NULL) == ACP_OK);
        all[i] = all[left - 1];
    }
    for (uint32_t i = 0; i < MANY; i++)
        for (uint32_t r = 0; r < c->count; r++)
            CHECK(out[i][r] == r * 10 + i);
    meet(e);
}

/* Past the bound the bytes stay with their sender. Whoever drives progress must not wait for them,
 * so the caller brings them in. */
static void brought_in_by_the_caller(struct cluster *c, uint32_t rank, acp_engine *e,
                                     acp_lane *lane)
{
    enum { SIZE = 100000 };
    uint64_t bound = box_of(e)->bound, word = 3;
    unsigned char *bytes = malloc(SIZE);
    struct script s;
    (void)lane;
    script_begin(&s, c->count, -1, 0);
    if (rank == 0) {
        box_of(e)->bound = 1 << 10;
        script_receive(&s, 2, OUT, 0, 8);
        script_await(&s);
        script_receive(&s, 1, IN, 0, SIZE);
    } else if (rank == 1) {
        paint(bytes, SIZE, 5);
        script_send(&s, 0, IN, 0, SIZE);
    } else {
        script_send(&s, 0, OUT, 0, 8);
    }
    script_await(&s);
    s.buffers[IN] = bytes;
    s.buffers[OUT] = &word;
    meet(e);
    if (rank == 1)
        CHECK(carry(e, &s, 800, false, NULL) == ACP_OK);
    meet(e);
    if (rank == 0) {
        acp_collective *one = begin_released(e, &s, 800);
        meet(e);
        CHECK(end_of(one, acp_collective_wait(one, ACP_FOREVER), NULL, NULL) == ACP_OK);
        CHECK(painted(bytes, SIZE, 5));
        box_of(e)->bound = bound;
    } else {
        meet(e);
        if (rank == 2)
            CHECK(carry(e, &s, 800, true, NULL) == ACP_OK);
    }
    meet(e);
    free(bytes);
}

static const cluster_body bodies[] = {
    in_slices,
    folded_along_a_chain, around_a_ring, folded_by_the_caller, called_between_the_steps,
    many_at_once,
    done_without_being_waited_for, several_threads_wait_for_one, any_of_several,
    brought_in_by_the_caller,
};

int main(void)
{
    cluster_by_every_road(bodies, sizeof bodies / sizeof *bodies);
    return 0;
}
