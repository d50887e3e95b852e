"""Hints to an MPI about where it runs, by variables that the user has not set.

The hint holds for one group: groups that this one starts may run elsewhere. So the group is told
which of its variables are hints, and does not hand them on. A list of what an MPI is to leave out,
`^a,b`, has those of the user first and ours behind them; any other setting of the user stays as it
is. Settings are variables, and lines of files of parameters, which a variable would override.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAMED = "ACP_HINTS"  # NAME=value of a variable that is ours, NAME+=,tcp of what is ours at its end

# UCX patches the C library in each process, to notice memory that goes back to the system. Only
# networks with registered memory need that, and it is a quarter of MPI's start.
ONE_HOST = {"UCX_MEM_MMAP_HOOK_MODE": "none"}
# Both MPIs listen for TCP on every interface, and UCX reads and writes memory for any peer. Without
# ranks elsewhere this is not needed. What remains, shared memory and devices, is the same as
# before.
NO_NETWORK = {"UCX_TLS": "^tcp", "OMPI_MCA_btl": "^tcp"}
# Open MPI's processes spin while they wait, and yield only if they know that cores are scarce. They
# do not: the slots they are given are as many as processes.
CROWDED = {"OMPI_MCA_mpi_yield_when_idle": "1"}


def with_hints(
    env: Mapping[str, str], hints: Mapping[str, str], files: Mapping[str, str]
) -> dict[str, str]:
    """Return an environment with the hints that contradict nothing in it, or in the `files`."""
    new, named = dict(env), []
    for name, value in hints.items():
        said = env.get(name, files.get(name))
        if said is None:
            new[name] = value
        elif said[:1] == value[:1] == "^" and value[1:] not in said[1:].split(","):
            new[name] = f"{said},{value[1:]}"
        else:
            continue
        named.append(f"{name}+=,{value[1:]}" if name in env else f"{name}={new[name]}")
    return {**new, _NAMED: " ".join(named)} if named else new


def without_hints(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the hints that were given to this process."""
    kept = {name: value for name, value in env.items() if name != _NAMED}
    for word in env.get(_NAMED, "").split():
        name, _, value = word.partition("=")
        if not name.endswith("+"):
            if kept.get(name) == value:
                del kept[name]
        elif kept.get(name[:-1], "").endswith(value):
            kept[name[:-1]] = kept[name[:-1]].removesuffix(value)
    return kept


def is_hint(name: str, env: Mapping[str, str]) -> bool:
    """Return whether a variable of this process is, or ends with, a hint that was given to it."""
    names = {word.partition("=")[0].removesuffix("+") for word in env.get(_NAMED, "").split()}
    return name in names and without_hints(env).get(name) != env.get(name)


def parameters(launcher: str | None, env: Mapping[str, str]) -> dict[str, str]:
    """Return what files of parameters say, as the variables that would override them.

    Files of the user, and of installations in which `launcher` may be.
    """
    found: dict[str, str] = {}
    for path, prefix in _files(launcher, env):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                lines = [line.partition("#")[0].partition("=") for line in file]
        except OSError:  # most are not there
            continue
        for name, _, value in lines:
            if text := "".join(value.split()):
                found.setdefault(prefix + name.strip(), text)
    return found


def _files(launcher: str | None, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield paths and what a variable has in front of a name in the file; first what counts."""
    import glob

    home = env.get("HOME", "/")
    for folder in (home, "/etc/ucx", env.get("UCX_CONFIG_DIR", "/")):
        yield os.path.join(folder, "ucx.conf"), ""
    prefixes = [env.get("OPAL_PREFIX", "/")]
    if launcher is not None:
        prefixes.append(os.path.dirname(os.path.dirname(os.path.realpath(launcher))))
    for name, prefix in (("openmpi", "OMPI_MCA_"), ("prte", "PRTE_MCA_")):
        file = f"{name}-mca-params.conf"
        paths = [os.path.join(home, f".{name}", "mca-params.conf")]
        paths += [os.path.join(place, "etc", file) for place in prefixes]
        paths += glob.glob(f"/etc/{name}*/{file}")  # of distributions
        if all_of_them := env.get(f"{prefix}mca_base_param_files"):
            paths = all_of_them.split(":")
        yield from ((path, prefix) for path in paths)
