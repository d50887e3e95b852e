"""The nodes of a job, from a batch system or a file, and which group gets which."""

import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from acp_mpi.errors import Error
from acp_mpi.job.rendezvous.address import address_towards, own_address, said_of
from acp_mpi.launch.macprun.plan import Plan, UsageError

HERE = "localhost"
# Variables in which Hydra, that of Intel too, looks for hosts without a list of them.
_HOSTS_OF_HYDRA = (
    "HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE", "PBS_NODEFILE", "LSB_HOSTS", "LSB_MCPU_HOSTS",
    "LSB_DJOB_HOSTFILE", "PE_HOSTFILE", "COBALT_NODEFILE", "LOADL_HOSTFILE",
)  # fmt: skip


class Node(NamedTuple):
    """A host, and how many processes are to run there."""

    host: str
    slots: int


def assign(plan: Plan, environ: Mapping[str, str]) -> dict[str, tuple[Node, ...]]:
    """Return the nodes of each group, with as many slots as it has processes.

    A group takes its own `hosts`; the others divide the nodes of the nodefile or of the batch
    system in their order, or stay on this host where there is neither. A group with hosts in its
    launcher line gets none from here. Raises Error if the slots do not suffice.
    """
    source, nodes = _available(plan, environ)
    places = _places(nodes)
    takers = [group for group in plan.groups if not group.hosts and not group.finds_hosts]
    wanted = sum(group.size for group in takers)
    slots = sum(node.slots for node in nodes)
    if nodes and wanted > slots:
        raise Error(
            f"{wanted} processes need {wanted} slots, and {source} has {slots}: ask for more, or "
            "name hosts for some groups"
        )
    given: dict[str, tuple[Node, ...]] = {}
    for group in plan.groups:
        if group.finds_hosts:
            given[group.name] = ()
        elif group.hosts:
            own = [parse(host, f"hosts of group {group.name!r}") for host in group.hosts]
            given[group.name] = dealt(own, group.size)
        elif nodes:
            given[group.name] = _packed(itertools.islice(places, group.size))
        else:
            given[group.name] = (Node(HERE, group.size),)
    return given


def shares_a_host(group: str, given: Mapping[str, tuple[Node, ...]]) -> bool:
    """Return whether processes of another group run on a host of this one, as far as is known."""
    others = [nodes for name, nodes in given.items() if name != group]
    if not given[group] or not all(others):
        return bool(others)
    mine = {canonical(node.host) for node in given[group]}
    return any(canonical(node.host) in mine for nodes in others for node in nodes)


def canonical(host: str) -> str:
    """Return one name of a host: this one has several."""
    # Slurm may know a node by another name than that of its host.
    named = (os.uname().nodename, os.environ.get("SLURMD_NODENAME", HERE))
    here = {name.partition(".")[0] for name in named}
    return HERE if host in (HERE, "127.0.0.1") or host.partition(".")[0] in here else host


def is_here(host: str) -> bool:
    """Return whether a host is this one."""
    return canonical(host) == HERE


def finds_others(environ: Mapping[str, str]) -> bool:
    """Return whether Hydra, without a list of hosts, might start processes on others than this."""
    if named := environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST"):
        return not all(map(is_here, _expand(named)))
    return any(name in environ for name in _HOSTS_OF_HYDRA)


