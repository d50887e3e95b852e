/* Adding up and the like, for numbers of every type. */
#include "containers/reduce_ops.h"
#include "containers/map_bucket.h"

#include <string.h>

/* Integers wrap: added and multiplied as unsigned ones. */
#define INTEGER(type, unsigned_type)                                           \
    {                                                                          \
        type a, b;                                                             \
        memcpy(&a, value, sizeof a);                                           \
        memcpy(&b, operand, sizeof b);                                         \
        switch (how) {                                                         \
        case PUT_ADD: a = (type)((unsigned_type)a + (unsigned_type)b); break;  \
        case PUT_MULTIPLY: a = (type)((uint64_t)(a) * (uint64_t)(b)); break;   \
        case PUT_MIN: a = b < a ? b : a; break;                                \
        case PUT_MAX: a = b > a ? b : a; break;                                \
        case PUT_AND: a &= b; break;                                           \
        case PUT_OR: a |= b; break;                                            \
        case PUT_XOR: a ^= b; break;                                           \
        default: return false;                                                 \
        }                                                                      \
        memcpy(value, &a, sizeof a);                                           \
        return true;                                                           \
    }

/* NaN wins, as in NumPy. */
#define REAL(type)                                                             \
    {                                                                          \
        type a, b;                                                             \
        memcpy(&a, value, sizeof a);                                           \
        memcpy(&b, operand, sizeof b);                                         \
        switch (how) {                                                         \
        case PUT_ADD: a += b; break;                                           \
        case PUT_MULTIPLY: a *= b; break;                                      \
        case PUT_MIN: a = b < a || b != b ? b : a; break;                      \
        case PUT_MAX: a = b > a || b != b ? b : a; break;                      \
        default: return false;                                                 \
        }                                                                      \
        memcpy(value, &a, sizeof a);                                           \
        return true;                                                           \
    }

bool reduce_ops_combine(uint64_t number, enum put_how how, void *value, const void *operand)
{
    switch (number) {
    case 'b': INTEGER(int8_t, uint8_t)
    case 'h': INTEGER(int16_t, uint16_t)
    case 'i': INTEGER(int32_t, uint32_t)
    case 'q': INTEGER(int64_t, uint64_t)
    case 'B': INTEGER(uint8_t, uint8_t)
    case 'H': INTEGER(uint16_t, uint16_t)
    case 'I': INTEGER(uint32_t, uint32_t)
    case 'Q': INTEGER(uint64_t, uint64_t)
    case 'f': REAL(float)
    case 'd': REAL(double)
    default: return false;
    }
}
