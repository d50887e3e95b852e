/* Operations of collectives on the types that C knows, in loops that the compiler turns into vector instructions. Each
 * loop stands three times: where the result lies over one of the operands the compiler must be told, or it does one
 * element at a time. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "collectives/reduce.h"

#include <complex.h>

#define LOOP(T, OP)                                              \
    if (out == left) {                                           \
        T *restrict a = out;                                     \
        const T *restrict b = right;                             \
        for (uint64_t i = 0; i < count; i++)                     \
            a[i] = (T)OP(a[i], b[i]);                            \
    } else if (out == right) {                                   \
        T *restrict b = out;                                     \
        const T *restrict a = left;                              \
        for (uint64_t i = 0; i < count; i++)                     \
            b[i] = (T)OP(a[i], b[i]);                            \
    } else {                                                     \
        T *restrict c = out;                                     \
        const T *a = left, *b = right;                           \
        for (uint64_t i = 0; i < count; i++)                     \
            c[i] = (T)OP(a[i], b[i]);                            \
    }

#define FUNCTION(NAME, T, OP)                                                            \
    static void NAME(void *out, const void *left, const void *right, uint64_t count)     \
    {                                                                                    \
        LOOP(T, OP)                                                                      \
    }

#define SUM(a, b) ((a) + (b))
#define PROD(a, b) ((a) * (b))
#define PROD_WRAPPED(a, b) (1u * (a) * (b))
#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define MOST(a, b) ((a) > (b) ? (a) : (b))
/* NaN wins, on either side, as in NumPy. */
#define LEAST_REAL(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define MOST_REAL(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))
#define XOR(a, b) ((a) ^ (b))
#define LAND(a, b) ((a) && (b))
#define LOR(a, b) ((a) || (b))
#define LXOR(a, b) (!(a) != !(b))

/* Sums wrap around, and short integers are promoted to int: the arithmetic is unsigned. */
#define WHOLE(N, T, U)                                              \
    FUNCTION(sum_##N, U, SUM)                                       \
    FUNCTION(prod_##N, U, PROD_WRAPPED)                              \
    FUNCTION(min_##N, T, LEAST)                                     \
    FUNCTION(max_##N, T, MOST)                                      \
    FUNCTION(and_##N, T, AND)                                       \
    FUNCTION(or_##N, T, OR)                                         \
    FUNCTION(xor_##N, T, XOR)                                       \
    FUNCTION(land_##N, T, LAND)                                     \
    FUNCTION(lor_##N, T, LOR)                                       \
    FUNCTION(lxor_##N, T, LXOR)

#define REAL(N, T)                                                  \
    FUNCTION(sum_##N, T, SUM)                                       \
    FUNCTION(prod_##N, T, PROD)                                     \
    FUNCTION(min_##N, T, LEAST_REAL)                                \
    FUNCTION(max_##N, T, MOST_REAL)                                 \
    FUNCTION(land_##N, T, LAND)                                     \
    FUNCTION(lor_##N, T, LOR)                                       \
    FUNCTION(lxor_##N, T, LXOR)

#define COMPLEX(N, T)                                               \
    FUNCTION(sum_##N, T, SUM)                                       \
    FUNCTION(prod_##N, T, PROD)                                     \
    FUNCTION(land_##N, T, LAND)                                     \
    FUNCTION(lor_##N, T, LOR)                                       \
    FUNCTION(lxor_##N, T, LXOR)

WHOLE(i1, int8_t, uint8_t)
WHOLE(i2, int16_t, uint16_t)
WHOLE(i4, int32_t, uint32_t)
WHOLE(i8, int64_t, uint64_t)
WHOLE(u1, uint8_t, uint8_t)
WHOLE(u2, uint16_t, uint16_t)
WHOLE(u4, uint32_t, uint32_t)
WHOLE(u8, uint64_t, uint64_t)
REAL(f4, float)
REAL(f8, double)
REAL(f16, long double)
COMPLEX(c8, float complex)
COMPLEX(c16, double complex)

#define OF_WHOLE(N)                                                                       \
    {sum_##N, prod_##N, min_##N, max_##N, and_##N, or_##N, xor_##N, land_##N, lor_##N, lxor_##N}
#define OF_REAL(N)                                                                        \
    {sum_##N, prod_##N, min_##N, max_##N, NULL, NULL, NULL, land_##N, lor_##N, lxor_##N}
#define OF_COMPLEX(N)                                                                     \
    {sum_##N, prod_##N, NULL, NULL, NULL, NULL, NULL, land_##N, lor_##N, lxor_##N}

static const struct {
    uint64_t size;
    fold_fn folds[ACP_OPS]; /* in the order of acp_fold */
} number_types[ACP_TYPES] = {
    /* bool: sum is or, prod is and, as NumPy has it */
    [ACP_BOOL] = {1, {lor_u1, land_u1, land_u1, lor_u1, land_u1, lor_u1, lxor_u1, land_u1,
                      lor_u1, lxor_u1}},
    [ACP_INT8] = {1, OF_WHOLE(i1)},
    [ACP_INT16] = {2, OF_WHOLE(i2)},
    [ACP_INT32] = {4, OF_WHOLE(i4)},
    [ACP_INT64] = {8, OF_WHOLE(i8)},
    [ACP_UINT8] = {1, OF_WHOLE(u1)},
    [ACP_UINT16] = {2, OF_WHOLE(u2)},
    [ACP_UINT32] = {4, OF_WHOLE(u4)},
    [ACP_UINT64] = {8, OF_WHOLE(u8)},
    [ACP_FLOAT32] = {4, OF_REAL(f4)},
    [ACP_FLOAT64] = {8, OF_REAL(f8)},
    [ACP_LONGDOUBLE] = {sizeof(long double), OF_REAL(f16)},
    [ACP_COMPLEX64] = {8, OF_COMPLEX(c8)},
    [ACP_COMPLEX128] = {16, OF_COMPLEX(c16)},
};

fold_fn reduce_fold(acp_fold op, acp_type type)
{
    return op < ACP_OPS && type < ACP_TYPES ? number_types[type].folds[op] : NULL;
}

uint64_t reduce_type_size(acp_type type)
{
    return type < ACP_TYPES ? number_types[type].size : 0;
}
