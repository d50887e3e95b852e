"""The blocks of code of a page: programs, commands, what they print."""

import re
from pathlib import Path
from typing import NamedTuple

import launch

FIRST_USE = ("README.md", "docs/tour.md")  # all of their blocks run in `make test`
LANGUAGES = ("python", "sh", "text")
_BLOCK = re.compile(r"(?:^<!-- not run: (.*) -->\n)?^```(.*)\n((?s:.*?))^```$", re.MULTILINE)


class Block(NamedTuple):
    """Text between fences; `why_not`: the reason that stands before one that no test runs."""

    why_not: str | None
    language: str
    text: str


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    found = _BLOCK.findall(Path(launch.ROOT, page).read_text())
    return [Block(why_not or None, language, text) for why_not, language, text in found]


def program(page: str) -> str:
    """Return the blocks of Python of a page: they are one program."""
    return "\n".join(block.text for block in blocks(page) if block.language == "python")
