"""The command lines that start groups: Hydra's, Open MPI's, Slurm's, directly, and over ssh."""

import itertools
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from acp_mpi.errors import Error
from acp_mpi.launch.macprun import environment, hints, leavings, nodes, secret_file
from acp_mpi.launch.macprun.meeting import Meeting
from acp_mpi.launch.macprun.nodes import Node
from acp_mpi.launch.macprun.plan import Group, Plan


class Kind(Enum):
    """The MPI that the launcher is of."""

    HYDRA = "Hydra"
    PRRTE = "PRRTE"
    ORTE = "ORTE"
    """Of Open MPI before 5."""
    SRUN = "srun"
    OTHER = "unknown"


class Start(NamedTuple):
    """One process that macprun starts itself: a launcher, or a rank without MPI."""

    group: str
    rank: int | None
    """Of the group; None: a launcher, which starts all its ranks."""
    host: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    directory: str | None
    script: str | None = None
    """The standard input of `command`; what follows are signals."""
    marks: re.Pattern[bytes] | None = None
    """The mark of a launcher before the output of a rank; its group 1 is the rank."""
    ranks: tuple[int, ...] = ()
    """Those that `command` starts on `host`, and of whose ends it tells, if there are any."""


SSH = ("ssh",)
# A control character and a word that no program prints by chance.
_HYDRA_MARK = "\x1eacp.%r\x1f"
MARKS = {
    Kind.HYDRA: re.compile(rb"\x1eacp\.(\d+)\x1f"),
    Kind.PRRTE: re.compile(rb"\[\d+,(\d+)\]<std(?:out|err)>: ?"),
    Kind.ORTE: re.compile(rb"\[\d+,(\d+)\]<std(?:out|err)>:"),
    Kind.SRUN: re.compile(rb"^ *(\d+): "),
}
# Even with this option Hydra kills a group of which it sees a rank killed by a signal, and it tells
# ranks of a loss by one that MPI may not expect yet. A shell that waits for each rank turns the
# signal into an exit code.
_OUTLIVE = "disable-auto-cleanup"
_SHELTER = ("sh", "-c", 'trap "" USR1; "$@"; exit $?', "sh")
# The user's own word on which process goes where; a second one would be a conflict. Whether hosts
# may have more processes than slots is not said: each has its slots, and users say it in many ways.
_MAPS = re.compile(
    r"--?(map-?by|by(node|slot|core|socket)|n?per(node|socket)|N|ppr|rf|rankfile|cpus-per-\w+)(=|$)"
)
_BINDING = {
    Kind.PRRTE: "PRTE_MCA_hwloc_default_binding_policy",
    Kind.ORTE: "OMPI_MCA_hwloc_base_binding_policy",
}


def starts(
    plan: Plan,
    given: Mapping[str, tuple[Node, ...]],
    meeting: Meeting,
    environ: Mapping[str, str],
    *,
    marked: bool = True,
    single: bool = False,
    present: int = 0,
) -> list[Start]:
    """Return what to start, in the order of the groups. Error where there is no launcher.

    `marked`: launchers say of which rank each line of output is. `single`: a process with MPI that
    is alone in its group, on this host, and named no launcher needs none. `present`: processes that
    this host has of the job already.
    """
    base = environment.inherited(environ)
    programs = {group.name: given[group.name] for group in plan.groups if not group.is_service}
    crowd = present + nodes.number_here(programs.values())
    crowded = crowd > len(os.sched_getaffinity(0))
    made: list[Start] = []
    for group in plan.groups:
        where, job = given[group.name], _of_job(plan, group, meeting)
        env = {**base, **group.env, **job}
        kind, alone = None, single and group.size == 1 and not group.launcher
        here = bool(where) and all(nodes.is_here(node.host) for node in where)
        if group.has_mpi:
            launcher = _launcher_of(group, env, alone)
            env = {**base, **environment.places(launcher, environ), **group.env, **job}
            if not alone:
                kind = kind_of(launcher or group.launcher[0], env)
            told, files = _hints(where, here, crowded, kind, env), hints.parameters(launcher, env)
            if kind is Kind.ORTE and here:  # elsewhere nobody would remove it
                told |= leavings.session_folder(env)
            env = hints.with_hints(env, told, files)
        if kind is None:
            made += _alone(plan, group, where, env)
        else:
            line = group.launcher or (str(launcher),)
            if kind is Kind.SRUN or not here:
                env["ACP_SECRET_FILE"] = secret_file.path_of(meeting, environ)
                del env["ACP_SECRET"]  # all users may read what a launcher takes to other hosts
            shared = nodes.shares_a_host(group.name, programs)
            if shared and kind in _BINDING and _BINDING[kind] not in files:
                env = {_BINDING[kind]: "none", **env}
            elif shared and kind is Kind.HYDRA:
                env = {"I_MPI_PIN": "off", **env}  # of Intel's, which MPICH does not know
            made.append(_by_launcher(group, line, kind, where, env, shared, marked))
    return made


