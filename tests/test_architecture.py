"""The house is as `architecture.toml` says: floors, on which everything points down only."""

import functools
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import launch
import pytest
from architecture import PLAN, circles
from guard import PROCESSORS
from mutation import source

ENGINE = launch.ROOT / "acp_mpi" / "engine"
ENGINE_TESTS = launch.TESTS / "engine"
SOURCES = sorted(path.relative_to(ENGINE) for path in ENGINE.rglob("*.c"))
HEADERS = sorted(path.relative_to(ENGINE) for path in ENGINE.rglob("*.h"))
FLAGS = [
    "-std=c11",
    "-D_GNU_SOURCE",
    "-O0",
    "-fPIC",
    "-fno-inline",
    "-ffunction-sections",
    "-fdata-sections",
]
LIBRARIES = ["-pthread", "-lrt", "-ldl"]


def room(path: Path) -> str:
    """Return the room of a file of the engine; the files at its top are the last one."""
    return path.parts[0] if len(path.parts) > 1 else PLAN["top"]


@functools.cache
def floors() -> Mapping[str, int]:
    """Return the floor of each room; rooms that stand side by side share one."""
    return {name: floor for floor, names in enumerate(PLAN["rooms"]) for name in names}


def allowed(user: str, used: str) -> bool:
    """Return whether one room may use another."""
    return user == used or floors()[used] < floors()[user]


# Includes -------------------------------------------------------------------------------------


def includes(path: Path) -> list[str]:
    """Return what a file of the engine includes of it."""
    return re.findall(r'^\s*#\s*include "([^"]+)"', (ENGINE / path).read_text(), re.M)


def test_every_room_has_a_floor():
    assert {room(path) for path in SOURCES} == set(floors())
    assert {room(path) for path in HEADERS} <= set(floors())


def test_every_room_has_a_page_for_those_who_come_new():
    for folder in (path for path in ENGINE.iterdir() if path.is_dir()):
        if folder.name != "__pycache__":
            lines = (folder / "README.md").read_text().splitlines()
            assert len(lines) <= 40, f"{folder.name}/README.md has {len(lines)} lines"


def test_a_library_is_built_of_each_room():
    text = (ENGINE / "meson.build").read_text()
    assert re.findall(r"^  '(\w+)': files\($", text, re.M) == list(floors())


def test_stems_are_unique():
    for paths in (SOURCES, HEADERS):
        # state headers are named after their rooms and hold no function
        stems = sorted(path.stem for path in paths if path.parent.name != "state")
        assert stems == sorted(set(stems))


def test_the_engine_s_tests_lie_in_folders_like_what_they_test():
    assert not [*ENGINE_TESTS.glob("*.[ch]")], "move these to the folder of what they test"
    beside = {"support", "cluster", "interleaver", "fuzz", "benchmarks", "trace"}
    assert {path.name for path in ENGINE_TESTS.iterdir() if path.is_dir()} - beside == set(floors())
    names = sorted(path.stem for path in ENGINE_TESTS.rglob("test_*.c"))
    assert names == sorted(set(names))  # the Makefile finds a test by its name


def test_includes_point_to_the_same_room_or_down():
    upward = {
        f"{path} -> {name}"
        for path in [*SOURCES, *HEADERS]
        for name in includes(path)
        if not allowed(room(path), room(Path(name)))
    }
    shrinks(upward, PLAN["exceptions"]["includes"])


def test_the_extension_knows_the_headers_of_the_core_only():
    for path in (path for path in [*SOURCES, *HEADERS] if room(path) == "python"):
        assert {room(Path(name)) for name in includes(path)} <= set(PLAN["python_includes"]), path


def shrinks(found: Iterable[str], known: Iterable[str]) -> None:
    """Check that nothing is found but exceptions, and that no exception is left that is none."""
    new, gone = sorted(set(found) - set(known)), sorted(set(known) - set(found))
    assert not new, "not as the floors ask:\n" + "\n".join(new)
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
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """Compile every source."""
    if not all(map(shutil.which, ("gcc", "nm", "objdump"))):
        pytest.skip("gcc, nm or objdump is missing")
    folder = tmp_path_factory.mktemp("objects")
    objects = {path: folder / (str(path).replace("/", "__") + ".o") for path in SOURCES}

    def build(path: Path) -> None:
        command = ["gcc", *FLAGS, "-iquote", str(ENGINE), "-c", str(ENGINE / path)]
        subprocess.run([*command, "-o", str(objects[path])], check=True)

    with ThreadPoolExecutor(PROCESSORS) as pool:
        list(pool.map(build, SOURCES))
    return objects


@pytest.fixture(scope="module")
def references(objects: Mapping[Path, Path]) -> list[Reference]:
    """Read from the objects which function refers to which."""
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


def test_the_linker_finds_all_that_a_room_uses_in_it_and_below(objects, tmp_path):
    libraries = {name: tmp_path / f"{name}.a" for name in floors()}
    for name, library in libraries.items():
        output("ar", "rcsT", library, *(objects[path] for path in SOURCES if room(path) == name))
    known = {line.rpartition(":")[2] for line in PLAN["exceptions"]["calls"]}

    for name, library in libraries.items():
        below = [libraries[used] for used in reversed(floors()) if floors()[used] < floors()[name]]
        whole = ["-Wl,--no-undefined,--whole-archive", library, "-Wl,--no-whole-archive"]
        command = ["gcc", "-shared", "-o", tmp_path / f"{name}.so", *whole, *below, *LIBRARIES]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}
        )
        undefined = set(re.findall(r"undefined reference to `(\w+)'", done.stderr))
        assert undefined <= known, f"{name} uses what is not below it: {undefined - known}"
        assert done.returncode == 0 or undefined, done.stderr


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


