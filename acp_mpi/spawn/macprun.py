"""`macprun`: start several programs, with MPI and without, as one job."""

import argparse
import os
import sys
from collections.abc import Sequence

from acp_mpi.errors import Error
from acp_mpi.spawn import colon, nodes
from acp_mpi.spawn.plan import Plan, UsageError

_SUBCOMMANDS = ("check", "serve", "status", "kill")


def main() -> int:
    """Run the command line of this process; return the exit code: 2 if it is none."""
    return run(sys.argv[1:])


def run(argv: Sequence[str]) -> int:
    """Run a command line; return the exit code of the job, 1 after an error, 2 if it is none."""
    words = list(argv)
    command = words.pop(0) if words and words[0] in _SUBCOMMANDS else ""
    try:
        if command == "serve":
            from acp_mpi.spawn import serve

            return serve.main(words, os.environ)
        if command in ("status", "kill"):
            from acp_mpi.spawn import status

            return status.main(command, words)
        options = colon.parse(words)
        plan = colon.plan(options)
        return _job(plan, options, only_show=options.dry_run or command == "check")
    except UsageError as reason:
        print(f"macprun: {reason}", file=sys.stderr)
        return 2
    except (Error, OSError) as reason:
        print(f"macprun: {reason}", file=sys.stderr)
        return 1


def _job(plan: Plan, options: argparse.Namespace, only_show: bool) -> int:
    given = nodes.assign(plan, os.environ)
    if only_show:
        from acp_mpi.spawn import preview

        preview.show(plan, given, os.environ, sys.stdout)
        return 0
    from acp_mpi.spawn.guard import guarded
    from acp_mpi.spawn.supervisor import Supervisor, listening

    supervisor = Supervisor(plan, given, options.listen or listening(given))
    return guarded(lambda keeper, lifeline: supervisor.run(keeper, lifeline, os.environ))


if __name__ == "__main__":
    sys.exit(main())
