/* Folds of every operation on every type, against the same by hand; the result may lie over either
 * operand. */
#include "support/check.h"
#include "collectives/reduce.h"

#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define COUNT 67u /* more than a few vectors, and not a multiple of one */

/* The result of one operation on two elements of one type, by hand. */
typedef bool (*by_hand)(acp_fold op, const void *left, const void *right, void *out);

#define WHOLE(NAME, T, WIDE)                                                          \
    static bool NAME(acp_fold op, const void *left, const void *right, void *out)     \
    {                                                                                 \
        T a, b, c;                                                                    \
        memcpy(&a, left, sizeof a);                                                   \
        memcpy(&b, right, sizeof b);                                                  \
        switch (op) {                                                                 \
        case ACP_SUM: c = (T)((WIDE)a + (WIDE)b); break;                              \
        case ACP_PROD: c = (T)((WIDE)a * (WIDE)b); break;                             \
        case ACP_MIN: c = b < a ? b : a; break;                                       \
        case ACP_MAX: c = b > a ? b : a; break;                                       \
        case ACP_AND: c = (T)(a & b); break;                                          \
        case ACP_OR: c = (T)(a | b); break;                                           \
        case ACP_XOR: c = (T)(a ^ b); break;                                          \
        case ACP_LAND: c = a != 0 && b != 0; break;                                   \
        case ACP_LOR: c = a != 0 || b != 0; break;                                    \
        default: c = (a != 0) != (b != 0); break;                                     \
        }                                                                             \
        memcpy(out, &c, sizeof c);                                                    \
        return true;                                                                  \
    }

#define REAL(NAME, T)                                                                 \
    static bool NAME(acp_fold op, const void *left, const void *right, void *out)     \
    {                                                                                 \
        T a, b, c;                                                                    \
        memcpy(&a, left, sizeof a);                                                   \
        memcpy(&b, right, sizeof b);                                                  \
        switch (op) {                                                                 \
        case ACP_SUM: c = a + b; break;                                               \
        case ACP_PROD: c = a * b; break;                                              \
        case ACP_MIN: c = isnan(a) ? a : isnan(b) ? b : a < b ? a : b; break;         \
        case ACP_MAX: c = isnan(a) ? a : isnan(b) ? b : a > b ? a : b; break;         \
        case ACP_LAND: c = a != 0 && b != 0; break;                                   \
        case ACP_LOR: c = a != 0 || b != 0; break;                                    \
        case ACP_LXOR: c = (a != 0) != (b != 0); break;                               \
        default: return false;                                                        \
        }                                                                             \
        memset(out, 0, sizeof c);                                                     \
        memcpy(out, &c, sizeof c);                                                    \
        return true;                                                                  \
    }

#define COMPLEX(NAME, T)                                                              \
    static bool NAME(acp_fold op, const void *left, const void *right, void *out)     \
    {                                                                                 \
        T a, b, c;                                                                    \
        memcpy(&a, left, sizeof a);                                                   \
        memcpy(&b, right, sizeof b);                                                  \
        switch (op) {                                                                 \
        case ACP_SUM: c = a + b; break;                                               \
        case ACP_PROD: c = a * b; break;                                              \
        case ACP_LAND: c = a != 0 && b != 0; break;                                   \
        case ACP_LOR: c = a != 0 || b != 0; break;                                    \
        case ACP_LXOR: c = (a != 0) != (b != 0); break;                               \
        default: return false;                                                        \
        }                                                                             \
        memcpy(out, &c, sizeof c);                                                    \
        return true;                                                                  \
    }

WHOLE(of_i1, int8_t, uint32_t)
WHOLE(of_i2, int16_t, uint32_t)
WHOLE(of_i4, int32_t, uint32_t)
WHOLE(of_i8, int64_t, uint64_t)
WHOLE(of_u1, uint8_t, uint32_t)
WHOLE(of_u2, uint16_t, uint32_t)
WHOLE(of_u4, uint32_t, uint32_t)
WHOLE(of_u8, uint64_t, uint64_t)
REAL(of_f4, float)
REAL(of_f8, double)
REAL(of_f16, long double)
COMPLEX(of_c8, float complex)
COMPLEX(of_c16, double complex)

/* As NumPy has it: a sum is an or, a product an and. */
static bool of_bool(acp_fold op, const void *left, const void *right, void *out)
{
    bool a, b;
    memcpy(&a, left, 1);
    memcpy(&b, right, 1);
    bool c = op == ACP_SUM || op == ACP_MAX || op == ACP_OR || op == ACP_LOR ? a || b
             : op == ACP_XOR || op == ACP_LXOR                              ? a != b
                                                                            : a && b;
    memcpy(out, &c, 1);
    return true;
}

enum { BITS, TRUTH, FLOAT, DOUBLE, LONG, FLOATS, DOUBLES };

