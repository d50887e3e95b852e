"""What vectors and deques hold: sizes, types, and what is refused."""

import array
import ctypes
import struct

import numpy as np
import pytest
from support import EACH_SEQUENCE, refused

import acp_mpi as acp

pytestmark = pytest.mark.mpi

HUGE = pytest.param(10 << 20, marks=pytest.mark.slow)


@EACH_SEQUENCE
@pytest.mark.parametrize("size", [0, 1, 8, 13, 4096, 2 << 20, HUGE])
def test_elements_of_any_size_arrive_whole(kind, size, made):
    sequence = made(kind, f"V{size}", rank=acp.procs() - 1)
    if acp.rank() == 0:
        one, two, three = (bytes([i]) * size for i in (1, 2, 3))
        sequence.push_back(two)
        sequence.push_front(one)
        sequence[1] = three
        sequence.insert(1, two)
        assert sequence.at(1) == two
        assert sequence.tolist() == [one, two, three]
        assert (sequence.pop_front(), sequence.pop_back()) == (one, three)
        assert len(sequence) == 1
        with pytest.raises(ValueError, match=f"{size} bytes"):
            sequence.append(b"x" * (size + 1))
        with pytest.raises(TypeError, match="give a buffer"):
            sequence.append(size)  # of which bytes() makes so many zeros
        sequence.append(memoryview(three))
        assert sequence.pop() == three


@pytest.mark.parametrize("letter", "bBhHiIqQfd?")
def test_plain_types_come_back_as_python_s_numbers(letter, made):
    sequence = made(acp.Vector, letter)
    values = [False, True] if letter == "?" else [0, 1, 100]
    if acp.rank() == acp.procs() - 1:
        sequence.extend(values)
        sequence.extend(array.array("B" if letter == "?" else letter, values))
        sequence.extend(np.array(values, sequence.dtype))
        sequence.push_back(values[1])
        assert sequence.tolist() == [*values, *values, *values, values[1]]
        assert type(sequence.at(1)) is type(struct.unpack(letter, struct.pack(letter, 1))[0])
        if letter in "bBhHiIqQ":
            low, high = np.iinfo(sequence.dtype).min, np.iinfo(sequence.dtype).max
            sequence.assign([low, high])
            assert (sequence.at(0), sequence.at(1)) == (low, high)
            for beyond in (low - 1, high + 1):
                with pytest.raises(OverflowError):
                    sequence.push_back(beyond)
                with pytest.raises(OverflowError):
                    sequence.extend([beyond])
            assert len(sequence) == 2


def test_structures_complex_and_text_are_elements_too(made):
    point = np.dtype([("x", ">i4"), ("name", "S3"), ("matrix", "f8", (2, 2))])
    vector = made(acp.Vector, point)
    value = (5, b"abc", np.ones((2, 2)))
    if acp.rank() == acp.procs() - 1:
        vector.append(value)
        assert vector.dtype == point
        assert vector[0][:2] == (5, b"abc")
        assert vector[:]["matrix"].sum() == 4
    other = made(acp.Vector, complex)
    if acp.rank() == 0:
        other.extend(np.array([1j, 2]))
        assert other.tolist() == [1j, 2]
        with refused(TypeError, "Vector.extend"):
            made_of_text = np.array(["x"])
            other.extend(made_of_text)
        with pytest.raises(TypeError):
            acp.Vector(object)


def test_long_arrays_go_in_and_out_in_one_operation(made):
    vector = made(acp.Vector, np.int64, rank=acp.procs() - 1)
    values = np.arange(100_000)
    if acp.rank() == 0:
        vector.extend(values)
        vector.extend(values[::2])
        vector[10:90_010] = values[:90_000]
        assert np.array_equal(vector[10:90_010], values[:90_000])
        assert np.array_equal(np.asarray(vector)[100_000:], values[::2])
        del vector[5:149_995]
        assert len(vector) == 10


@EACH_SEQUENCE
def test_values_of_another_type_are_refused_in_the_same_way_everywhere(kind, made):
    name = kind.__name__
    for letter, wrong in (("q", 1.5), ("B", "x"), ("d", "x"), ("Q", 1.5), ("f", None)):
        sequence = made(kind, letter)
        if acp.rank() == 0:
            for method in ("push_back", "push_front", "extend", "assign"):
                with refused(TypeError, f"{name}.{method}", repr(wrong)):
                    getattr(sequence, method)([wrong] if method in ("extend", "assign") else wrong)
            with refused(TypeError, f"{name}.insert", repr(wrong)):
                sequence.insert(0, wrong)
            with refused(TypeError, f"{name}.fill", repr(wrong)):
                sequence.fill(3, wrong)
            assert sequence.empty()
    small = made(kind, "b")
    if acp.rank() == 0:
        for values in ([300], np.array([300]), np.array([1, -129]), [-129]):
            with refused(OverflowError, f"{name}.extend"):
                small.extend(values)
        with refused(OverflowError, f"{name}.push_back", 300):
            small.push_back(300)
        small.extend(np.array([127, -128]))
        assert small.tolist() == [127, -128]


