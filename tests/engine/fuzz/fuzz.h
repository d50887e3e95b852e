/* What the fuzzers share: numbered rounds that can be run again, a corpus of files, a mutator.
 *
 * Every round draws from its own generator, made of the seed and the round's number alone.
 *   FUZZ_SECONDS=60   as many rounds as fit, from a fresh seed (else a fixed number from seed 1)
 *   FUZZ_SEED=N       from this seed
 *   FUZZ_ROUND=N      this round and no other */
#ifndef ACP_TESTS_FUZZ_H
#define ACP_TESTS_FUZZ_H

#include "support/check.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct fuzz_entry {
    char name[64];
    unsigned char *data;
    size_t size;
};

struct fuzz {
    const char *target;
    uint64_t seed, round, state;
    uint64_t first, rounds;
    time_t until; /* 0: `rounds` of them */
    struct fuzz_entry *entries;
    size_t count;
};

static struct fuzz fuzz;

/* Says how to run this round again: on a failed check, a sanitizer's finding, a time-out. */
static void fuzz_blame(void)
{
    char line[160];
    if (!fuzz.target)
        return;
    int n = snprintf(line, sizeof line, "fuzz_%s: FUZZ_SEED=%" PRIu64 " FUZZ_ROUND=%" PRIu64 "\n",
                     fuzz.target, fuzz.seed, fuzz.round);
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written;
}

static void fuzz_blame_signal(int number)
{
    fuzz_blame();
    signal(number, SIG_DFL);
    raise(number);
}

extern void __sanitizer_set_death_callback(void (*)(void)) __attribute__((weak));

static uint64_t fuzz_number(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static inline void fuzz_begin(const char *target, uint64_t rounds)
{
    uint64_t seconds = fuzz_number("FUZZ_SECONDS", 0);
    uint64_t fresh = seconds ? (uint64_t)time(NULL) : 1;
    fuzz.target = target;
    fuzz.seed = fuzz_number("FUZZ_SEED", fresh);
    fuzz.first = fuzz_number("FUZZ_ROUND", 0);
    fuzz.rounds = getenv("FUZZ_ROUND") ? 1 : rounds;
    fuzz.until = seconds && !getenv("FUZZ_ROUND") ? time(NULL) + (time_t)seconds : 0;
    fuzz.round = UINT64_MAX;
    signal(SIGTERM, fuzz_blame_signal); /* of `timeout` */
    signal(SIGPIPE, SIG_IGN);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(fuzz_blame);
    } else {
        signal(SIGSEGV, fuzz_blame_signal);
        signal(SIGBUS, fuzz_blame_signal);
        signal(SIGABRT, fuzz_blame_signal);
    }
    atexit(fuzz_blame);
    printf("fuzz_%s: seed %" PRIu64 "\n", target, fuzz.seed);
    fflush(stdout);
}

