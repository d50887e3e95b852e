/* Copies past the caches: every byte, none beside them, wherever both begin. */
#include "support/check.h"
#include "base/stream_copy.h"

#include <stdlib.h>

#define MOST ((uint64_t)40000)
#define MARGIN ((uint64_t)128)

static unsigned char value(uint64_t i)
{
    return (unsigned char)(i * 131 + i / 251 + 1);
}

static void check_copy(unsigned char *room, const unsigned char *source, uint64_t to, uint64_t from,
                       uint64_t size)
{
    memset(room, 0, MOST + 2 * MARGIN);
    stream_copy(room + to, source + from, size);
    for (uint64_t i = 0; i < to; i++)
        CHECK(room[i] == 0);
    CHECK(memcmp(room + to, source + from, size) == 0);
    for (uint64_t i = to + size; i < MOST + 2 * MARGIN; i++)
        CHECK(room[i] == 0);
}

int main(void)
{
    static const uint64_t sizes[] = {0, 1, 16383, 16384, 16385, 16447, 16448, 32768 + 63, MOST};
    unsigned char *room = malloc(MOST + 2 * MARGIN), *source = malloc(MOST + MARGIN);
    CHECK(room && source);
    for (uint64_t i = 0; i < MOST + MARGIN; i++)
        source[i] = value(i);
    for (uint64_t to = 0; to < 80; to += to < 17 ? 1 : 9)
        for (uint64_t from = 0; from < 65; from += 13)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                check_copy(room, source, to, from, sizes[i]);
    free(room);
    free(source);
    return 0;
}
