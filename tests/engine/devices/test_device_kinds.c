/* Each kind of device memory does what the engine relies on. */
#include "devices/conformance.h"
#include "support/far.h"

static void *far_allocate_first(uint64_t size)
{
    return far_malloc(0, size);
}

int main(void)
{
    const struct subject subject = {.kind = far_kind(), .allocate = far_allocate_first, .free = far_free,
                                    .poke = far_poke, .peek = far_peek, .place = {.number = -1}, .imports_own = true};
    conformance(&subject);
    far_set(0, 1, 1, 0, 0);
    conformance(&subject);
    far_set(0, 1, 0, 1, 20000);
    conformance(&subject);
    return 0;
}
