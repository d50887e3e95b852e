"""The output of the processes of a job: taken apart by rank, labelled by line, kept."""

import collections
import contextlib
import os
import re
import select
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from acp_mpi.errors import Error, PeerLostError

LAST_LINES = 10
_LINE_MOST = 1 << 20  # bytes; a longer one goes on in pieces, each labelled: memory is bounded
_MARK_MOST = 64  # bytes of a launcher's mark
_LOSS = b"%s.%s:" % (PeerLostError.__module__.encode(), PeerLostError.__name__.encode())
_ENDS = b"\n", b"\r"  # of a line: a bar of progress is drawn over itself, and waits for no newline


class Stream:
    """One pipe from a process that macprun started: its own output, or that of many ranks."""

    def __init__(self, group: str, rank: int | None, marks: re.Pattern[bytes] | None) -> None:
        self.group, self._rank, self._marks = group, rank, marks
        self._now = rank  # the rank of the bytes that follow, unless a mark names another
        self._rest = b""  # of a line, before its marks are looked for
        self._lines: dict[int | None, bytearray] = {}  # the beginning of a line, by rank
        self.ended: list[tuple[int, int]] = []
        """Ranks of whose end there was a mark, and how they ended, as Popen has it."""

    def feed(self, data: bytes) -> Iterator[tuple[int | None, bytes]]:
        """Yield the lines that are complete now, with the rank; None: of the launcher itself.

        Of a line beyond a mebibyte the bytes so far: output without line ends is shown, too.
        """
        lines = (self._rest + data).splitlines(keepends=True)
        # a return at the end may be the first half of a line's end
        self._rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        for line in lines:
            yield from self._apart(line)
        if len(self._rest) > _LINE_MOST:
            cut = self._between_marks(len(self._rest) - _MARK_MOST)
            piece, self._rest = self._rest[:cut], self._rest[cut:]
            yield from self._apart(piece)

    def end(self) -> Iterator[tuple[int | None, bytes]]:
        """Yield what is left when nothing more comes."""
        yield from self._apart(self._rest)
        for rank, line in self._lines.items():
            if line:
                yield rank, bytes(line) + b"\n"
        self._lines, self._rest = {}, b""

    def _between_marks(self, at: int) -> int:
        """Return a place near `at` where what is left of a line can be cut: in no mark."""
        if self._marks is not None:
            for mark in self._marks.finditer(self._rest, at - _MARK_MOST):
                if mark.start() < at < mark.end():
                    return mark.start()
        return at

    def _apart(self, line: bytes) -> Iterator[tuple[int | None, bytes]]:
        """Give each rank its pieces: launchers put a mark before each, not only before lines."""
        if self._marks is None:
            yield from self._add(self._rank, line)
            return
        at = 0
        for mark in self._marks.finditer(line):
            if mark.start() > at:
                yield from self._add(self._now, line[at : mark.start()])
            self._now, at = int(mark[1]), mark.end()
            if mark.lastindex == 2:
                self.ended.append((int(mark[1]), int(mark[2])))
        yield from self._add(self._now, line[at:])
        if line.endswith(b"\n"):
            self._now = self._rank

    def _add(self, rank: int | None, piece: bytes) -> Iterator[tuple[int | None, bytes]]:
        line = self._lines.setdefault(rank, bytearray())
        line += piece  # in place: a rank may write a few bytes at a time, each with a mark
        if line.endswith(_ENDS) or len(line) > _LINE_MOST:
            del self._lines[rank]
            yield rank, bytes(line)


class Output:
    """Where lines go: to the terminal with a label, to files, and the last ones to memory.

    `room` waits until something can be written to a descriptor, or raises OSError.
    """

    def __init__(
        self, folder: str | None, before: Callable[[], None], room: Callable[[int], None]
    ) -> None:
        self._folder, self._before, self._room = folder, before, room
        if folder is not None:  # what cannot be kept is said before anything starts
            _make(folder)
        self._files: dict[tuple[str, int | None, bool], BinaryIO] = {}
        self._last: dict[str, collections.deque[bytes]] = {}
        self._deaf: set[bool] = set()
        self.bereaved: set[str] = set()
        """The groups in which the loss of a rank was an error that nobody caught, as they say."""

    def write(self, group: str, lines: Iterable[tuple[int | None, bytes]], errors: bool) -> None:
        """Print lines of a group and keep them; `errors`: on stderr."""
        text = []
        for rank, line in lines:
            label = group if rank is None else f"{group}.{rank}"
            text.append(b"[%s] %s" % (label.encode(), line))
            if self._folder is not None:
                self._keep(group, rank, line, errors)
            if errors and line.startswith(_LOSS):
                self.bereaved.add(group)
        if not text:
            return
        last = self._last.setdefault(group, collections.deque(maxlen=LAST_LINES))
        last.extend(line for line in text if line.endswith(b"\n"))
        self._before()
        self._print(b"".join(text), errors)

    def last_lines(self, group: str) -> list[bytes]:
        """Return the last lines of a group, labelled."""
        return list(self._last.get(group, ()))

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _keep(self, group: str, rank: int | None, line: bytes, errors: bool) -> None:
        try:
            self._file(group, rank, errors).write(line)
        except OSError as reason:  # the job is worth more than what it says
            text = f"macprun: no more output is kept in {self._folder}: {reason}\n"
            self.say(text.encode(errors="backslashreplace"))
            self._folder = None

    def _file(self, group: str, rank: int | None, errors: bool) -> BinaryIO:
        key = (group, rank, errors)
        if key not in self._files:
            folder = os.path.join(self._folder or "", group)
            os.makedirs(folder, exist_ok=True)
            name = f"{'launcher' if rank is None else rank}.{'err' if errors else 'out'}"
            path = os.path.join(folder, name)
            # at once, so that it can be watched, and is there whatever ends macprun
            self._files[key] = open(path, "wb", buffering=0)  # noqa: SIM115
        return self._files[key]

    def say(self, text: bytes) -> None:
        """Print text that belongs to no group, on stderr."""
        self._before()
        self._print(text, errors=True)

    def _print(self, text: bytes, errors: bool) -> None:
        if errors in self._deaf:
            return
        descriptor, view = (sys.stderr if errors else sys.stdout).fileno(), memoryview(text)
        try:
            while view:
                self._room(descriptor)
                with contextlib.suppress(BlockingIOError):  # another writer was faster
                    view = view[os.write(descriptor, view[: select.PIPE_BUF]) :]
        except OSError as reason:  # the reader has gone; the job is not disturbed
            self._deaf.add(errors)
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), descriptor)
            if not errors and not isinstance(reason, BrokenPipeError):  # a full disk: it is missed
                self.say(f"macprun: no more output is shown: {reason.strerror}\n".encode())


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as reason:
        raise Error(
            f"the folder {folder!r} of --output-dir cannot be made: {reason.strerror}; name one "
            "where you may write"
        ) from None