# Owners, names and prose ----------------------------------------------------------------------


def plain(path: Path) -> str:
    """Return a file of the engine without its comments."""
    return re.sub(r"/\*.*?\*/", "", (ENGINE / path).read_text(), flags=re.DOTALL)


class Part(NamedTuple):
    """A part of the engine's state, or of a peer's: the room that owns it, and its fields."""

    name: str  # as the engine has it
    owner: str
    fields: list[str]


@functools.cache
def parts() -> list[Part]:
    bodies = {
        kind: (path.stem, body)
        for path in HEADERS
        if path.parent.name == "state"
        for kind, body in re.findall(r"^struct (\w+) \{(.*?)^\}", plain(path), re.M | re.S)
    }
    found = []
    for path in (Path("core/engine_state.h"), Path("core/state/peer.h")):
        for kind, name in re.findall(r"^ +struct (\w+) (\w+);", plain(path), re.MULTILINE):
            if kind in bodies:
                owner, body = bodies[kind]
                fields = re.findall(r"(\w+)(?:\[\w+\])*[,;]", re.sub(r"\{[^}]*\}", "", body))
                found.append(Part(name, owner if owner in floors() else "core", fields))
    return found


def test_state_is_written_in_the_room_that_owns_it():
    owners = {(part.name, field): part.owner for part in parts() for field in part.fields}
    field = rf"(?:->|\.)({'|'.join({part.name for part in parts()})})\.(\w+)[\w.>\[\]-]*?"
    changes = (
        rf"{field} *(?:=(?!=)|[-+|&^]=|<<=|>>=|\+\+|--)",
        rf"(?:\+\+|--)[\w>.-]*?{field}",
        rf"\batomic_(?:store|exchange|fetch|compare_exchange|init)\w*\(\s*&[^,;]*?{field}",
    )
    written = {
        f"{path} -> {name}.{what}"
        for path in [*SOURCES, *HEADERS]
        if room(path) != PLAN["top"]  # which creates and ends all of it
        for change in changes
        for name, what in re.findall(change, plain(path))
        if owners.get((name, what), room(path)) != room(path)
    }
    shrinks(written, PLAN["exceptions"]["writes"])


def test_no_part_of_the_state_has_many_fields():
    assert len(parts()) > 15
    large = {part.name: len(part.fields) for part in parts() if len(part.fields) > PLAN["fields"]}
    assert large == {}


class Function(NamedTuple):
    """A function of the engine, and the lines that it has."""

    path: Path
    name: str
    static: bool  # of one source; the inline ones of headers are for all
    lines: int


@functools.cache
def functions() -> list[Function]:
    found = []
    for path in [*SOURCES, *HEADERS]:
        text = (ENGINE / path).read_text()
        for each in source.functions(ENGINE / path):
            static = path.suffix == ".c" and text.startswith("static", each.start)
            lines = text.count("\n", each.start, each.end) + 1
            found.append(Function(path, each.name, static, lines))
    return found


def at_most(found: Sequence[tuple[str, str]], limits: Mapping[str, int]) -> None:
    """Check that each room has no more of what is found, (room, what), than it may have."""
    counts = Counter(name for name, _ in found)
    for name, count in counts.items():
        listed = "\n".join(sorted(what for other, what in found if other == name))
        limit = limits.get(name, 0)
        assert count <= limit, f"{name}: {count}, and {limit} are allowed:\n{listed}"


def test_functions_are_short():
    assert len(functions()) > 1500
    long = [f"{each.path}:{each.name}" for each in functions() if each.lines > PLAN["lines"]]
    assert not long


def test_functions_that_others_call_begin_with_the_stem_of_their_file():
    found = [
        (room(each.path), f"{each.path}:{each.name}")
        for each in functions()
        if not each.static and not each.name.startswith(("acp_", each.path.stem))
    ]
    at_most(found, PLAN["exceptions"]["stems"])


def test_no_static_name_stands_in_two_files_of_a_room():
    files: dict[tuple[str, str], set[str]] = {}
    for each in functions():
        if each.static:
            files.setdefault((room(each.path), each.name), set()).add(each.path.name)
    found = [
        (name, f"{function}: {', '.join(sorted(paths))}")
        for (name, function), paths in files.items()
        if len(paths) > 1
    ]
    at_most(found, PLAN["exceptions"]["twice"])


def test_comments_have_a_noun_for_their_subject():
    comments = [
        (path, " ".join(text.replace("*", " ").split()))
        for path in [*SOURCES, *HEADERS]
        for text in re.findall(r"/\*(.*?)\*/", (ENGINE / path).read_text(), re.DOTALL)
    ]
    riddles = [
        f"{path}: {text}"
        for path, text in comments
        if re.search(r"\b(?:who|whoever|whom|whose)\b", text, re.IGNORECASE)
        or re.match(r"(?:What|Who|Whoever|Those|That|It)\b", text)
    ]
    share = 100 * len(riddles) / len(comments)
    text = "\n".join(riddles)
    assert share <= PLAN["riddles"], f"{share:.1f} % of the comments begin or go on so:\n{text}"