def allocated(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the nodes on which srun can start processes: of the allocation that this is in."""
    named = environ.get("SLURM_JOB_NODELIST")
    if not named or not shutil.which("srun", path=environ.get("PATH")):
        return frozenset()
    return frozenset(_expand(named))


def number_here(given: Iterable[Iterable[Node]]) -> int:
    """Return how many processes run on this host, as far as is known."""
    return sum(node.slots for nodes in given for node in nodes if is_here(node.host))


def dealt(nodes: Sequence[Node], size: int) -> tuple[Node, ...]:
    """Spread processes over hosts that were named: to their slots if these suffice, else evenly."""
    places = list(itertools.islice(_places(nodes), size))
    while len(places) < size:
        places += [node.host for node in nodes][: size - len(places)]
    order = list(dict.fromkeys(node.host for node in nodes))
    return _packed(sorted(places, key=order.index))


def spread(nodes: Iterable[Node]) -> Iterator[str]:
    """Yield the host of each process of a group, in the order of its ranks."""
    return _places(nodes)


def read_nodefile(path: str) -> list[Node]:
    """Return the nodes in a file of lines "host", "host:4" or "host slots=4".

    A host that stands there n times has n slots, as in the file of PBS.
    """
    nodes: dict[str, int] = {}
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.partition("#")[0].split() for line in file]
    except (OSError, UnicodeDecodeError) as reason:
        why = reason.strerror if isinstance(reason, OSError) else reason
        raise Error(f"the nodefile {path!r} cannot be read: {why}") from None
    for number, entry in enumerate(lines, 1):
        if not entry:
            continue
        where = f"{path}, line {number}"
        node = parse(entry[0], where)
        slots = node.slots
        for word in entry[1:]:
            key, _, value = word.partition("=")
            if key != "slots":
                raise UsageError(
                    f"{where}: {word!r}: expected nothing, or slots=N, after the host {node.host}"
                )
            slots = parse(f"{node.host}:{value}", where).slots
        nodes[node.host] = nodes.get(node.host, 0) + slots
    if not nodes:
        raise Error(f"the nodefile {path!r} names no host: write one a line, as node1:4")
    return [Node(host, slots) for host, slots in nodes.items()]


def parse(text: str, where: str) -> Node:
    """Return the node in "host" or "host:slots"."""
    host, colon, slots = text.partition(":")
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", host) and (not colon or slots.isdigit()):
        number = int(slots) if colon else 1
        if number > 0:
            return Node(host, number)
    raise UsageError(f"{where}: {text!r}: expected HOST or HOST:SLOTS")


def listening(given: Mapping[str, tuple[Node, ...]]) -> str:
    """Return where to listen: on this host's own loopback unless a group may be elsewhere.

    Raises Error if no address leads to the first host that is.
    """
    where = [node.host for group in given.values() for node in group]
    if all(given.values()) and all(map(is_here, where)):
        return "127.0.0.1:0"
    away = next((name for name in where if not is_here(name)), None)
    if away is None:  # a launcher knows where
        return f"{own_address()}:0"
    try:
        return f"{address_towards(_address_in_slurm(away) or away)}:0"
    except OSError as reason:
        raise Error(
            f"no address of this host is known by which {away!r} reaches it: "
            f"{said_of(away, reason)}; correct its name, or name an address with --listen HOST:PORT"
        ) from None


def _address_in_slurm(node: str) -> str | None:
    """Return where Slurm reaches a node of this allocation; None: it is not, or nobody knows."""
    if node not in allocated(os.environ):
        return None
    import subprocess  # takes time to load

    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        line = ["scontrol", "--oneliner", "show", "node", node]
        said = subprocess.run(line, capture_output=True, text=True, timeout=20)
        if found := re.search(r" NodeAddr=(\S+)", said.stdout):
            return found[1]
    return None


def slurm_nodes(environ: Mapping[str, str]) -> list[Node]:
    """Return the nodes of a Slurm allocation: SLURM_JOB_NODELIST and its counts."""
    hosts = _expand(environ["SLURM_JOB_NODELIST"])
    name = "SLURM_TASKS_PER_NODE"
    if name not in environ or "SLURM_NTASKS" not in environ:  # then it counts nodes, not tasks
        name = "SLURM_JOB_CPUS_PER_NODE"
    counts = _counts(environ.get(name, "1"))
    if len(counts) == 1:
        counts *= len(hosts)
    if len(counts) != len(hosts):
        raise Error(
            f"{name}={environ[name]} counts {len(counts)} nodes, and SLURM_JOB_NODELIST="
            f"{environ['SLURM_JOB_NODELIST']} names {len(hosts)}; give a -nodefile"
        )
    return [Node(host, slots) for host, slots in zip(hosts, counts, strict=True)]


def _available(plan: Plan, environ: Mapping[str, str]) -> tuple[str, list[Node]]:
    if plan.nodefile:
        return plan.nodefile, read_nodefile(plan.nodefile)
    if environ.get("SLURM_JOB_NODELIST"):
        return "the Slurm allocation", slurm_nodes(environ)
    if environ.get("PBS_NODEFILE"):
        return environ["PBS_NODEFILE"], read_nodefile(environ["PBS_NODEFILE"])
    return "", []


def _places(nodes: Iterable[Node]) -> Iterator[str]:
    return (node.host for node in nodes for _ in range(node.slots))


def _packed(places: Iterable[str]) -> tuple[Node, ...]:
    return tuple(Node(host, len(list(same))) for host, same in itertools.groupby(places))


def _expand(text: str) -> list[str]:
    """Return the hosts in Slurm's notation: n[1-3,07],login."""
    hosts: list[str] = []
    for item in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        prefixes = [""]
        for plain, ranges in re.findall(r"([^\[\]]+)|\[([^\]]*)\]", item):
            parts = [plain] if plain else _numbers(ranges)
            prefixes = [prefix + part for prefix in prefixes for part in parts]
        hosts += prefixes
    return hosts


def _numbers(ranges: str) -> list[str]:
    numbers = []
    for span in ranges.split(","):
        first, _, last = span.partition("-")
        for number in range(int(first), int(last or first) + 1):
            numbers.append(f"{number:0{len(first)}}")
    return numbers


def _counts(text: str) -> list[int]:
    """Return the numbers in Slurm's notation: 2(x3),1."""
    counts = []
    for slots, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        counts += [int(slots)] * int(times or 1)
    return counts