static inline uint64_t fuzz_draw(void) /* SplitMix64 */
{
    uint64_t z = fuzz.state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static inline uint64_t fuzz_below(uint64_t n)
{
    return fuzz_draw() % n;
}

static inline void fuzz_start_round(uint64_t round)
{
    fuzz.round = round;
    fuzz.state = fuzz.seed ^ round * 0xd1342543de82ef95ull;
    fuzz_draw();
}

static inline bool fuzz_more(void)
{
    uint64_t next = fuzz.round == UINT64_MAX ? fuzz.first : fuzz.round + 1;
    if (fuzz.until ? time(NULL) >= fuzz.until : next - fuzz.first >= fuzz.rounds)
        return false;
    fuzz_start_round(next);
    return true;
}

/* The end of a run that has found nothing. */
static inline int fuzz_end(void)
{
    for (size_t i = 0; i < fuzz.count; i++)
        free(fuzz.entries[i].data);
    free(fuzz.entries);
    printf("fuzz_%s: %" PRIu64 " rounds\n", fuzz.target, fuzz.round + 1 - fuzz.first);
    fuzz.target = NULL; /* no round is to blame for what comes */
    return 0;
}

static int fuzz_by_name(const void *a, const void *b)
{
    return strcmp(((const struct fuzz_entry *)a)->name, ((const struct fuzz_entry *)b)->name);
}

/* Reads every file of fuzz/corpus/FOLDER, in the order of their names. */
static inline void fuzz_corpus(const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "fuzz/corpus/%s", folder);
    DIR *all = opendir(path);
    CHECK(all);
    for (struct dirent *d; (d = readdir(all));) {
        if (d->d_name[0] == '.')
            continue;
        fuzz.entries = realloc(fuzz.entries, (fuzz.count + 1) * sizeof *fuzz.entries);
        CHECK(fuzz.entries && strlen(d->d_name) < sizeof fuzz.entries->name);
        struct fuzz_entry *entry = &fuzz.entries[fuzz.count++];
        strcpy(entry->name, d->d_name);
        snprintf(path, sizeof path, "fuzz/corpus/%s/%s", folder, d->d_name);
        FILE *file = fopen(path, "rb");
        CHECK(file && fseek(file, 0, SEEK_END) == 0);
        entry->size = (size_t)ftell(file);
        rewind(file);
        entry->data = malloc(entry->size + 1);
        CHECK(entry->data && fread(entry->data, 1, entry->size, file) == entry->size);
        fclose(file);
    }
    closedir(all);
    CHECK(fuzz.count > 0);
    qsort(fuzz.entries, fuzz.count, sizeof *fuzz.entries, fuzz_by_name);
}

static inline const struct fuzz_entry *fuzz_pick(void)
{
    return &fuzz.entries[fuzz_below(fuzz.count)];
}

static inline uint64_t fuzz_interesting(void)
{
    static const uint64_t values[] = {
        0, 1, 2, 3, 7, 8, 0x3f, 0x40, 0x41, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff,
        0x10000, 0x10001, 0x40000, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
        0xffffffffff, 0x10000000000, INT64_MAX, 1ull << 63, UINT64_MAX - 7, UINT64_MAX,
    };
    return values[fuzz_below(sizeof values / sizeof *values)];
}

/* One change to `size` bytes with room for `room`; the new size. */
static inline size_t fuzz_change(unsigned char *bytes, size_t size, size_t room)
{
    size_t at = size ? fuzz_below(size) : 0, left = size - at;
    size_t n = left ? 1 + fuzz_below(left < 64 || fuzz_below(8) == 0 ? left : 64) : 0;
    uint64_t value = fuzz_interesting();
    const struct fuzz_entry *other = fuzz_pick();
    switch (fuzz_below(8)) {
    case 0: /* a bit */
        if (size)
            bytes[at] ^= (unsigned char)(1u << fuzz_below(8));
        return size;
    case 1: /* a byte */
        if (size)
            bytes[at] = (unsigned char)fuzz_draw();
        return size;
    case 2: /* a number */
        n = (size_t)1 << fuzz_below(4);
        if (n <= left)
            memcpy(bytes + at, &value, n);
        return size;
    case 3: /* a block from elsewhere in it */
        if (size)
            memmove(bytes + fuzz_below(size - n + 1), bytes + at, n);
        return size;
    case 4: /* a block less */
        memmove(bytes + at, bytes + at + n, left - n);
        return size - n;
    case 5: /* a block twice */
        n = n < room - size ? n : room - size;
        memmove(bytes + at + n, bytes + at, left);
        return size + n;
    case 6: /* the rest is another's */
        n = other->size < room - at ? other->size : room - at;
        memcpy(bytes + at, other->data, n);
        return at + n;
    default: /* cut short */
        return at;
    }
}

static inline size_t fuzz_mutate(unsigned char *bytes, size_t size, size_t room)
{
    for (uint64_t changes = 1 + fuzz_below(6); changes; changes--)
        size = fuzz_change(bytes, size, room);
    return size;
}

#endif
