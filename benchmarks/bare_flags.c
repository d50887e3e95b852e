/* The least that a message between processes of one machine can cost: a word in the memory of the
 * receiver, which looks at it and, until it is there, lets others have the processor. */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

/* Steps on from `at` so many times: `first` sets the other's word and awaits its own, else the other way
 * round. Where it is now. */
uint64_t flags_step(int first, _Atomic uint64_t *own, _Atomic uint64_t *other, uint64_t at, long count)
{
    for (uint64_t next = at + 1; next <= at + (uint64_t)count; next++) {
        if (first)
            atomic_store(other, next);
        while (atomic_load(own) < next)
            sched_yield();
        if (!first)
            atomic_store(other, next);
    }
    return at + (uint64_t)count;
}
