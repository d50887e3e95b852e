"""The front of a benchmark program: its options, its jobs one after the other, its table."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from harness import Row, environment, print_environment, progress, table, wait_for_quiet
from jobs import Job, JobError, start, take_part


def _parser(about: str, jobs: dict[str, Job]) -> argparse.ArgumentParser:
    names = "\n".join(f"  {job.name:<14}{job.about}" for job in jobs.values())
    parser = argparse.ArgumentParser(
        description=about.splitlines()[0],
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


def main(about: str, every: Sequence[Job]) -> int:
    """Run the jobs, print the table and return the exit status: 1 if a job failed."""
    jobs = {job.name: job for job in every}
    parser = _parser(about, jobs)
    options = parser.parse_args()
    if options.job:
        take_part(jobs[options.job], options.quick, options.result)
        return 0
    if {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"} & os.environ.keys():
        parser.error("start me without mpiexec: I start my own jobs")
    for name in options.only:
        if not any(job.name.startswith(name) for job in every):
            parser.error(f"--only {name}: no job has a name that begins so; --help lists them")
    chosen = [job for job in every if job.name.startswith(tuple(options.only or [""]))]

    surroundings = environment()
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
            rows += start(job, os.path.abspath(sys.argv[0]), options.quick)
        except JobError as reason:
            failures.append(str(reason))
            progress(f"FAILED {reason}")
    print_environment(surroundings)
    print(table(rows))
    missed = [row.what for row in rows if row.reached is False]
    print(f"\n{len(rows)} rows, {len(missed)} below their goal, {len(failures)} jobs failed")
    if disturbed:
        print("disturbed by other programs: " + ", ".join(disturbed))
    if options.json:
        record = {
            "environment": surroundings,
            "rows": [row.as_dict() for row in rows],
            "failures": failures,
            "disturbed": disturbed,
        }
        options.json.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return 1 if failures else 0
