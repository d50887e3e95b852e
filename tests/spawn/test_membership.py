"""The table of members, announcements and addresses."""

import contextlib
import random

import pytest
from arriving import SECRET, row, rows, whole

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous.address import format_address, parse_address
from acp_mpi.job.rendezvous.announcement import Announcement
from acp_mpi.job.rendezvous.connector import join
from acp_mpi.job.rendezvous.membership import Membership, first_without
from acp_mpi.job.rendezvous.roll import Roll


def test_a_table_survives_packing_and_damage_is_an_error():
    table = Membership()
    table.append("océan", True, b"".join(row("o", r) for r in range(3)))
    table.append("ice", False, row("i", 0))
    packed = table.pack()
    again = Membership.unpack(packed)
    assert again.groups == table.groups
    assert again.rows == table.rows
    for cut in range(len(packed)):
        with pytest.raises(Error):
            Membership.unpack(packed[:cut])
    with pytest.raises(Error, match="1 bytes too long"):
        Membership.unpack(packed + b"x")


def test_random_bytes_are_an_error_if_they_are_no_announcement():
    source = random.Random(7)
    sound = Announcement("g", 4, False, tuple(rows("g", 1, 3)), 5.0, "here").pack()
    assert Announcement.unpack(sound).rows == tuple(rows("g", 1, 3))
    for _ in range(3000):
        data = bytearray(sound[: source.randrange(len(sound))] + source.randbytes(30))
        with contextlib.suppress(Error):
            Announcement.unpack(bytes(data))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("", 1, False, whole("x", 1)), "group name"),
        (("a\n", 1, False, whole("x", 1)), "group name"),
        (("a", 0, False, []), "size 0"),
        (("a", 2, True, rows("x", 0)), "gather all"),
        (("a", 2, False, rows("x", 2)), "ranks from 2 to 2"),
        (("a", 2, False, rows("x", 0, 0)), "different"),
        (("a", 2, False, []), "one or more"),
        (("a", 1, False, [(0, b"short")]), "expected 64"),
    ],
)
def test_what_cannot_be_announced_fails_before_anything_is_sent(arguments, words):
    with pytest.raises(Error, match=words):
        join("127.0.0.1:1", SECRET, *arguments)


@pytest.mark.parametrize(
    "address", ["", "host", "host:", ":1", "host:-1", "host:70000", "::1:5", "host:x"]
)
def test_a_wrong_address_says_what_is_expected(address):
    with pytest.raises(Error, match="HOST:PORT"):
        join(address, SECRET, "a", 1, False, whole("a", 1))


def test_addresses_of_both_families():
    for address in ("127.0.0.1:80", "[::1]:80", "node:0"):
        assert format_address(*parse_address(address)) == address


def test_ranks_are_reported_as_ranges():
    roll = Roll(1)
    roll.enter(Announcement("g", 10, False, tuple(rows("g", 0, 1, 2, 7)), 1.0, ""), "here")
    assert "ranks 0-2, 7)" in roll.report()
    assert "ranks 3-6, 8-9 of group 'g'" in roll.report()


def test_the_first_process_without_a_row_is_found():
    there, nothing = row("g", 0), bytes(len(row("g", 0)))
    assert first_without(there * 3) is None
    assert first_without(b"") is None
    assert first_without(there + nothing + there + nothing) == 1
