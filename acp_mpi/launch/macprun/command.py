"""`macprun`: start several programs, with MPI and without, as one job."""

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

from acp_mpi.errors import Error
from acp_mpi.launch.macprun import colon, nodes
from acp_mpi.launch.macprun.plan import UsageError


def main() -> NoReturn:
    """Run the command line of this process and leave with what `run` returns."""
    _open_what_is_closed()
    try:
        status = run(sys.argv[1:])
    except KeyboardInterrupt:  # nothing has been started: from then on it is passed on
        status = 130
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # the reader has gone
            stream.flush()
    os._exit(status)  # to take the interpreter apart would be a fifth of macprun's time


def _open_what_is_closed() -> None:
    """Make standard input and output of those that are missing: a pipe would be taken for them."""
    while (fd := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(fd, True)
    os.close(fd)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def run(argv: Sequence[str]) -> int:
    """Run a command line; return the exit code of the job, 1 after an error, 2 if it is none."""
    words = list(argv)
    command = words.pop(0) if words and words[0] in colon.COMMANDS else ""
    if command == "serve":
        from acp_mpi.launch.macprun import serve

        return serve.main(words, os.environ)
    if command == "secret":
        from acp_mpi.launch.macprun import new_secret

        return new_secret.main(words)
    if command in ("status", "kill"):
        return _reported(partial(_ask, command, words))
    return _reported(partial(_start, words, command == "check"))


def _reported(work: Callable[[], int]) -> int:
    """Return what `work` returns, or say on stderr why it could not be done."""
    try:
        return work()
    except BrokenPipeError:  # the reader of its output has gone, and knows
        return 1
    except (Error, OSError) as reason:
        print(f"macprun: {reason}", file=sys.stderr)
        return 2 if isinstance(reason, UsageError) else 1


def _ask(command: str, words: Sequence[str]) -> int:
    from acp_mpi.launch.macprun import status

    return status.main(command, words)


def _start(words: Sequence[str], only_show: bool) -> int:
    options = colon.parse(words)
    plan = colon.plan(options)
    given = nodes.assign(plan, os.environ)
    if plan.delegates:
        from acp_mpi.launch.macprun import delegates

        plan, given = delegates.beside(plan, given)
    if only_show or options.dry_run:
        from acp_mpi.launch.macprun import preview

        preview.show(plan, given, os.environ, sys.stdout)
        return 0
    from acp_mpi.launch.macprun.guard import guarded
    from acp_mpi.launch.macprun.supervisor import Supervisor

    supervisor = Supervisor(plan, given, options.listen or nodes.listening(given))

    def work(keeper: int, lifeline: int) -> int:
        return _reported(lambda: supervisor.run(keeper, lifeline, os.environ))

    return guarded(work)