@EACH_SEQUENCE
def test_types_without_a_size_or_with_dimensions_are_refused(kind):
    for dtype in (str, bytes, "S", "U", "S0"):
        with refused(TypeError, kind.__name__, repr(dtype), "object", "S16"):
            kind(dtype)
        with refused(TypeError, "Map", repr("S")):
            acp.Map(key="S")
        with refused(TypeError, "Map", repr("U")):
            acp.Map(key="q", value="U")
    for dtype in (str, "S"):
        with refused(TypeError, "List", repr(dtype), "object"):
            acp.List(dtype=dtype)
    with refused(TypeError, kind.__name__, "(3,)i4"):
        kind("(3,)i4")
    with refused(TypeError, kind.__name__, None):
        kind(None)
    for elements in ([1, 2, 3], "no type", {"a": 1}):  # what list and dict take is no type
        with refused(TypeError, kind.__name__, elements, "elements behind it"):
            kind(elements)
    for raw in ("V²", "V2147483648", f"V{2**64}"):
        for make in (kind, lambda what: acp.List(dtype=what), lambda what: acp.Map(key=what)):
            with pytest.raises(TypeError, match=f"{raw}' is not a type of elements"):
                make(raw)
    with refused(TypeError, kind.__name__, object, "Python objects", "Map"):
        kind(object)
    with refused(TypeError, "Map", None):
        acp.Map(key=None)


@pytest.mark.parametrize("dtype", [">i4", ">f8", "c16", "S4", "U3", "M8[s]", "i4,f8"])
def test_several_values_are_not_taken_for_one_element(dtype, made):
    vector, line = made(acp.Vector, dtype), made(acp.List, dtype=dtype)
    words = acp.Map(ranks=[0], key=dtype, value=dtype) if acp.rank() == 0 else None
    if acp.rank() == 0:
        for values in ([1, 2], np.array([1, 2]), []):
            for put in (vector.push_back, vector.append, line.push_back, words.__contains__):
                with pytest.raises((ValueError, TypeError), match=r"one|whole"):
                    put(values)
            for many in (vector.extend, vector.assign, line.extend):
                with pytest.raises((ValueError, TypeError), match=r"one|whole"):
                    many([values, values])
            with pytest.raises((ValueError, TypeError), match=r"one|whole"):
                words[values] = values
        assert vector.empty()
        assert line.empty()
        assert words.empty()
        words.destroy()


def test_nothing_of_a_value_is_cut_off(made):
    texts, wide, big = made(acp.Vector, "S4"), made(acp.List, dtype="U3"), made(acp.Vector, ">i2")
    words = acp.Map(ranks=[0], key="U3", value="S2") if acp.rank() == 0 else None
    if acp.rank() == 0:
        for name, call in (
            ("Vector.push_back", texts.push_back),
            ("Vector.extend", lambda x: texts.extend([x])),
            ("Vector.extend", lambda x: texts.extend(np.array([b"", x.encode()]))),
            ("List.push_back", wide.push_back),
            ("List.extend", lambda x: wide.extend([x])),
            ("List.extend", lambda x: wide.extend(np.array(["", x]))),
            ("Map.find", words.__contains__),
            ("Map.insert", lambda x: words.insert("a", x)),
        ):
            with refused(ValueError, name, 8, "room for"):
                call("abcdefgh")
        keys = np.array(["abc1", "abc2"])  # of which three letters would be one key
        with refused(ValueError, "Map.update", "keys", 4, "U3"):
            words.update(keys, np.array([b"a", b"b"]))
        with refused(ValueError, "Map.update", "values", 3, "S2"):
            words.update(np.array(["a"]), np.array([b"abc"]))
        assert words.empty()
        words.destroy()
        with refused(TypeError, "Vector.push_back", "1.5 is not a whole number", ">i2"):
            big.push_back(1.5)
        for beyond in (40000, np.int64(40000), 2**70):
            with refused(OverflowError, "Vector.push_back", "does not fit", ">i2"):
                big.push_back(beyond)
        texts.extend(["abcd", b"x", ""])
        assert texts.tolist() == [b"abcd", b"x", b""]
        big.extend([np.int64(-5), True])
        assert big.tolist() == [-5, 1]


