"""Many atomics in one call: arrays of addresses and values, an array of the values before."""

from collections.abc import Callable
from typing import Any

from acp_mpi.engine import _engine


def _many(name: str, gas: Any, values: Any, compares: Any = None) -> Any:
    import numpy

    count = _engine.columns_length(gas, values, compares)
    old = numpy.empty(count, numpy.uint64)
    _engine.atomic_many(f"fetch_{name}_many", _KIND[name], gas, values, compares, count, old)
    return old if name.endswith("8") else old.astype(numpy.uint32)


_KIND = {
    f"{name}{width}": _engine.kind_of(f"{name}{width}")
    for name in ("cas", "swap", "add", "xor", "or", "and")
    for width in (4, 8)
}


def _define(name: str) -> Callable[..., Any]:
    def fetch_many(gas: Any, values: Any) -> Any:
        return _many(name, gas, values)

    def fetch_cas_many(gas: Any, olds: Any, news: Any) -> Any:
        if olds is None:
            raise TypeError(f"fetch_{name}_many: olds must be an integer or an array, not None")
        return _many(name, gas, news, olds)

    function: Callable[..., Any] = fetch_cas_many if name.startswith("cas") else fetch_many
    function.__name__ = function.__qualname__ = f"fetch_{name}_many"
    function.__doc__ = f"""Do `fetch_{name}` on every address of `gas`; return the values before.

    Arguments are arrays of 8-byte integers with one dimension, or scalars for all elements; the
    result is an array of unsigned integers. Done when it returns; each element is atomic, their
    order is undefined. If an address is known to be bad nothing is started.
    """
    return function


fetch_swap4_many = _define("swap4")
fetch_add4_many = _define("add4")
fetch_xor4_many = _define("xor4")
fetch_or4_many = _define("or4")
fetch_and4_many = _define("and4")
fetch_cas4_many = _define("cas4")
fetch_swap8_many = _define("swap8")
fetch_add8_many = _define("add8")
fetch_xor8_many = _define("xor8")
fetch_or8_many = _define("or8")
fetch_and8_many = _define("and8")
fetch_cas8_many = _define("cas8")