def kind_of(launcher: str, environ: Mapping[str, str]) -> Kind:
    """Return the MPI of a launcher: by its name, by its neighbours, else by asking it."""
    path = shutil.which(launcher, path=environ.get("PATH"))
    if path is None:
        raise Error(
            f"there is no launcher {launcher!r} in PATH: name one as the launcher of the group"
        )
    path = os.path.realpath(path)
    name, folder = os.path.basename(path), os.path.dirname(path)
    if name == "srun":
        return Kind.SRUN
    if "hydra" in name:
        return Kind.HYDRA
    if "orte" in name:
        return Kind.ORTE
    if re.search("prte|openmpi", name):
        return Kind.PRRTE
    beside = [
        kind
        for kind, neighbour in (
            (Kind.HYDRA, "hydra_pmi_proxy"),
            (Kind.PRRTE, "prterun"),
            (Kind.ORTE, "orterun"),
        )
        if os.path.exists(os.path.join(folder, neighbour))
    ]
    return beside[0] if len(beside) == 1 else _ask(path, environ)


def default_launcher(group: Group, environ: Mapping[str, str]) -> str:
    """Return the launcher of a group that names none.

    The one of the virtual environment of its program, else the first in PATH, else the one
    beside the Python of macprun.
    """
    path = environ.get("PATH", os.defpath)
    program = shutil.which(group.command[0], path=path)
    folders = [path, os.path.dirname(sys.executable)]
    if program and os.path.exists(os.path.join(os.path.dirname(program), "..", "pyvenv.cfg")):
        folders.insert(0, os.path.dirname(program))
    for folder in folders:
        for name in ("mpiexec", "mpirun", "srun"):
            if found := shutil.which(name, path=folder):
                return found
    raise Error(
        f"group {group.name!r} has MPI, and there is no mpiexec, mpirun or srun in PATH: name "
        "one as the launcher of the group (--launcher)"
    )


def _ask(path: str, environ: Mapping[str, str]) -> Kind:
    import subprocess  # takes time to load

    try:
        answer = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=20,
            stdin=subprocess.DEVNULL,
            env=environ,
        )
    except (OSError, subprocess.TimeoutExpired):
        return Kind.OTHER
    if "HYDRA" in answer.stdout:
        return Kind.HYDRA
    if re.search(r"OpenRTE|Open MPI\) [1-4]\.", answer.stdout):
        return Kind.ORTE
    return Kind.PRRTE if re.search("Open MPI|prterun|PRRTE", answer.stdout) else Kind.OTHER


def _of_job(plan: Plan, group: Group, meeting: Meeting) -> dict[str, str]:
    variables = {
        "ACP_RENDEZVOUS": meeting.address,
        "ACP_SECRET": meeting.secret.hex(),
        "ACP_GROUP": group.name,
        "ACP_GROUP_SIZE": str(group.size),
        "ACP_MPI": str(int(group.has_mpi)),
    }
    if plan.starter_size is not None:
        variables["ACP_STARTER_SIZE"] = plan.starter_size
    return variables


def _alone(
    plan: Plan, group: Group, where: Sequence[Node], env: Mapping[str, str]
) -> Iterator[Start]:
    """Yield what starts the ranks of a group without MPI; each host has its own in sequence."""
    by_srun = () if plan.ssh else nodes.allocated(env)
    places = enumerate(nodes.spread(where))
    for host, ranks in itertools.groupby(places, lambda place: place[1]):
        own = {rank: {**env, "ACP_GROUP_RANK": str(rank)} for rank, _ in ranks}
        if nodes.is_here(host):
            for rank, given in own.items():
                yield Start(group.name, rank, host, group.command, given, group.directory)
        elif host in by_srun:
            yield _on_node(group, tuple(own), host, env)
        else:
            for rank, given in own.items():
                script = _script(group, given)
                del given["ACP_SECRET"]  # the remote shell reads it
                line = (*(plan.ssh or SSH), host, "sh")
                yield Start(group.name, rank, host, line, given, None, script)


def _on_node(group: Group, ranks: tuple[int, ...], host: str, env: Mapping[str, str]) -> Start:
    """Return what has srun start ranks on a node: by one process, which has all its processors."""
    from acp_mpi.launch.macprun import on_node

    told = {
        name: value for name, value in env.items() if name.startswith("ACP_") or name in group.env
    }
    script = on_node.request(ranks, group.command, folder_there(group), told)
    kept = {name: value for name, value in env.items() if name != "ACP_SECRET"}
    srun = ("srun", "--overlap", "--mpi=none", "--export=ALL", "--chdir=/", "--nodes=1",
            "--ntasks=1", "--ntasks-per-node=1", f"--nodelist={host}")  # fmt: skip
    command = (*srun, sys.executable, "-P", "-m", on_node.__name__)
    return Start(group.name, None, host, command, kept, None, script, on_node.MARKS, ranks)


def folder_there(group: Group) -> str:
    """Return where the processes of a group run on other hosts."""
    return os.path.abspath(group.directory or ".")