@EACH_SEQUENCE
def test_numbers_are_no_text_and_text_is_no_number(kind, made):
    name = kind.__name__
    for dtype, wrong in (("S2", [12345, 1.25, True, 7]), ("U2", [12345]), (">f8", ["3", b"3"])):
        sequence, line = made(kind, dtype), made(acp.List, dtype=dtype)
        words = made(acp.Map, key="q", value=dtype)
        if acp.rank() == 0:
            for value in wrong:
                with refused(TypeError, f"{name}.push_back", value):
                    sequence.push_back(value)
                for values in ([value], np.array([value])):
                    with refused(TypeError, f"{name}.extend"):
                        sequence.extend(values)
                    with refused(TypeError, "List.extend"):
                        line.extend(values)
                with refused(TypeError, "Map.update"):
                    words.update(np.arange(1), np.array([value]))
            with refused(TypeError, f"{name}.push_back", None):
                sequence.push_back(None)
            assert sequence.empty()
            assert line.empty()
            assert words.empty()


@EACH_SEQUENCE
def test_what_is_neither_true_nor_false_is_no_bool(kind, made):
    sequence, line = made(kind, bool), made(acp.List, dtype=bool)
    keys, values = made(acp.Set, key=bool), made(acp.Map, value=bool)
    if acp.rank() == 0:
        for wrong in ("False", b"", None, [], 2, 0.5):
            for call, name in (
                (sequence.push_back, f"{kind.__name__}.push_back"),
                (lambda x: sequence.extend([True, x]), f"{kind.__name__}.extend"),
                (line.push_back, "List.push_back"), (keys.add, "Set.add"),
                (lambda x: values.insert(1, x), "Map.insert"),
            ):  # fmt: skip
                with refused(TypeError, name, repr(wrong)):
                    call(wrong)
        right = [True, False, 1, 0.0, np.True_, np.False_, np.int8(1)]
        sequence.extend(right)
        line.extend(right)
        for value in right:
            sequence.push_back(value)
        assert [type(x) for x in sequence] == [bool] * 14
        assert sequence.tolist() == 2 * list(map(bool, right))
        assert list(line) == list(map(bool, right))
        for numbers in (np.array([0, 1]), np.array([0.0, 1.0])):
            sequence.assign(numbers)
            values.update([0, 1], numbers)
            assert sequence.tolist() == [values[0], values[1]] == [False, True]
            with refused(TypeError, f"{kind.__name__}.extend", "0 or 1"):
                sequence.extend(numbers + 1)
        values.update([0, 1], [1, 0])
        with refused(TypeError, "Map.update", 2):
            values.update([0, 1], [1, 2])
        assert sorted(values.items()) == [(0, True), (1, False)]
        values.clear()
        assert keys.empty()
        assert values.empty()


def test_fields_are_refused_what_elements_of_their_type_are(made):
    inner = np.dtype([("x", "f4"), ("text", "U2")])
    outer = np.dtype([("n", "i4"), ("b", "S2"), ("pairs", inner, (2,)), ("m", "i2", (2, 2))])
    vector, big = made(acp.Vector, outer), np.dtype([("n", "i8"), ("b", "S4")])
    small = made(acp.Vector, [("n", "i4"), ("b", "S2")])
    if acp.rank() == 0:
        pairs, matrix = [(1, "a"), (2.5, "bc")], [[1, 2], [3, 4]]
        for value in (
            (1, b"ab", pairs, matrix),
            (1, b"ab", np.array(pairs, inner), np.array(matrix)),
            (np.int64(1), "ab", pairs, ((1, 2), (3, 4))),
            np.array([(1, b"ab", pairs, matrix)], outer)[0],
        ):
            vector.assign([value])
            assert vector[:].tobytes() == np.array([(1, b"ab", pairs, matrix)], outer).tobytes()
        for wrong, error in (
            ((1.7, b"ab", pairs, matrix), TypeError),
            ((2**40, b"ab", pairs, matrix), OverflowError),
            ((1, b"abc", pairs, matrix), ValueError),
            ((1, 12, pairs, matrix), TypeError),
            ((1, b"ab", [(1, "a"), (2, "bcd")], matrix), ValueError),
            ((1, b"ab", [(None, "a"), (2, "b")], matrix), TypeError),
            ((1, b"ab", pairs[:1], matrix), ValueError),
            ((1, b"ab", pairs, [[1, 2], [3, 4.5]]), TypeError),
            ((1, b"ab", pairs, np.array([[1, 2], [3, 40_000]])), OverflowError),
            ((1, b"ab"), ValueError),
            (5, ValueError),
        ):
            with refused(error, "Vector.push_back"):
                vector.push_back(wrong)
        assert len(vector) == 1
        for wrong, error in (((2**40, b"a"), OverflowError), ((1, b"abc"), ValueError)):
            with refused(error, "Vector.extend"):
                small.extend(np.array([wrong], big))
        small.extend(np.array([(1, b"a"), (-5, b"bc")], big))
        assert small.tolist() == [(1, b"a"), (-5, b"bc")]


