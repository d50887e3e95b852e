"""What tests of jobs that grow share: newcomers, and words between them and those before."""

import os

import launch

import acp_mpi as acp

PATIENCE = 600.0  # s; what hangs is ended by its test


def newcomer(function, *arguments):
    return launch.program(function, *arguments)


def word(rank):
    """Return where rank 0 expects the word of another."""
    return acp.query_starter_ga(0) + 8 * rank


def await_words(ranks):
    for rank in ranks:
        acp.wait_until(word(rank), "==", 1000 + rank, timeout=PATIENCE)


def say_word(rank):
    acp.put(word(rank), (1000 + rank).to_bytes(8, "little"))


def await_leave():
    acp.wait_until(acp.query_starter_ga(acp.rank()), "==", 7, timeout=PATIENCE)


def give_leave(ranks):
    for rank in ranks:
        acp.put(acp.query_starter_ga(rank), (7).to_bytes(8, "little"))


def until_there(path):
    """Return when there is a file of that name; a delegate calls it."""
    launch.until(lambda: os.path.exists(path))


def half_and(a, b):
    """Fold in an order that counts."""
    return a / 2 + b


def fail_oddly():
    """Raise what no other process knows."""

    class Odd(Exception):
        pass

    raise Odd("of no module")


class Unreadable:
    """Becomes a pickle that cannot be read."""

    def __reduce__(self):
        return int, ("unreadable",)


def greet_at_once():
    with acp.init():
        say_word(acp.rank())
