"""The random numbers of NPB: x <- 5**13 x mod 2**46, u = x / 2**46."""

import numpy as np

FACTOR, SEED, BITS = 5**13, 314159265, 46
_HALF = np.uint64(23)
_LOW = np.uint64((1 << 23) - 1)
_MASK = np.uint64((1 << BITS) - 1)


def after(steps: int) -> int:
    """Return x after so many steps."""
    return SEED * pow(FACTOR, steps, 1 << BITS) % (1 << BITS)


def _times(x: np.ndarray, factor: int) -> np.ndarray:
    """Multiply modulo 2**46, exact in 64 bits: both factors split in halves of 23 bits."""
    high, low = np.uint64(factor >> 23), np.uint64(factor & ((1 << 23) - 1))
    crossed = (high * (x & _LOW) + low * (x >> _HALF)) & _LOW
    return ((crossed << _HALF) + low * (x & _LOW)) & _MASK


def uniform(first: int, count: int) -> np.ndarray:
    """Return u number `first` and those that follow; the sequence begins with number 0."""
    x = np.empty(count, np.uint64)
    x[0] = after(first + 1)
    have = 1
    while have < count:
        more = min(have, count - have)
        x[have : have + more] = _times(x[:more], pow(FACTOR, have, 1 << BITS))
        have += more
    return x * 2.0**-BITS
