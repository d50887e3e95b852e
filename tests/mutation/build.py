"""How mutants are built and run.

What depends on the changed file is compiled again, and each test is linked with that when it is its
turn. What the commands are the Makefile of the engine's tests says.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from .source import SOURCES, TOP, Mutant, files

TESTS = TOP / "tests" / "engine"
CACHE = TOP / "build" / "mutate"
LEAVING = Path(__file__).with_name("leaving.h")
JOBS = len(os.sched_getaffinity(0))
COVERED = 900.0  # seconds that a test has while what it runs is counted
PATIENCE = 20.0  # seconds that a test has beside ten times of what it takes


class BuildError(Exception):
    """What should have been built was not."""


def _sources() -> dict[str, Path]:
    """Return the tests by name, each in the folder of what it tests, and the fuzzers."""
    found = [*TESTS.glob("*/test_*.c"), *TESTS.glob("fuzz/fuzz_*.c")]
    return {path.stem: path for path in found}


def _make(*arguments: str) -> str:
    command = ["make", "-C", str(TESTS), "--no-print-directory", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(done.stderr)
    return done.stdout


def run(command: list[str], limit: float, environment: dict[str, str] | None = None) -> bool:
    """Run a test in a session of its own; False: it has failed, or was not over in time."""
    with subprocess.Popen(
        command,
        cwd=TESTS,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **(environment or {})},
    ) as child:
        try:
            return child.wait(limit) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:  # what it has started goes with it
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


class Engine:
    """The tests and the library without a change, built in a folder, and how they are built."""

    def __init__(self, name: str, flags: str) -> None:
        self.folder = CACHE / name
        self.tests = sorted(_sources())
        variables = [f"BUILD={self.folder}", f"FLAGS_plain={flags}"]
        (self.folder / "plain" / "engine").mkdir(parents=True, exist_ok=True)
        programs = [str(self.program(test)) for test in self.tests]
        self.compile: dict[Path, list[str]] = {}
        self.archive: dict[str, tuple[list[str], list[str]]] = {}  # commands, and what goes in
        self.link: dict[str, list[str]] = {}
        for line in _make("-n", "-B", *variables, *programs).splitlines():
            words = shlex.split(line)
            if words[:1] == ["ar"]:
                self.archive[words[2]] = words[:2], words[3:]
            if "-o" not in words or "echo" in words[0]:
                continue
            output = Path(words[words.index("-o") + 1])
            if "-c" in words:
                self.compile[output] = words
            else:
                self.link[output.name] = words
        _make(f"-j{JOBS}", *variables, *programs)
        self.needs = {o: self._read_needs(o) for o in self.compile}

    def program(self, test: str) -> Path:
        return self.folder / "plain" / test

    @staticmethod
    def _read_needs(output: Path) -> set[str]:
        text = output.with_suffix(".d").read_text().replace("\\\n", " ")
        rule = text.split("\n", 1)[0].split(": ", 1)[1]
        return {os.path.normpath(TESTS / word) for word in rule.split()}


class Planted:
    """A mutant in a folder of its own. `compiles` is False if it is no C."""

    def __init__(self, engine: Engine, mutant: Mutant, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        shutil.rmtree(folder, ignore_errors=True)
        shadow = folder / SOURCES.name
        for file in files():
            there = shadow / file.relative_to(SOURCES)
            there.parent.mkdir(parents=True, exist_ok=True)
            if file == mutant.file:
                there.write_text(mutant.apply())
            else:
                there.symlink_to(file)
        self._rebuilt: dict[str, str] = {}
        self._own: dict[str, list[str]] = {}  # commands of tests that contain the changed file
        near, far = os.path.relpath(SOURCES, TESTS), str(shadow)
        self.compiles = True
        for output, words in engine.compile.items():
            if str(mutant.file) not in engine.needs[output]:
                continue
            of_test = output.parent.name == "plain"  # built when it is linked
            own = folder / ("tests" if of_test else "objects") / output.name
            own.parent.mkdir(exist_ok=True)
            command = [w.replace(near, far).replace(str(output), str(own)) for w in words]
            self._rebuilt[str(output)] = str(own)
            if of_test:
                self._own[output.stem] = [*command, "-w"]
            elif not self._quietly([*command, "-w"]):
                self.compiles = False
                return
        for library, (command, objects) in engine.archive.items():
            if not self._rebuilt.keys().isdisjoint(objects):
                own = folder / Path(library).name
                subprocess.run([*command, own, *map(self._now, objects)], check=True)
                self._rebuilt[library] = str(own)

    def _now(self, word: str) -> str:
        return self._rebuilt.get(word, word)

    @staticmethod
    def _quietly(command: list[str]) -> bool:
        return subprocess.run(command, cwd=TESTS, capture_output=True).returncode == 0

    def notices(self, test: str, limit: float) -> bool:
        """Whether a test fails with it."""
        program = self.folder / test
        if test in self._own and not self._quietly(self._own[test]):
            return True
        words = [*map(self._now, self.engine.link[test])]
        words[words.index("-o") + 1] = str(program)
        if not self._quietly(words):
            return True
        fails = not run([str(program)], limit)
        program.unlink()
        return fails


def _digest(engine: Engine, test: str) -> str:
    digest = hashlib.sha256()
    own = sorted(map(Path, engine.needs[engine.program(test).with_suffix(".o")]))
    for file in [*files(), TESTS / "Makefile", LEAVING, *own]:
        digest.update(str(file).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


class Coverage:
    """What each test takes, and which lines it runs."""

    def __init__(self, seconds: dict[str, float], lines: dict[str, dict[str, list[int]]]) -> None:
        self.seconds = seconds
        self.by_line: dict[tuple[str, int], list[str]] = {}
        for test in sorted(lines, key=lambda t: sum(map(len, lines[t].values()))):
            for file, numbers in lines[test].items():
                for number in numbers:
                    self.by_line.setdefault((file, number), []).append(test)

    def limit(self, test: str) -> float:
        return PATIENCE + 10 * self.seconds.get(test, 6.0)

    def tests(self, mutant: Mutant) -> list[str]:
        """Return those that run its line, first those that run the next ones, of its folder.

        Of a statement of several lines gcov may count another one.
        """
        file, line = str(mutant.file.relative_to(TOP)), mutant.line
        at = {n: self.by_line.get((file, line + n), []) for n in range(-1, 3)}
        own = {path.stem for path in (TESTS / mutant.file.parent.name).glob("test_*.c")}
        found = at[0] or at[1] or at[-1]
        return sorted(found, key=lambda t: (-sum(t in at[n] for n in (1, 2)), t not in own))


def coverage(plain: Engine) -> Coverage:
    """Measure it, or take what was measured of those tests of which no source has changed since."""
    kept = CACHE / "coverage.json"
    found = json.loads(kept.read_text()) if kept.exists() else {}
    tests = sorted(_sources())
    now = {test: _digest(plain, test) for test in tests}
    stale = [t for t in tests if t not in found or found[t]["digest"] != now[t]]
    if stale:
        engine = Engine("coverage", f"-O1 --coverage -include {LEAVING}")
        with ThreadPoolExecutor(JOBS) as pool:
            each = {pool.submit(_cover, engine, test): test for test in stale}
            for done in as_completed(each):
                test = each[done]
                seconds, lines = done.result()
                found[test] = {"digest": now[test], "seconds": seconds, "lines": lines}
                kept.write_text(json.dumps(found))
    return Coverage({t: found[t]["seconds"] for t in tests}, {t: found[t]["lines"] for t in tests})


def _cover(engine: Engine, test: str) -> tuple[float, dict[str, list[int]]]:
    counts = engine.folder / "counts" / test
    shutil.rmtree(counts, ignore_errors=True)
    counts.mkdir(parents=True)
    start = time.monotonic()
    if not run([str(engine.program(test))], COVERED, {"GCOV_PREFIX": str(counts)}):
        raise BuildError(f"{test} fails without any change; mend that first")
    taken = time.monotonic() - start
    found: dict[str, set[int]] = {}
    data = sorted(counts.rglob("*.gcda"))
    for file in data:
        notes = Path("/") / file.relative_to(counts).with_suffix(".gcno")
        file.with_suffix(".gcno").symlink_to(notes)
    command = ["gcov", "--json-format", "--stdout", *map(str, data)]
    out = subprocess.run(command, cwd=TESTS, capture_output=True, text=True).stdout if data else ""
    for text in out.splitlines():
        for part in json.loads(text)["files"]:
            name = os.path.normpath(TESTS / part["file"])
            if name.startswith(f"{SOURCES}/"):
                known = found.setdefault(os.path.relpath(name, TOP), set())
                known.update(n["line_number"] for n in part["lines"] if n["count"])
    shutil.rmtree(counts)
    return taken, {name: sorted(numbers) for name, numbers in found.items()}
