"""Measure the basic layer against MPI, bare system calls and NumPy, each with its goal.

    python benchmarks/basic_layer.py [--quick] [--only calls --only barrier] [--json FILE]

Start it without mpiexec: it starts its own jobs, each with the ranks that it needs and one after
the other, with the mpiexec beside this Python, and prints one table. Both sides of a row run in
the same job in alternating slices. A slow figure is no error; a job that fails is.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from harness import Row, environment, progress, table, wait_for_quiet
from jobs import Job, JobError, start, take_part

CORES = len(os.sched_getaffinity(0))

# In the order of the table. A module is imported in its own job only, because importing mpi4py.MPI
# starts MPI.
JOBS = [
    Job("calls", "8-byte operations on global memory, one by one", 2, "rows.calls"),
    Job("engine", "8-byte operations from C through engine.h", 0, "rows.engine"),
    Job("many", "copy_many and fetch_add8_many", 2, "rows.many"),
    Job("third-party", "copies between two other ranks", 3, "rows.third_party"),
    Job("registered", "NumPy memory of another rank: put, get, atomics", 2, "rows.registered"),
    Job("target", "the same calls while the target does something else", 2, "rows.target"),
    Job("barrier-2", "sync and barrier of 2 ranks", 2, "rows.barriers"),
    Job("barrier-crowd", "the same with 4 ranks a core", 4 * CORES, "rows.barriers"),
    Job("chain", "100 dependent additions by link", 2, "rows.chain", {"ACP_PATH": "link"}),
    Job("idle", "processor time of a job that does nothing", 4, "rows.idle"),
    *(
        Job(f"memory-{ranks}", f"memory of our own at {ranks} ranks", ranks, "rows.memory")
        for ranks in (2, 8, 32)
    ),
    Job(
        "memory-link",
        "memory of our own at 8 ranks by link",
        8,
        "rows.memory",
        {"ACP_PATH": "link"},
    ),
    Job("loss", "time until a killed rank is noticed", 0, "rows.loss"),
]


def _parser(jobs: dict[str, Job]) -> argparse.ArgumentParser:
    names = "\n".join(f"  {job.name:<14}{job.about}" for job in jobs.values())
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog=f"jobs:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="shorter slices and waits")
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help="only jobs whose name begins so; may be repeated",
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all figures there")
    parser.add_argument("--job", choices=list(jobs), help=argparse.SUPPRESS)
    parser.add_argument("--result", help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the jobs, print the table and return the exit status: 1 if a job failed."""
    jobs = {job.name: job for job in JOBS}
    parser = _parser(jobs)
    options = parser.parse_args(argv)
    if options.job:
        take_part(jobs[options.job], options.quick, options.result)
        return 0
    if {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"} & os.environ.keys():
        parser.error("start me without mpiexec: I start my own jobs")
    chosen = [
        job
        for job in jobs.values()
        if not options.only or any(job.name.startswith(name) for name in options.only)
    ]
    if not chosen:
        parser.error("no job of that name; --help lists them")

    about = environment()
    rows: list[Row] = []
    failures: list[str] = []
    disturbed: list[str] = []
    for job in chosen:
        others = wait_for_quiet()
        progress(f"{job.name}: {job.about}")
        if others > 0.05:
            disturbed.append(job.name)
            progress(f"other programs use {others:.0%} of the cores")
        try:
            rows += start(job, __file__, options.quick)
        except JobError as reason:
            failures.append(str(reason))
            progress(f"FAILED {reason}")
    print("\n".join(f"{name}: {value}" for name, value in about.items()), end="\n\n")
    print(table(rows))
    missed = [row.what for row in rows if row.reached is False]
    print(f"\n{len(rows)} rows, {len(missed)} below their goal, {len(failures)} jobs failed")
    if disturbed:
        print("disturbed by other programs: " + ", ".join(disturbed))
    if options.json:
        record = {
            "environment": about,
            "rows": [row.as_dict() for row in rows],
            "failures": failures,
            "disturbed": disturbed,
        }
        options.json.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
