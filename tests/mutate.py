"""Change the engine in one place, and see whether a test in C notices: `make mutate`.

    python tests/mutate.py [--entries] [--only WORD] [--changed BASE]
        [--random N [--after M] [--seed S]]

Without an option: the entries, and 100 changes that are drawn. What is planted:

- the entries of tests/mutation/entries.toml: a function, a text in it, what it becomes, and the
  tests each of which must notice; an entry that does not apply to one place any more ends the run;
- operators (off by one, a comparison or condition negated, a check skipped, a fence or an order of
  memory dropped) on the lines that have changed since BASE, and on N that are drawn. The draw
  ranks all changes by their function and line, so that it stays as it is when other lines change;
  `--random 60 --after 40` goes on where `--random 40` has ended. The tests are those that run the
  line, first those that run the next ones, too, lie in its folder, and run little else.

The rate is printed, and what has survived. That is a failure, unless entries.toml says with the
reason that the change changes nothing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutation import build, source
from mutation.source import Mutant

NOTICED, SURVIVED, EQUIVALENT, NO_C, NOT_RUN = (
    "noticed",
    "survived",
    "equivalent",
    "does not compile",
    "not run",
)


class Trial:
    """What becomes of mutants, of which several are planted at once."""

    def __init__(
        self,
        engine: build.Engine,
        cover: build.Coverage,
        effort: float,
        equivalents: dict[tuple[str, str, str], str],
    ) -> None:
        self.engine, self.cover, self.effort = engine, cover, effort
        self.equivalents = equivalents

    def run(self, mutant: Mutant) -> tuple[str, str]:
        """Return what has become of it, and by which tests, or why."""
        reason = self.equivalents.get((mutant.function, *mutant.lines()))
        if reason:
            return EQUIVALENT, reason
        tests = mutant.tests or self.cover.tests(mutant)
        if not tests:
            return NOT_RUN, "no test in C runs the line"
        with tempfile.TemporaryDirectory(prefix="planted.", dir=build.CACHE) as folder:
            planted = build.Planted(self.engine, mutant, Path(folder))
            if not planted.compiles:
                return (SURVIVED, "it does not compile") if mutant.tests else (NO_C, "")
            if mutant.tests:
                blind = [t for t in tests if not planted.notices(t, self.cover.limit(t))]
                return (
                    (SURVIVED, "not noticed by " + ", ".join(blind))
                    if blind
                    else (NOTICED, ", ".join(tests))
                )
            start, tried = time.monotonic(), 0
            while tried < len(tests) and time.monotonic() - start < self.effort:
                if planted.notices(tests[tried], self.cover.limit(tests[tried])):
                    return NOTICED, tests[tried]
                tried += 1
        return SURVIVED, f"{tried} of {len(tests)} tests that run the line"


def _git(*words: str) -> str:
    command = ["git", *words, "--", "acp_mpi/*.c", "acp_mpi/*.h"]
    return subprocess.run(
        command, cwd=source.TOP, capture_output=True, text=True, check=True
    ).stdout


def changed_lines(base: str) -> dict[Path, set[int]]:
    """Return the lines of the engine that are not as they were where this left BASE."""
    prefixes = ("--src-prefix=a/", "--dst-prefix=b/")
    text = _git("diff", "-U0", "--no-color", "--no-ext-diff", *prefixes, "--merge-base", base)
    found: dict[Path, set[int]] = {}
    lines: set[int] = set()
    for line in text.splitlines():
        if line.startswith("+++ "):
            lines = (
                set() if line == "+++ /dev/null" else found.setdefault(source.TOP / line[6:], set())
            )
        elif match := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(match[1]), int(match[2] or 1)
            lines.update(range(first, first + count))
    for name in _git("ls-files", "--others", "--exclude-standard").splitlines():
        file = source.TOP / name
        found[file] = set(range(1, file.read_text().count("\n") + 1))
    return found


def report(title: str, trial: Trial, mutants: Iterable[Mutant], say_all: bool) -> int:
    """Try them, print what came of it; how many have survived."""
    start, mutants = time.monotonic(), list(mutants)
    with ThreadPoolExecutor(build.JOBS) as pool:
        results = []
        for mutant, result in zip(mutants, pool.map(trial.run, mutants), strict=True):
            results.append(result[0])
            blind = result[0] in (SURVIVED, NOT_RUN)
            if say_all or blind:
                print(f"{result[0]}: {mutant} ({result[1]})", flush=True)
            if blind or (say_all and not mutant.tests):
                print("    {}\n    {}".format(*mutant.lines()), flush=True)
    tried = [r for r in results if r in (NOTICED, SURVIVED, NOT_RUN)]
    noticed, survived = tried.count(NOTICED), len(tried) - tried.count(NOTICED)
    rate = f"{100 * noticed / len(tried):.1f} %" if tried else "nothing to notice"
    print(
        f"{title}: {noticed} of {len(tried)} noticed ({rate}), "
        f"{results.count(EQUIVALENT)} equivalent, {results.count(NO_C)} do not compile, "
        f"{time.monotonic() - start:.0f} s",
        flush=True,
    )
    return survived


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entries", action="store_true", help="those that are written down")
    parser.add_argument(
        "--changed", metavar="BASE", help="lines that have changed since that commit"
    )
    parser.add_argument(
        "--random", metavar="N", type=int, default=0, help="the first N that are drawn"
    )
    parser.add_argument(
        "--after", metavar="M", type=int, default=0, help="of these not the first M (0)"
    )
    parser.add_argument("--seed", metavar="S", type=int, default=1, help="of the draw (1)")
    parser.add_argument(
        "--only", metavar="WORD", default="", help="those whose description or function has it"
    )
    parser.add_argument(
        "--effort", type=float, default=300.0, help="seconds of tests for one change (300)"
    )
    parser.add_argument("--verbose", action="store_true", help="say of each what has noticed it")
    arguments = parser.parse_args()
    if not (arguments.entries or arguments.changed or arguments.random or arguments.only):
        arguments.entries, arguments.random = True, 100
    by_line = arguments.changed or arguments.random
    try:
        written, possible = source.entries(), source.candidates()
        equivalents = source.equivalents(possible)
        lines = changed_lines(arguments.changed) if arguments.changed else {}
        engine = build.Engine("plain", "-O1")
        cover = build.coverage(engine) if by_line else build.Coverage({}, {})
        trial = Trial(engine, cover, arguments.effort, equivalents)
    except subprocess.CalledProcessError as error:
        print(f"mutate: {error.stderr.strip()}", file=sys.stderr)
        return 2
    except (source.StaleEntryError, build.BuildError) as error:
        print(f"mutate: {error}", file=sys.stderr)
        return 2
    survived = 0

    def tried(title: str, mutants: list[Mutant], say_all: bool) -> int:
        some = [m for m in mutants if arguments.only in m.what or arguments.only in m.function]
        return report(title, trial, some, say_all)

    if arguments.entries or not by_line:
        survived += tried("entries", written, True)
    if arguments.changed:
        some = [m for m in possible if m.line in lines.get(m.file, ())]
        survived += tried(f"changed since {arguments.changed}", some, arguments.verbose)
    if arguments.random:
        some = source.drawn(possible, arguments.random, arguments.seed)[arguments.after :]
        survived += tried(f"random, seed {arguments.seed}", some, arguments.verbose)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