@EACH_SEQUENCE
def test_whole_numbers_of_any_type_fit_where_their_values_do(kind, made):
    unsigned = made(kind, "Q")
    if acp.rank() == 0:
        for dtype in ("b", "i", "q", "?", ">i2"):
            unsigned.assign(np.array([0, 1], dtype))
            assert unsigned.tolist() == [0, 1]
        unsigned.extend(np.arange(3))
        with refused(OverflowError, f"{kind.__name__}.extend", -1):
            unsigned.extend(np.array([3, -1]))
        assert unsigned.tolist() == [0, 1, 0, 1, 2]


@EACH_SEQUENCE
def test_buffers_of_several_dimensions_come_as_arrays_do(kind, made):
    sequence, table = made(kind, "q"), np.arange(12, dtype="i").reshape(3, 4)
    if acp.rank() == 0:
        for given in (table, table[:, ::2], table.T, np.array(7, "i"), np.arange(4.0).astype("q")):
            sequence.assign(memoryview(given))
            assert sequence.tolist() == given.reshape(-1).tolist()
        for given in (table.astype(">i4"), table[0].astype(">i4")):
            with refused(TypeError, f"{kind.__name__}.extend", ">i"):
                sequence.extend(memoryview(given))


@EACH_SEQUENCE
def test_numbers_beyond_a_float_and_rows_of_c(kind, made):
    sequence = made(kind, "d")
    if acp.rank() == 0:
        with refused(OverflowError, f"{kind.__name__}.push_back", "1000"):
            sequence.push_back(10**400)
        with refused(OverflowError, f"{kind.__name__}.extend", "1000"):
            sequence.extend([1.0, 10**400])
        sequence.extend((ctypes.c_double * 3)(1, 2, 3))
        assert sequence.tolist() == [1, 2, 3]
        with pytest.raises(ValueError, match=f"{kind.__name__}: .*copy"):
            sequence.__array__(copy=False)


@EACH_SEQUENCE
def test_errors_of_one_element_name_kind_and_method(kind):
    if acp.rank() != 0:
        return
    name = kind.__name__
    for dtype, value in (("q", 1), ("V3", b"abc")):
        gone = kind(dtype, rank=acp.procs() - 1)
        gone.destroy()
        calls = {
            "push_back": lambda gone=gone, value=value: gone.push_back(value),
            "pop_front": lambda gone=gone: gone.pop_front(),
            "insert": lambda gone=gone, value=value: gone.insert(0, value),
            "at": lambda gone=gone: gone.at(0),
        }
        for method, call in calls.items():
            with pytest.raises(acp.AddressError, match=rf"^{name}\.{method}: "):
                call()
        with pytest.raises(acp.AddressError, match=rf"^{name}\[\]: "):
            gone[0]
        with pytest.raises(acp.AddressError, match=rf"^{name}\[\]: "):
            del gone[0]
        with pytest.raises(acp.AddressError, match=rf"^{name}\[\]: "):
            gone[:1] = [value]


def test_more_than_there_can_be_is_refused_by_name(made):
    vector, line = made(acp.Vector, "q"), made(acp.List, dtype="q")
    if acp.rank() == 0:
        for name, call in (
            ("Vector.resize", lambda: vector.resize(2**70)),
            ("Vector.fill", lambda: vector.fill(2**70, 1)),
            ("Vector", lambda: acp.Vector("q", size=2**70)),
            ("List.fill", lambda: line.fill(2**70, 1)),
            ("Map", lambda: acp.Map(slots=2**70)),
        ):
            with refused(OverflowError, name, 2**70):
                call()
        for name, call in (
            ("List.fill", lambda: line.fill(2**62, 1)),
            ("List.fill", lambda: line.fill(2**45, 1)),
            ("List.fill_ga", lambda: line.fill_ga(2**62, acp.query_starter_ga(0))),
            ("Vector.extend_ga", lambda: vector.extend_ga(acp.query_starter_ga(0), 2**61)),
        ):
            with refused(acp.HeapFullError, name):
                call()
        assert vector.empty()
        assert line.empty()
        for name, size in (("size", 2**70), ("default_size", 10)):
            with refused(ValueError, "Workspace", name, 2**70):
                acp.Workspace(size, default_size=2**70)
        with refused(TypeError, "Workspace", "size", 1.5):
            acp.Workspace(1.5)
        with refused(ValueError, "Workspace", "default_size"):
            acp.Workspace(10, default_size=0)
