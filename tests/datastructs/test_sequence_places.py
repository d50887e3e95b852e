"""Places in vectors and deques: cursors, ranges of either sign, and what is refused."""

import itertools

import numpy as np
import pytest
from support import EACH_SEQUENCE, refused

import acp_mpi as acp

pytestmark = pytest.mark.mpi


@EACH_SEQUENCE
def test_cursors_are_indices(kind, made):
    sequence = made(kind, "q", rank=acp.procs() - 1)
    if acp.rank() == 0:
        sequence.extend([1, 2, 3, 4])
        begin, end = sequence.begin(), sequence.end()
        assert begin.distance(end) == 4
        assert end.advance(-1).value == 4
        begin.advance(1).value = 20
        after = sequence.erase(begin)
        assert after == begin
        assert after.value == 20
        assert sequence.insert(after.advance(1), 9).value == 9
        assert sequence.erase_range(begin, begin.advance(2)).value == 3
        data = bytearray(8)
        acp.get(begin.ga, data)
        assert data == (3).to_bytes(8, "little")
        with pytest.raises(IndexError):
            _ = sequence.end().value
        with refused(IndexError, "Cursor.advance", -1):
            begin.advance(-1)
        with pytest.raises(TypeError):
            begin.advance(1.5)


@EACH_SEQUENCE
def test_cursors_that_come_back_are_where_it_happened(kind, made):
    sequence = made(kind, "q", rank=acp.procs() - 1)
    if acp.rank() == 0:
        sequence.extend([10, 20, 30])
        assert sequence.insert(-1, 25).value == 25
        assert sequence.insert(100, 99).value == 99
        assert sequence.insert(2**70, 100).value == 100
        assert sequence.insert(-(2**70), 5) == sequence.begin()
        assert sequence.tolist() == [5, 10, 20, 25, 30, 99, 100]
        assert sequence.erase(-1) == sequence.end()
        assert sequence.erase(-2).value == 99
        assert sequence.insert_range(-1, [1, 2]).value == 1
        assert sequence.insert_range(100, np.array([3, 4])).value == 3
        assert sequence.insert_range(50, sequence.begin(), sequence.end()).index == 9
        assert sequence.insert_ga(-1, sequence.begin().ga).index == len(sequence) - 2
        assert sequence.insert_range_ga(99, sequence.begin().ga, 2).index == len(sequence) - 2
        with refused(IndexError, f"{kind.__name__}.erase"):
            sequence.erase(2**70)


@EACH_SEQUENCE
def test_ranges_of_either_sign_are_those_of_a_list(kind, made):
    sequence = made(kind, "q", rank=acp.procs() - 1)
    if acp.rank() == 0:
        for first, last in itertools.product(range(-9, 10), repeat=2):
            model = list(range(8))
            sequence.assign(model)
            begin, end = (i + 8 if i < 0 else i for i in (first, last))
            if last < 0 <= first and end < 0:
                begin = -1  # nor is there one at `last`
            if begin < 0 or begin > 8 or (begin < end and end > 8):
                with refused(IndexError, f"{kind.__name__}.erase_range"):
                    sequence.erase_range(first, last)
            else:
                del model[begin : max(begin, end)]
                assert sequence.erase_range(first, last).index == begin, (first, last)
            assert sequence.tolist() == model, (first, last)


@EACH_SEQUENCE
def test_places_that_are_none_are_refused(kind, made):
    a, b = made(kind, "q"), made(kind, "q")
    name = kind.__name__
    if acp.rank() == acp.procs() - 1:
        a.extend([1, 2, 3, 4, 5])
        b.extend([6])
        for method, *rest in (("insert", 1), ("erase",), ("erase_range", 1), ("insert_range", [1])):
            with refused(ValueError, f"{name}.{method}", a.begin()):
                getattr(b, method)(a.begin(), *rest)
            with refused(TypeError, f"{name}.{method}", 0.5):
                getattr(b, method)(0.5, *rest)
        for use, value in (
            (lambda: b.at(1.0), 1.0), (lambda: b.pop(0.0), 0.0), (lambda: b["a"], "a"),
            (lambda: b[None], None), (lambda: b[1.0], 1.0), (lambda: b[[0, 1]], [0, 1]),
            (lambda: b[...], ...), (lambda: b[1.0:], 1.0), (lambda: b.resize(5.0), 5.0),
            (lambda: b.fill(1.5, 0), 1.5), (lambda: b.swap(3), 3),
            (lambda: kind("q", size=1.5), 1.5), (lambda: kind("q", 15), 15),
            (lambda: b.insert_range(0, 1, b.end()), 1), (lambda: b.insert_ga("x", b.ga), "x"),
            (lambda: b.__setitem__("k", 1), "k"), (lambda: b.__delitem__(None), None),
        ):  # fmt: skip
            with refused(TypeError, "|".join([name, *(f"{name}.{m}" for m in (
                "at", "pop", "resize", "fill", "swap", "insert_range", "insert_ga")), f"{name}[]"]),
                repr(value)):  # fmt: skip
                use()
        for use, method, value in (
            (lambda: b.begin().advance(0.5), "advance", 0.5),
            (lambda: b.begin().distance(3), "distance", 3),
        ):
            with refused(TypeError, f"Cursor.{method}", value):
                use()
        with refused(TypeError, f"{name}.insert_range", a.begin()):
            b.insert_range(0, a.begin())
        with refused(ValueError, f"{name}[]", 0):
            b[::0]
        for use in (lambda: b[2**70], lambda: b.at(-(2**70)), lambda: b[2**63 - 1]):
            with refused(IndexError, f"{name}[]|{name}.at"):
                use()
        assert b[: 2**70].tolist() == [6]
        for method, *rest in (("fill", -1, 0), ("resize", -1)):
            with refused(ValueError, f"{name}.{method}", -1):
                getattr(b, method)(*rest)
        assert (len(a), b.tolist()) == (5, [6])
