"""Count the words of a text over all ranks, in one map that is spread over them.

Each rank reads its share of the file, counts its words with Python's own Counter, and adds its
counts to the map in one call: a word lives on the rank that its hash selects, and nobody gathers
anything.

    mpiexec -n 4 python examples/wordcount.py [TEXT] [--top 10]
"""

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

import acp_mpi as acp

WORD = re.compile(r"\w+")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "text", type=Path, nargs="?", default=Path(__file__), help="default: this program"
    )
    parser.add_argument("--top", type=int, default=10, help="words to print (10)")
    arguments = parser.parse_args()
    if arguments.top < 0:
        parser.error("--top must not be negative")
    return arguments


def share_of(path: Path, part: int, parts: int) -> str:
    """Return the lines that begin in the given part of the file."""
    size = path.stat().st_size
    begin, end = size * part // parts, size * (part + 1) // parts
    with path.open("rb") as file:
        if begin:
            file.seek(begin - 1)
            file.readline()  # the line that began before
        lines = []
        while file.tell() < end and (line := file.readline()):
            lines.append(line)
    return b"".join(lines).decode(errors="replace")


def run(path: Path, top: int) -> int:
    """Count, print the most frequent words on rank 0, and return the exit code."""
    rank, procs = acp.rank(), acp.procs()
    words = acp.bcast(acp.Map(key=object, value="q") if rank == 0 else None)
    counts = Counter(WORD.findall(share_of(path, rank, procs).lower()))
    words.accumulate(list(counts), list(counts.values()))
    acp.sync()

    found = sum(words.local.values())  # each word is on one rank
    total, there = map(sum, zip(*acp.allgather((counts.total(), found)), strict=True))
    if rank == 0:
        print(f"{total} words, {len(words)} different ones, on {procs} ranks")
        for word, count in Counter(dict(words.items())).most_common(top):
            print(f"{count:8d} {word}")
    acp.sync()
    if rank == 0:
        words.destroy()
    if total != there:
        print(f"wordcount: {total} words were read, {there} are in the map", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    """Start ACP, count, and return the exit code."""
    arguments = parse_arguments()
    try:
        arguments.text.open("rb").close()
    except OSError as error:
        print(f"wordcount: {arguments.text} cannot be read: {error.strerror}", file=sys.stderr)
        return 1
    with acp.init():
        return run(arguments.text, arguments.top)


if __name__ == "__main__":
    sys.exit(main())
