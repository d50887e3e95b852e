/* Pickles of numbers as terms of a sum, and the sum as a pickle. */
#include "containers/pickle_add.h"
#include "containers/map_bucket.h"

#include <stdbool.h>
#include <string.h>

enum opcode {
    PROTO = 0x80, FRAME = 0x95, STOP = '.', BININT1 = 'K', BININT2 = 'M', BININT = 'J', LONG1 = 0x8a,
    LONG4 = 0x8b, NEWTRUE = 0x88, NEWFALSE = 0x89, BINFLOAT = 'G'
};

#define LEAST 8u     /* digits of an int: a sum of short ones keeps its size, and so its place */
#define HEAD_MOST 7u /* bytes before the digits */

struct term {
    bool real;
    double value;                /* of a float */
    const unsigned char *digits; /* of an int, in two's complement, the lowest first */
    uint64_t size;               /* number of digits, LEAST or more */
    unsigned char few[LEAST];
};

static bool whole(struct term *t, int64_t value)
{
    memcpy(t->few, &value, sizeof value);
    t->digits = t->few;
    t->size = LEAST;
    return true;
}

/* The number of digits without those that repeat the sign. */
static uint64_t trimmed(const unsigned char *digits, uint64_t size)
{
    while (size > LEAST && digits[size - 1] == (digits[size - 2] & 0x80 ? 0xff : 0))
        size--;
    return size;
}

static bool is_long(struct term *t, const unsigned char *digits, uint64_t size)
{
    int64_t value = size && digits[size - 1] & 0x80 ? -1 : 0;
    if (size <= LEAST) {
        memcpy(&value, digits, size);
        return whole(t, value);
    }
    t->digits = digits;
    t->size = trimmed(digits, size);
    return true;
}

static bool is_term(struct term *t, const unsigned char *p, uint64_t size)
{
    uint64_t at = size > 2 && p[0] == PROTO ? 2 : 0, word = 0;
    if (size - at > 9 && p[at] == FRAME)
        at += 9;
    if (size - at < 2 || p[size - 1] != STOP)
        return false;
    const unsigned char *data = p + at + 1;
    uint64_t left = size - at - 2;
    memcpy(&word, data, left < 8 ? left : 8);
    t->real = p[at] == BINFLOAT;
    switch (p[at]) {
    case BININT1: return left == 1 && whole(t, (int64_t)word);
    case BININT2: return left == 2 && whole(t, (int64_t)word);
    case BININT: return left == 4 && whole(t, (int32_t)word);
    case NEWTRUE: return left == 0 && whole(t, 1);
    case NEWFALSE: return left == 0 && whole(t, 0);
    case LONG1: return left >= 1 && left - 1 == (word & 0xff) && is_long(t, data + 1, left - 1);
    case LONG4: return left >= 4 && left - 4 == (uint32_t)word && is_long(t, data + 4, left - 4);
    case BINFLOAT:
        word = __builtin_bswap64(word);
        memcpy(&t->value, &word, sizeof word);
        return left == 8;
    default: return false;
    }
}

/* Rounded to the nearest, as Python does: of the digits below the highest 8, which are more than a double has,
 * it counts only whether there is one. */
static double real(const struct term *t)
{
    int64_t top;
    if (t->real)
        return t->value;
    memcpy(&top, t->digits + t->size - LEAST, sizeof top);
    for (uint64_t i = 0; i < t->size - LEAST; i++)
        top |= t->digits[i] != 0;
    double value = (double)top;
    for (uint64_t i = t->size - LEAST; i && !__builtin_isinf(value); i--)
        value *= 256;
    return value;
}

static unsigned int digit(const struct term *t, uint64_t i)
{
    return i < t->size ? t->digits[i] : t->digits[t->size - 1] & 0x80 ? 0xff : 0;
}

static uint64_t write_whole(const struct term *a, const struct term *b, unsigned char *sum)
{
    uint64_t size = 1 + (a->size > b->size ? a->size : b->size), head = 4;
    unsigned char *digits = sum + HEAD_MOST;
    unsigned int carry = 0;
    for (uint64_t i = 0; i < size; i++) {
        carry += digit(a, i) + digit(b, i);
        digits[i] = (unsigned char)carry;
        carry >>= 8;
    }
    size = trimmed(digits, size);
    uint32_t count = (uint32_t)size;
    sum[0] = PROTO;
    sum[1] = 5;
    sum[2] = size > 0xff ? LONG4 : LONG1;
    memcpy(sum + 3, &count, sizeof count);
    if (size > 0xff)
        head = HEAD_MOST;
    memmove(sum + head, digits, size);
    sum[head + size] = STOP;
    return head + size + 1;
}

static uint64_t write_real(double value, unsigned char *sum)
{
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    word = __builtin_bswap64(word);
    sum[0] = PROTO;
    sum[1] = 5;
    sum[2] = BINFLOAT;
    memcpy(sum + 3, &word, sizeof word);
    sum[11] = STOP;
    return 12;
}

uint64_t pickle_add(const unsigned char *a, uint64_t a_size, const unsigned char *b, uint64_t b_size,
                    unsigned char *sum, uint64_t room, uint64_t *size)
{
    struct term x, y;
    if (!is_term(&x, a, a_size) || !is_term(&y, b, b_size))
        return FOUND_OTHER;
    bool is_real = x.real || y.real;
    *size = is_real ? 12 : HEAD_MOST + 2 + (x.size > y.size ? x.size : y.size);
    if (*size > room)
        return FOUND_LARGE;
    if (!is_real) {
        *size = write_whole(&x, &y, sum);
        return FOUND;
    }
    double left = real(&x), right = real(&y);
    if ((!x.real && __builtin_isinf(left)) || (!y.real && __builtin_isinf(right)))
        return FOUND_BEYOND;
    *size = write_real(left + right, sum);
    return FOUND;
}
