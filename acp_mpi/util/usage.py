"""Common parts of the commands: `--version`, and guesses at what was meant."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, NoReturn

from acp_mpi import __version__


class Parser(argparse.ArgumentParser):
    """Knows `--version` where it knows `--help`, and which option is like an unknown one."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.add_help:
            self.add_argument("--version", action="version", version=f"acp_mpi {__version__}")

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and leave with code 2."""
        super().error(self.with_hint(message))

    def with_hint(self, message: str) -> str:
        """Return the message, with the option that an unknown one was perhaps to be."""
        what, _, words = message.partition(": ")
        if what != "unrecognized arguments":
            return message
        word = words.partition(" ")[0].partition("=")[0]
        return message + meant(word, self._option_string_actions)


def meant(word: str, known: Iterable[str], form: str = "{}") -> str:
    """Return "; did you mean ...?" with what is like a word, "" if nothing is."""
    import difflib  # few need it

    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {form.format(near[0])}?" if near else ""
