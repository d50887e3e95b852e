"""The output of `macprun check`: command lines and places of ranks, before anything starts."""

import os
import shlex
from collections.abc import Mapping
from typing import TextIO

from acp_mpi.job.rendezvous import secret
from acp_mpi.launch.macprun import launchers
from acp_mpi.launch.macprun.meeting import Meeting
from acp_mpi.launch.macprun.nodes import Node
from acp_mpi.launch.macprun.plan import Group, Plan

_MEETING = Meeting("HOST:PORT", b"")  # of this run: known when it starts, and one of them hidden


def show(
    plan: Plan, given: Mapping[str, tuple[Node, ...]], environ: Mapping[str, str], out: TextIO
) -> None:
    """Print the slots and nodes of each group, and its command lines."""
    slot = 0
    made = launchers.starts(plan, given, _MEETING, environ)
    for group in plan.groups:
        slots = f"slot {slot}" if group.size == 1 else f"slots {slot}-{slot + group.size - 1}"
        kind = "MPI" if group.has_mpi else "without MPI"
        where = ", ".join(f"{node.host}:{node.slots}" for node in given[group.name])
        print(f"{group.name}: {slots}, {kind}, on {where or 'hosts of its launcher'}", file=out)
        for start in made:
            if start.group == group.name:
                print(f"  {_line(start, environ)}", file=out)
                if start.script is not None:
                    print(f"    there: {_there(group, start)}", file=out)
        slot += group.size


def _there(group: Group, start: launchers.Start) -> str:
    """Return what the shell on another host becomes; it is given the environment, too."""
    told = {"ACP_SECRET": ""} | {
        name: start.env[name] for name in sorted(start.env) if name.startswith("ACP_")
    }
    told.update((name, start.env[name]) for name in sorted(group.env))
    if start.ranks:
        told["ACP_GROUP_RANK"] = ",".join(map(str, start.ranks))
    folder = _visible(launchers.folder_there(group))
    words = map(_visible, group.command)
    return " ".join((f"cd {folder} &&", "env", *map(_setting, told.items()), *words))


def _setting(variable: tuple[str, str]) -> str:
    name, value = variable
    if name == "ACP_SECRET_FILE":
        value = value.replace(secret.job_id(_MEETING.secret).hex(), "JOB")
    return f"{name}={'(secret)' if name == 'ACP_SECRET' else _visible(value)}"


def _line(start: launchers.Start, environ: Mapping[str, str]) -> str:
    news = (item for item in sorted(start.env.items()) if environ.get(item[0]) != item[1])
    changed = map(_setting, news)
    removed = (f"-u {name}" for name in sorted(environ) if name not in start.env)
    folder = [] if start.directory is None else [f"cd {_visible(start.directory)} &&"]
    command = " ".join(_visible(word) for word in start.command)
    return " ".join((*folder, "env", *removed, *changed, command))


def _visible(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    # as bytes, which need not be text
    escaped = os.fsencode(word).decode("latin-1").encode("unicode_escape").decode()
    return "$'" + escaped.replace("'", "\\'") + "'"
