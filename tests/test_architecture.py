"""The house is as `architecture.toml` says: floors, on which everything points down only."""

import functools
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import launch
import pytest
from guard import PROCESSORS

PLAN = tomllib.loads((launch.TESTS / "architecture.toml").read_text())
ENGINE = launch.ROOT / "acp_mpi" / "engine"
SOURCES = sorted(path.relative_to(ENGINE) for path in ENGINE.rglob("*.c"))
HEADERS = sorted(path.relative_to(ENGINE) for path in ENGINE.rglob("*.h"))
FLAGS = [
    "-std=c11",
    "-D_GNU_SOURCE",
    "-O0",
    "-fno-inline",
    "-ffunction-sections",
    "-fdata-sections",
]

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("gcc", "nm", "objdump"))), reason="gcc, nm or objdump is missing"
)


def room(path: Path) -> str:
    """Return the room of a file of the engine; the files at its top are the last one."""
    return path.parts[0] if len(path.parts) > 1 else PLAN["top"]


@functools.cache
def floors() -> Mapping[str, int]:
    """Return the floor of each room; rooms that stand side by side share one."""
    return {name: floor for floor, names in enumerate(PLAN["rooms"]) for name in names}


def allowed(user: str, used: str) -> bool:
    """Return whether one room may use another."""
    if user == "python":
        return used in PLAN["python_uses"]
    return user == used or floors()[used] < floors()[user]


# Includes -------------------------------------------------------------------------------------


def includes(path: Path) -> list[str]:
    """Return what a file of the engine includes of it."""
    return re.findall(r'^\s*#\s*include "([^"]+)"', (ENGINE / path).read_text(), re.M)


def test_every_room_has_a_floor():
    assert {room(path) for path in SOURCES} == set(floors())
    assert {room(path) for path in HEADERS} <= set(floors())


def test_stems_are_unique():
    for paths in (SOURCES, HEADERS):
        stems = sorted(path.stem for path in paths)
        assert stems == sorted(set(stems))


def test_includes_point_to_the_same_room_or_down():
    upward = {
        f"{path} -> {name}"
        for path in [*SOURCES, *HEADERS]
        for name in includes(path)
        if not allowed(room(path), room(Path(name)))
    }
    shrinks(upward, PLAN["exceptions"]["includes"])


def shrinks(found: Iterable[str], known: Iterable[str]) -> None:
    """Check that nothing is found but exceptions, and that no exception is left that is none."""
    new, gone = sorted(set(found) - set(known)), sorted(set(known) - set(found))
    assert not new, "points up:\n" + "\n".join(new)
    assert not gone, "take these out of architecture.toml:\n" + "\n".join(gone)


# Calls and data -------------------------------------------------------------------------------


class Reference(NamedTuple):
    """A function, or data, that one of another file uses."""

    source: Path
    user: str
    target: Path
    used: str

    def __str__(self) -> str:
        return f"{self.source}:{self.user} -> {self.target}:{self.used}"


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> list[Reference]:
    """Compile every source, and read from the objects who refers to whom."""
    folder = tmp_path_factory.mktemp("objects")
    objects = {path: folder / (str(path).replace("/", "__") + ".o") for path in SOURCES}

    def build(path: Path) -> None:
        command = ["gcc", *FLAGS, "-iquote", str(ENGINE), "-c", str(ENGINE / path)]
        subprocess.run([*command, "-o", str(objects[path])], check=True)

    with ThreadPoolExecutor(PROCESSORS) as pool:
        list(pool.map(build, SOURCES))
    owners = {name: path for path in SOURCES for name in defined(objects[path])}
    return [
        Reference(path, user, owners[used], used)
        for path in SOURCES
        for user, used in uses(objects[path])
        if owners.get(used, path) != path
    ]


def defined(obj: Path) -> list[str]:
    """Return the global names that an object defines."""
    return [line.split()[-1] for line in output("nm", "--defined-only", "-g", obj).splitlines()]


def uses(obj: Path) -> Iterator[tuple[str, str]]:
    """Yield (section without its kind, symbol) of the relocations of an object."""
    user = ""
    for line in output("objdump", "-r", obj).splitlines():
        if found := re.match(r"RELOCATION RECORDS FOR \[\.(?:[a-z]+\.)*([^\]]*)\]", line):
            user = found[1]
        elif found := re.match(r"[0-9a-f]+ +R_\S+ +([A-Za-z_]\w*)", line):
            yield user, found[1]


def output(*command: object) -> str:
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=True
    ).stdout


def test_calls_point_to_the_same_room_or_down(references):
    upward = {str(ref) for ref in references if not allowed(room(ref.source), room(ref.target))}
    shrinks(upward, PLAN["exceptions"]["calls"])


def test_circles_of_files_inside_a_room_are_small(references):
    edges: dict[Path, set[Path]] = {path: set() for path in SOURCES}
    for ref in references:
        if room(ref.source) == room(ref.target):
            edges[ref.source].add(ref.target)
    largest: dict[str, int] = {}
    for circle in circles(edges):
        name = room(circle[0])
        largest[name] = max(largest.get(name, 1), len(circle))
    limits = PLAN["exceptions"]["circles"]
    assert {name: size for name, size in largest.items() if size > PLAN["circle"]} == limits


def circles(edges: Mapping[Path, set[Path]]) -> list[list[Path]]:
    """Return the strongly connected parts of a graph (Tarjan)."""
    index: dict[Path, int] = {}
    low: dict[Path, int] = {}
    stack: list[Path] = []
    found = []

    def visit(node: Path) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges[node]:
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(stack[at:])
            del stack[at:]

    for node in edges:
        if node not in index:
            visit(node)
    return found
