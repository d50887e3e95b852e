# The twelve atomics of the paper, queued (they return a handle) and blocking. Written out so that
# each has its name, its signature and its docstring.


def cas4(dst: Int, src: Int, old: Int, new: Int, order: Int = HANDLE_NULL) -> int:
    """Set the 4-byte word at `src` to `new` if it is `old`; what it was goes to `dst`, or GA_NULL."""
    return atomic("cas4", ACP_CAS4, dst, src, new, old, order)


def fetch_cas4(ga: Int, old: Int, new: Int) -> int:
    """Set the 4-byte word at `ga` to `new` if it is `old`; return what it was, unsigned."""
    return fetch("fetch_cas4", ACP_CAS4, ga, new, old)


def swap4(dst: Int, src: Int, value: Int, order: Int = HANDLE_NULL) -> int:
    """Atomically swap in `value` at the 4-byte word at `src`; what it was goes to `dst`, or GA_NULL."""
    return atomic("swap4", ACP_SWAP4, dst, src, value, None, order)


def fetch_swap4(ga: Int, value: Int) -> int:
    """Atomically swap in `value` at the 4-byte word at `ga`; return what it was, unsigned."""
    return fetch("fetch_swap4", ACP_SWAP4, ga, value, None)


def add4(dst: Int, src: Int, value: Int, order: Int = HANDLE_NULL) -> int:
    """Atomically add `value` at the 4-byte word at `src`; what it was goes to `dst`, or GA_NULL."""
    return atomic("add4", ACP_ADD4, dst, src, value, None, order)


def fetch_add4(ga: Int, value: Int) -> int:
    """Atomically add `value` at the 4-byte word at `ga`; return what it was, unsigned."""
    return fetch("fetch_add4", ACP_ADD4, ga, value, None)


def xor4(dst: Int, src: Int, value: Int, order: Int = HANDLE_NULL) -> int:
    """Atomically exclusive-or `value` at the 4-byte word at `src`; what it was goes to `dst`, or GA_NULL."""
    return atomic("xor4", ACP_XOR4, dst, src, value, None, order)


def fetch_xor4(ga: Int, value: Int) -> int:
    """Atomically exclusive-or `value` at the 4-byte word at `ga`; return what it was, unsigned."""
    return fetch("fetch_xor4", ACP_XOR4, ga, value, None)


def or4(dst: Int, src: Int, value: Int, order: Int = HANDLE_NULL) -> int:
    """Atomically or `value` at the 4-byte word at `src`; what it was goes to `dst`, or GA_NULL."""
    return atomic("or4", ACP_OR4, dst, src, value, None, order)


def fetch_or4(ga: Int, value: Int) -> int:
    """Atomically or `value` at the 4-byte word at `ga`; return what it was, unsigned."""
    return fetch("fetch_or4", ACP_OR4, ga, value, None)


def and4(dst: Int, src: Int, value: Int, order: Int = HANDLE_NULL) -> int:
    """Atomically and `value` at the 4-byte word at `src`; what it was goes to `dst`, or GA_NULL."""
    return atomic("and4", ACP_AND4, dst, src, value, None, order)


def fetch_and4(ga: Int, value: Int) -> int:
    """Atomically and `value` at the 4-byte word at `ga`; return what it was, unsigned."""
    return fetch("fetch_and4", ACP_AND4, ga, value, None)


def cas8(dst: Int, src: Int, old: Int, new: Int, order: Int = HANDLE_NULL) -> int:
    """Set the 8-byte word at `src` to `new` if it is `old`; what it was goes to `dst`, or GA_NULL."""
    return atomic("cas8", ACP_CAS8, dst, src, new, old, order)


def fetch_cas8(ga: Int, old: Int, new: Int) -> int:
    """Set the 8-byte word at `ga` to `new` if it is `old`; return what it was, unsigned."""
    return fetch("fetch_cas8", ACP_CAS8, ga, new, old)


def swap8(dst: Int, src: Int, value: Int, order: Int = HANDLE_NULL) -> int:
    """Atomically swap in `value` at the 8-byte word at `src`; what it was goes to `dst`, or GA_NULL."""
    return atomic("swap8", ACP_SWAP8, dst, src, value, None, order)


def fetch_swap8(ga: Int, value: Int) -> int:
    """Atomically swap in `value` at the 8-byte word at `ga`; return what it was, unsigned."""
    return fetch("fetch_swap8", ACP_SWAP8, ga, value, None)


def add8(dst: Int, src: Int, value: Int, order: Int = HANDLE_NULL) -> int:
    """Atomically add `value` at the 8-byte word at `src`; what it was goes to `dst`, or GA_NULL."""
    return atomic("add8", ACP_ADD8, dst, src, value, None, order)


def fetch_add8(ga: Int, value: Int) -> int:
    """Atomically add `value` at the 8-byte word at `ga`; return what it was, unsigned."""
    return fetch("fetch_add8", ACP_ADD8, ga, value, None)


def xor8(dst: Int, src: Int, value: Int, order: Int = HANDLE_NULL) -> int:
    """Atomically exclusive-or `value` at the 8-byte word at `src`; what it was goes to `dst`, or GA_NULL."""
    return atomic("xor8", ACP_XOR8, dst, src, value, None, order)


def fetch_xor8(ga: Int, value: Int) -> int:
    """Atomically exclusive-or `value` at the 8-byte word at `ga`; return what it was, unsigned."""
    return fetch("fetch_xor8", ACP_XOR8, ga, value, None)


def or8(dst: Int, src: Int, value: Int, order: Int = HANDLE_NULL) -> int:
    """Atomically or `value` at the 8-byte word at `src`; what it was goes to `dst`, or GA_NULL."""
    return atomic("or8", ACP_OR8, dst, src, value, None, order)


def fetch_or8(ga: Int, value: Int) -> int:
    """Atomically or `value` at the 8-byte word at `ga`; return what it was, unsigned."""
    return fetch("fetch_or8", ACP_OR8, ga, value, None)


def and8(dst: Int, src: Int, value: Int, order: Int = HANDLE_NULL) -> int:
    """Atomically and `value` at the 8-byte word at `src`; what it was goes to `dst`, or GA_NULL."""
    return atomic("and8", ACP_AND8, dst, src, value, None, order)


def fetch_and8(ga: Int, value: Int) -> int:
    """Atomically and `value` at the 8-byte word at `ga`; return what it was, unsigned."""
    return fetch("fetch_and8", ACP_AND8, ga, value, None)
