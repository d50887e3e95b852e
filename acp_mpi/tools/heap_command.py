"""`python -m acp_mpi heap PID`: what the memory of a running job is used for."""

import argparse
import contextlib
import dataclasses
import json
import os
import shutil
import sys
import time
from pathlib import Path

from acp_mpi.errors import Error
from acp_mpi.tools import heap_svg, heap_text, stdout
from acp_mpi.tools.heap_survey import JobSurvey, Picture
from acp_mpi.util import usage

_CELLS = 200  # of a bar in SVG, at least
_KEPT = 10000  # pictures of a course over time


def _process(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a process number")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.01 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.01 to 86400")
    return seconds


def _parser() -> usage.Parser:
    parser = usage.Parser(
        prog="python -m acp_mpi heap",
        description="Show the heap of each rank of a running job on this node: what is used, free "
        "and committed, and by which containers. The job is neither stopped nor asked.",
        epilog="Needs what a debugger needs: the same user and PID namespace, or root.",
    )
    parser.add_argument(
        "pid", metavar="PID", type=_process, help="any process of the job, or its launcher"
    )
    parser.add_argument("--svg", metavar="FILE", type=Path, help="write a picture there, too")
    parser.add_argument("--json", action="store_true", help="one JSON object a look, no map")
    parser.add_argument(
        "--watch",
        metavar="SECONDS",
        type=_seconds,
        help="look again that often, until the job ends or Ctrl-C",
    )
    return parser


def _as_json(picture: Picture) -> str:
    ranks = []
    for heap in picture.ranks:
        row = dataclasses.asdict(heap)
        del row["cells"]
        ranks.append(row | {"uses": heap.uses()})
    return json.dumps({"time": picture.time, "ranks": ranks})


def _write_svg(path: Path, pictures: list[Picture]) -> None:
    """Replace the file at once: a viewer never sees half of it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(heap_svg.draw(pictures), encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise Error(f"heap: {path} cannot be written: {error.strerror}; name another") from None


class _Show:
    """The result of the looks at a job."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.pictures: list[Picture] = []

    def look(self, job: JobSurvey) -> bool:
        """Show the job as it is now; False if it has ended."""
        width = max(shutil.get_terminal_size().columns - 1, 40)
        rows = max(2, -(-_CELLS // width) if self.options.svg else 0)
        picture = job.look(rows * width)
        if not picture.ranks:
            return False
        self.pictures = [*self.pictures[-_KEPT:], picture]
        if self.options.json:
            print(_as_json(picture), flush=True)
        else:
            self._print(width)
        if self.options.svg:
            _write_svg(self.options.svg, self.pictures)
        return True

    def _print(self, width: int) -> None:
        on_terminal = sys.stdout.isatty()
        if self.options.watch and on_terminal:
            sys.stdout.write("\x1b[H\x1b[J")
        elif len(self.pictures) > 1:
            sys.stdout.write("\n")
        text = heap_text.draw(self.pictures, width, heap_text.is_colourful(sys.stdout))
        sys.stdout.write(text)
        sys.stdout.flush()


def _run(options: argparse.Namespace) -> int:
    show = _Show(options)
    with JobSurvey(options.pid) as job:
        if not show.look(job):
            raise Error("heap: the job has just ended; name a process of one that runs")
        while options.watch:
            time.sleep(options.watch)
            if not show.look(job):
                print("heap: the job has ended", file=sys.stderr)
                break
    return 0


def main(argv: list[str]) -> int:
    """Run the command; return the exit code."""
    options = _parser().parse_args(argv)
    stdout.stand_in()
    try:
        return _run(options)
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    except OSError as reason:
        return stdout.lost("heap", reason)
