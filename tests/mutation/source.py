"""The engine's sources as text: where functions are, and what can be changed in a line."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
SOURCES = TOP / "acp_mpi" / "engine"
ENTRIES = Path(__file__).with_name("entries.toml")


def _code(line: str) -> str:
    """Return a line without comments, however it is indented."""
    return " ".join(re.sub(r"/\*.*?(\*/|$)", "", line).split())


@dataclass(frozen=True)
class Mutant:
    """A change of one file: its bytes from `start` to `end` become `text`."""

    file: Path
    function: str
    start: int
    end: int
    text: str
    line: int
    what: str
    tests: tuple[str, ...] = ()  # each must notice it; none: chosen by what runs the line

    def apply(self) -> str:
        old = self.file.read_text()
        return old[: self.start] + self.text + old[self.end :]

    def lines(self) -> tuple[str, str]:
        """Return the line as it is, and as it becomes, both without comments."""
        old = self.file.read_text()
        begin, rest = old.rfind("\n", 0, self.start) + 1, old.find("\n", self.end)
        rest = len(old) if rest < 0 else rest
        changed = old[begin : self.start] + self.text + old[self.end : rest]
        return _code(old[begin:rest]), _code(changed)

    def __str__(self) -> str:
        return f"{self.file.relative_to(TOP)}:{self.line} {self.function}: {self.what}"


@dataclass(frozen=True)
class Function:
    """One that a file defines: its text from `start` to `end`."""

    file: Path
    name: str
    start: int
    end: int


_NAME = r"\b(?!__attribute__\b|[A-Z_]+\()(\w+)"  # in capitals it is a macro's
_DEFINITION = re.compile(
    rf"^(?![#/ }}])[^\n;={{}}]*?{_NAME}\([^;{{}}]*\)\n?\s*\{{(?:[^\n]*\}}$|.*?^\}})", re.M | re.S
)


def files() -> list[Path]:
    """Return all files in C that the engine is made of."""
    return sorted(p for kind in ("*.c", "*.h") for p in SOURCES.rglob(kind))


def functions(file: Path) -> list[Function]:
    text = file.read_text()
    return [Function(file, m[1], m.start(), m.end()) for m in _DEFINITION.finditer(text)]


def _loose(search: str) -> re.Pattern[str]:
    """Return a pattern for the text however its lines are broken."""
    return re.compile(r"\s+".join(re.escape(word) for word in search.split()))


class StaleEntryError(Exception):
    """An entry that does not apply to the sources any more, or not to one place only."""


def _places(function: str, search: str, known: list[Function]) -> list[tuple[Function, int, int]]:
    pattern, found = _loose(search), []
    for f in known:
        if f.name == function:
            text = f.file.read_text()[f.start : f.end]
            found += [(f, f.start + m.start(), f.start + m.end()) for m in pattern.finditer(text)]
    return found


def entries() -> list[Mutant]:
    """Return the mutants that are written down, wherever their functions are now."""
    known = [f for file in files() for f in functions(file)]
    made = []
    for entry in _table()["mutant"]:
        found = _places(entry["function"], entry["search"], known)
        if len(found) != 1:
            raise StaleEntryError(
                f"{ENTRIES.name}: {entry['search']!r} is found {len(found)} times in functions "
                f"named {entry['function']!r}, expected once; correct the entry ({entry['what']})"
            )
        f, start, end = found[0]
        line = f.file.read_text().count("\n", 0, start) + 1
        made.append(
            Mutant(
                f.file,
                f.name,
                start,
                end,
                entry["replace"],
                line,
                entry["what"],
                tuple(entry["tests"]),
            )
        )
    return made


def _table() -> dict[str, Any]:
    return tomllib.loads(ENTRIES.read_text())


# Each: its name, what it looks for, and what that becomes, where {} is what it was.
_OPERATORS = [
    ("off by one", r"(?<=[\w)\]]) <= ", " < "),
    ("off by one", r"(?<=[\w)\]]) < (?=[\w(*&])", " <= "),
    ("off by one", r"(?<=[\w)\]]) >= ", " > "),
    ("off by one", r"(?<=[\w)\]]) > (?=[\w(*&])", " >= "),
    ("off by one", r" \+ 1\b(?![.x])", ""),
    ("off by one", r"(?<=[\w)\]]) - 1\b(?![.x])", ""),
    ("negated comparison", r" == ", " != "),
    ("negated comparison", r" != ", " == "),
    ("negated condition", r"(?<=\()!(?=[\w(*])", ""),
    ("skipped check", r" && [^&|;{}]*?(?=\)+(?: \{|;|$)| [&|]{2} )", ""),
    ("skipped check", r" \|\| [^&|;{}]*?(?=\)+(?: \{|;|$)| [&|]{2} )", ""),
    ("skipped check", r"(?<=\bif \()(.*)(?=\)(?: \{)?$)", "({}) && 0"),
    (
        "dropped fence",
        r"\b(?:atomic_(?:thread|signal)_fence\(\w+\)|membarrier_all\(\))(?=;)",
        "(void)0",
    ),
    (
        "dropped order",
        r"\bmemory_order_(?:acquire|release|acq_rel|seq_cst)\b",
        "memory_order_relaxed",
    ),
    ("dropped order", r"\b__ATOMIC_(?:ACQUIRE|RELEASE|ACQ_REL|SEQ_CST)\b", "__ATOMIC_RELAXED"),
]
OPERATORS = [(name, re.compile(pattern), text) for name, pattern, text in _OPERATORS]


def _blank(text: str) -> str:
    """Return the text with as many blanks where comments, strings and directives are."""
    pattern = r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^#(?:[^\n]*\\\n)*[^\n]*'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S | re.M)


def _whole(line: str, match: re.Match[str]) -> int:
    """Return where what is matched ends with all parentheses that it opens."""
    end = match.end()
    while match[0].count("(") > line.count(")", match.start(), end) and line[end : end + 1] == ")":
        end += 1
    return end


def operated(file: Path) -> Iterator[Mutant]:
    """Yield what the operators make of a file."""
    text = file.read_text()
    blank = _blank(text)
    for f in functions(file):
        at = text.index("{", f.start)
        number = text.count("\n", 0, at) + 1
        for line in blank[at : f.end].split("\n"):
            for name, pattern, becomes in OPERATORS:
                for m in pattern.finditer(line):
                    start, end = at + m.start(), at + _whole(line, m)
                    if blank.count("(", start, end) == blank.count(")", start, end):
                        now = becomes.replace("{}", text[start:end])
                        yield Mutant(file, f.name, start, end, now, number, name)
            at += len(line) + 1
            number += 1


def candidates() -> list[Mutant]:
    """Return all that the operators make of the engine."""
    return [mutant for file in files() for mutant in operated(file)]


def drawn(possible: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return as many of them; other lines that come or go change nothing of the order."""
    equal: Counter[tuple[str, ...]] = Counter()
    ranked = []
    for mutant in possible:
        key = (mutant.what, mutant.function, *mutant.lines())
        rank = hashlib.sha256(repr((seed, *key, equal[key])).encode()).digest()
        equal[key] += 1
        ranked.append((rank, mutant))
    return [mutant for _, mutant in sorted(ranked, key=lambda pair: pair[0])[:count]]


def equivalents(possible: list[Mutant]) -> dict[tuple[str, str, str], str]:
    """Return why some of them change nothing, by function, line and what becomes of it."""
    known = {(m.function, *m.lines()) for m in possible}
    found: dict[tuple[str, str, str], str] = {}
    for e in _table().get("equivalent", []):
        key = (e["function"], _code(e["line"]), _code(e["becomes"]))
        if key not in known:
            raise StaleEntryError(
                f"{ENTRIES.name}: in no function named {key[0]!r} does the line {key[1]!r} become "
                f"{key[2]!r}; correct or drop what is said to change nothing"
            )
        found[key] = e["reason"]
    return found
