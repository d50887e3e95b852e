"""What our Spawn has started beside the children, and what that takes: for `memory_process.py`."""

import os


def write(path: str) -> None:
    """Write to a file, for each kind of process, "kind number PSS USS": in bytes, of all of them.

    The starter is a child of the calling process; those that run groups, and the registry, are
    the starter's.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    for child in _children("self"):
        if b"groups.fork_server" in _command(child):
            found["starter"] = [_pages(child)]
            for made in _children(child):
                kind = _command(made).removeprefix(b"acp_mpi ").rstrip(b"\0").decode()
                found.setdefault(kind, []).append(_pages(made))
    with open(path, "w") as file:
        for kind, each in found.items():
            pss, uss = (sum(size) for size in zip(*each, strict=True))
            file.write(f"{kind} {len(each)} {pss} {uss}\n")


def _children(process: str) -> list[str]:
    found = []
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/children") as file:
            found += file.read().split()
    return found


def _command(process: str) -> bytes:
    with open(f"/proc/{process}/cmdline", "rb") as file:
        return file.read()


def _pages(process: str) -> tuple[int, int]:
    with open(f"/proc/{process}/smaps_rollup", "rb") as file:
        lines = file.read().splitlines()[1:]
    size = {line[: line.index(b":")]: int(line.split()[1]) << 10 for line in lines}
    return size[b"Pss"], size[b"Private_Clean"] + size[b"Private_Dirty"]