static const struct {
    uint64_t size;
    by_hand by_hand;
    int filled; /* with any bits, or with numbers */
} types[ACP_TYPES] = {
    [ACP_BOOL] = {1, of_bool, TRUTH},      [ACP_INT8] = {1, of_i1, BITS},
    [ACP_INT16] = {2, of_i2, BITS},        [ACP_INT32] = {4, of_i4, BITS},
    [ACP_INT64] = {8, of_i8, BITS},        [ACP_UINT8] = {1, of_u1, BITS},
    [ACP_UINT16] = {2, of_u2, BITS},       [ACP_UINT32] = {4, of_u4, BITS},
    [ACP_UINT64] = {8, of_u8, BITS},       [ACP_FLOAT32] = {4, of_f4, FLOAT},
    [ACP_FLOAT64] = {8, of_f8, DOUBLE},    [ACP_LONGDOUBLE] = {sizeof(long double), of_f16, LONG},
    [ACP_COMPLEX64] = {8, of_c8, FLOATS},  [ACP_COMPLEX128] = {16, of_c16, DOUBLES},
};

static uint64_t state = 1;

static uint64_t any(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 24;
}

/* Zeros among them, and what is not a number among the reals; complex products stay exact. */
static double number(int filled)
{
    uint64_t x = any() % 12;
    if (x == 0)
        return 0;
    return x == 1 && filled < FLOATS ? (double)NAN : (double)(any() % 2000) / 8 - 100;
}

static void put(unsigned char *at, int filled)
{
    uint64_t bits = any() % 5 ? any() << 24 ^ any() : 0;
    bool truth = bits & 1;
    double one = number(filled), two = number(filled);
    long double longer = one;
    float short_pair[] = {(float)one, (float)two};
    double pair[] = {one, two};
    switch (filled) {
    case TRUTH: memcpy(at, &truth, 1); break;
    case FLOAT: memcpy(at, short_pair, 4); break;
    case DOUBLE: memcpy(at, pair, 8); break;
    case LONG: memset(at, 0, sizeof longer); memcpy(at, &longer, 10); break;
    case FLOATS: memcpy(at, short_pair, 8); break;
    case DOUBLES: memcpy(at, pair, 16); break;
    default: memcpy(at, &bits, 8); break;
    }
}

/* Not a number is any of those that are none. */
static bool same(const unsigned char *a, const unsigned char *b, uint64_t size, int filled)
{
    float f[2];
    double d[2];
    long double l[2];
    if (filled == LONG) {
        memcpy(&l[0], a, sizeof *l);
        memcpy(&l[1], b, sizeof *l);
        return l[0] == l[1] || (isnan(l[0]) && isnan(l[1]));
    }
    if (filled == FLOAT) {
        memcpy(&f[0], a, 4);
        memcpy(&f[1], b, 4);
        return f[0] == f[1] || (isnan(f[0]) && isnan(f[1]));
    }
    if (filled == DOUBLE) {
        memcpy(&d[0], a, 8);
        memcpy(&d[1], b, 8);
        return d[0] == d[1] || (isnan(d[0]) && isnan(d[1]));
    }
    return memcmp(a, b, size) == 0;
}

/* `over` 0: three places, 1: the result over the left one, 2: over the right one. */
static void one_way(acp_fold op, acp_type type, uint32_t count, int over)
{
    static _Alignas(64) unsigned char left[16 * COUNT + 16], right[16 * COUNT + 16],
        out[16 * COUNT + 16];
    unsigned char wanted[16 * COUNT + 16];
    uint64_t size = reduce_type_size(type);
    fold_fn fold = reduce_fold(op, type);
    for (uint32_t i = 0; i < count; i++) {
        put(left + i * size, types[type].filled);
        put(right + i * size, types[type].filled);
    }
    for (uint32_t i = 0; i < count; i++)
        CHECK(types[type].by_hand(op, left + i * size, right + i * size, wanted + i * size));
    unsigned char *to = over == 1 ? left : over == 2 ? right : out;
    memset(to + count * size, 0xaa, 8);
    fold(to, left, right, count);
    for (uint32_t i = 0; i < count; i++)
        CHECK(same(to + i * size, wanted + i * size, size, types[type].filled));
    for (uint32_t i = 0; i < 8; i++)
        CHECK(to[count * size + i] == 0xaa);
}

int main(void)
{
    uint32_t known = 0;
    for (uint32_t type = 0; type < ACP_TYPES; type++) {
        CHECK(reduce_type_size((acp_type)type) == types[type].size);
        for (uint32_t op = 0; op < ACP_OPS; op++) {
            unsigned char zero[16] = {0}, out[16];
            bool has = reduce_fold((acp_fold)op, (acp_type)type) != NULL;
            CHECK(has == types[type].by_hand((acp_fold)op, zero, zero, out));
            known += has;
            for (uint32_t count = 0; has && count <= COUNT; count += count < 5 ? 1 : 31)
                for (int over = 0; over < 3; over++)
                    one_way((acp_fold)op, (acp_type)type, count, over);
        }
    }
    CHECK(known == 9 * 10 + 3 * 7 + 2 * 5);
    CHECK(!reduce_fold(ACP_OPS, ACP_INT8) && !reduce_fold(ACP_SUM, ACP_TYPES) && !reduce_type_size(ACP_TYPES));
    return 0;
}