def _script(group: Group, env: Mapping[str, str]) -> str:
    """Return what a shell on another host reads: the secret is in no command line there.

    Its input ends with the connection, however that comes, and the program ends with it. Until
    then each line of it is a signal for the program. What that leaves behind would keep the
    connection open, and is out of reach when that is gone, so it ends with the program.
    """
    exports = [
        f"export {name}={shlex.quote(value)}"
        for name, value in environment.portable(env, group.env).items()
    ]
    lines = [
        "{",
        *exports,
        f"cd {shlex.quote(folder_there(group))} || exit 127",
        "exec 3<&0 </dev/null",
        f"setsid {shlex.join(group.command)} 3<&- & program=$!",
        "( while read -r signal <&3; do kill -s $signal -- -$program; done; "
        "kill -s TERM -- -$program; sleep 1; kill -s KILL -- -$program ) "
        ">/dev/null 2>&1 & guard=$!",
        "wait $program; status=$?",
        "kill $guard",
        "kill -s KILL -- -$program 2>/dev/null",
        "exit $status",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _launcher_of(group: Group, env: Mapping[str, str], alone: bool) -> str | None:
    """Return the path of the launcher of a group; None: there is none, which one `alone` allows."""
    if group.launcher:
        return shutil.which(group.launcher[0], path=env.get("PATH"))
    try:
        return default_launcher(group, env)
    except Error:
        if alone:
            return None
        raise


def _hints(
    where: Sequence[Node], here: bool, crowded: bool, kind: Kind | None, env: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that describe a group's nodes to its MPI; none for unknown nodes."""
    found = dict(hints.CROWDED) if crowded else {}
    if here:
        found |= hints.ONE_HOST
        told = kind in (None, *_BINDING) or not _only_here(where)  # no launcher, or it has hosts
        if told or (kind is Kind.HYDRA and not nodes.finds_others(env)):
            found |= hints.NO_NETWORK
    return found


def _by_launcher(
    group: Group,
    line: Sequence[str],
    kind: Kind,
    where: Sequence[Node],
    env: dict[str, str],
    shares_host: bool,
    marked: bool,
) -> Start:
    marked &= not any(re.match("--?(prepend|tag|output|label|l$)", word) for word in line[1:])
    if "SLURM_JOB_ID" in env:  # a launcher that starts its own by srun would wait for free nodes
        env = {**env, "SLURM_OVERLAP": "1"}
        if kind is Kind.HYDRA:  # ranks would take themselves for those of PMIx, if that is usual
            env.setdefault("SLURM_MPI_TYPE", "none")
    if kind is Kind.HYDRA:
        options = _hydra(where, marked)
    elif kind in _BINDING:
        tag = ("--output", "tag") if kind is Kind.PRRTE else ("--tag-output",)
        options = _open_mpi(group, where, env, tag if marked else ())
    elif kind is Kind.SRUN:
        options = _srun(where, marked, shares_host)
    else:
        options = []
    outlives = kind is Kind.HYDRA and any(word.lstrip("-") == _OUTLIVE for word in line[1:])
    program = (*_SHELTER, *group.command) if outlives else group.command
    # Hydra wants what concerns all processes first, and the user's may not.
    command = (line[0], *options, *line[1:], "-n", str(group.size), *program)
    marks = MARKS.get(kind) if marked else None
    return Start(group.name, None, nodes.HERE, command, env, group.directory, None, marks)


def _hydra(where: Sequence[Node], marked: bool) -> list[str]:
    options = ["-prepend-pattern", _HYDRA_MARK] if marked else []
    if where and not _only_here(where):
        options += ["-hosts", _with_slots(where)]
    return options


def _open_mpi(
    group: Group, where: Sequence[Node], env: Mapping[str, str], tag: Iterable[str]
) -> list[str]:
    options = [*tag]
    if where:  # on this host, too: as many slots as processes, whatever the number of cores
        options += ["--host", _with_slots(where)]
        if not any(map(_MAPS.match, group.launcher[1:])):
            # In an allocation that is full each host has the slots all the same.
            options += ["--map-by", "slot:oversubscribe" if "SLURM_JOB_ID" in env else "slot"]
    if where and _only_here(where):
        return options
    # Processes on other hosts inherit nothing but what is named.
    names = sorted(environment.portable(env, group.env))
    return options + [word for name in names for word in ("-x", name)]


def _srun(where: Sequence[Node], marked: bool, shares_host: bool) -> list[str]:
    # The processes of a job with --export=NONE would not get the address of the rendezvous.
    options = ["--overlap", "--exact", "--export=ALL"]
    if marked:
        options.append("--label")
    if shares_host:
        options.append("--cpu-bind=none")
    if not where or _only_here(where):
        return options
    if len({node.slots for node in where}) == 1:
        hosts = ",".join(node.host for node in where)
        per_node = f"--ntasks-per-node={where[0].slots}"
        return [*options, f"--nodes={len(where)}", per_node, f"--nodelist={hosts}"]
    places = ",".join(nodes.spread(where))
    return [*options, "--distribution=arbitrary", f"--nodelist={places}"]


def _only_here(where: Iterable[Node]) -> bool:
    return all(node.host == nodes.HERE for node in where)


def _with_slots(where: Iterable[Node]) -> str:
    return ",".join(f"{node.host}:{node.slots}" for node in where)
