"""A job in which everything happens at once, and the program that it runs; see jobs/test_storms.py.

Its ranks check all they do. A loss ends what they are doing: the living begin again without the
dead. It goes on until there is a file named `stop`.
"""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import launch
import numpy as np

import acp_mpi as acp

SIZES = (0, 8, 300, 3000, 70_000, 400_000)
ROOM = max(SIZES)
NEVER = 2**63 + 1  # what nobody writes into starter memory
TAGS = 1000


def program(folder: str, seed: str) -> None:
    """Storm until there is a file `stop`; say after each round how many there were."""
    acp.init()
    dice = random.Random(f"{seed} {acp.rank()}")
    storm = None  # who has not heard of a loss yet uses the memory of the last one until all meet
    while True:
        members = living()
        if storm is not None:
            storm.destroy()
        storm = Storm(Path(folder), f"{seed} {members}", members, dice)
        try:
            storm.go_on()
            break
        except acp.PeerLostError:
            continue
    Path(folder, f"{acp.rank()} is done").touch()
    acp.finalize()


def living() -> list[int]:
    """Meet those that live, and return their ranks."""
    while True:
        try:
            acp.complete()
            acp.sync()
            return list(acp.ranks())
        except acp.PeerLostError:
            acp.refresh()


def hear() -> None:
    """Raise the loss that this rank has not accepted yet, if there is one."""
    with contextlib.suppress(TimeoutError):
        acp.wait_until(acp.query_starter_ga(acp.rank()), "==", NEVER, timeout=0)


class Storm:
    """Rounds in which the same members do the same, drawn by dice that all of them throw alike."""

    def __init__(self, folder: Path, seed: str, members: list[int], dice: random.Random) -> None:
        self.folder, self.members, self.dice = folder, members, dice
        self.common = random.Random(seed)
        self.rank = acp.rank()
        self.index = members.index(self.rank)
        self.rounds = 0
        self.model: dict[str, bytes] = {}
        self.room = acp.zeros((len(members), ROOM), "u1")
        self.source = acp.zeros(ROOM, "u1")
        self.made: tuple = ()

    def destroy(self) -> None:
        """Give back the containers that this rank has made."""
        for container in self.made:
            with contextlib.suppress(acp.PeerLostError, acp.AddressError):
                container.destroy()

    def meet(self) -> None:
        """Learn what the others have made."""
        if self.index == 0:
            self.made = self.containers()
        places = acp.query_ga(self.room), acp.query_ga(self.source)
        everything = self.exchange((*places, self.made))
        self.rooms, self.sources, each = zip(*everything, strict=True)
        self.map, self.counts, self.line, self.list, self.counter = each[0]

    def containers(self) -> tuple:
        last = self.members[-1]
        return (
            acp.Map(ranks=self.members), acp.Map(key="q", value="q", ranks=self.members),
            acp.Deque("q", rank=last), acp.List(rank=self.members[0]), acp.Counter(rank=last),
        )  # fmt: skip

    def exchange(self, thing: object) -> list:
        """Return what each member has given."""
        return [each for each in acp.allgather(thing) if each is not None]

    def go_on(self) -> None:
        """Do round after round until there is a file `stop`."""
        self.meet()
        while True:
            self.common.choice(
                [
                    self.copies, self.messages, self.stream, self.collectives,
                    self.change, self.heap, self.count,
                ]
            )()  # fmt: skip
            self.rounds += 1
            seen = self.folder / f"{self.rank} rounds"
            seen.write_text(f"{int(seen.read_text() or 0) + 1 if seen.exists() else 1}")
            if any(self.exchange((self.folder / "stop").exists())):
                return

    def copies(self) -> None:
        """Copy to each member what it has, and from one to another what both have not asked for."""
        n = len(self.members)
        value = self.common.randrange(256)
        self.source[:] = (value + self.index) % 256
        acp.sync()
        third, other = (self.index + 1) % n, (self.index + 2) % n
        acp.copy(self.rooms[other] + third * ROOM, self.sources[third], ROOM)
        acp.sync()
        before = (self.index - 1) % n if n > 1 else 0
        assert (self.room[before] == (value + before) % 256).all(), "a third party's copy"
        at, size = self.dice.randrange(ROOM), self.dice.randrange(1000)
        data = bytearray(min(size, ROOM - at))
        chosen = self.dice.randrange(n)
        acp.get(self.sources[chosen] + at, data)
        assert data == bytes([(value + chosen) % 256]) * len(data), "a get"
        acp.sync()

    def messages(self) -> None:
        """Send messages of several lengths to all, and receive theirs in the order of sends."""
        # those that are left of a loss are of more members
        tag = len(self.members) * TAGS + self.common.randrange(TAGS - 1)
        sizes = self.common.choices(SIZES, k=3)
        requests = [
            acp.isend(bytes([tag % 251]) * size, other, tag)
            for other in self.members
            for size in sizes
            if other != self.rank
        ]
        room = bytearray(ROOM)
        for source in self.members:
            for size in sizes if source != self.rank else ():
                status = acp.Status()
                patiently(lambda s=source, t=status: acp.recv(room, s, tag, t, timeout=1.0))
                assert status.size == size, f"{status.size} bytes of {size} by {source}"
                assert room[:size] == bytes([tag % 251]) * size, f"a message of {size} by {source}"
        patiently(lambda: acp.waitall(requests, timeout=1.0))

    def stream(self) -> None:
        """Send many short messages to the next member, and pause; by link they leave together."""
        before, behind = (self.members[(self.index + way) % len(self.members)] for way in (-1, 1))
        if before == self.rank:
            return
        tag, count = len(self.members) * TAGS + TAGS - 1, self.common.randrange(1, 500)
        for number in range(count):
            acp.send(number.to_bytes(8, "little"), behind, tag)
            if not self.dice.randrange(200):
                time.sleep(self.dice.random() * 0.003)
        room = bytearray(8)
        for number in range(count):
            patiently(lambda: acp.recv(room, before, tag, timeout=1.0))
            assert int.from_bytes(room, "little") == number, f"message {number} of a stream"

    def collectives(self) -> None:
        """Fold and gather arrays."""
        n, length = len(self.members), self.common.choice([1, 100, 20_000])
        total = acp.allreduce(np.arange(length) + self.rank)
        assert (total == n * np.arange(length) + sum(self.members)).all(), "allreduce"
        root = self.common.choice(self.members)
        got = acp.bcast(np.full(length, self.rank), root=root)
        assert (got == root).all(), "bcast"

    def change(self) -> None:
        """Change containers: keys of its own in a map, and elements that anybody may take out."""
        for _ in range(self.common.randrange(1, 60)):
            key, value = f"{self.rank} {self.dice.randrange(30)}", bytes(self.dice.randrange(3000))
            self.dice.choice([
                lambda key=key, value=value: self.set(key, value),
                lambda key=key: self.drop(key),
                lambda key=key: self.look(key),
                lambda: self.move(self.line, self.dice.randrange(1000)),
                lambda value=value: self.move(self.list, value),
            ])()  # fmt: skip
        for key in self.model:
            self.look(key)

    def set(self, key: str, value: bytes) -> None:
        self.map[key] = value
        self.model[key] = value

    def drop(self, key: str) -> None:
        assert self.map.pop(key, None) == self.model.pop(key, None), f"key {key} taken out"

    def look(self, key: str) -> None:
        assert self.map.get(key) == self.model.get(key), f"key {key}"

    @staticmethod
    def move(row: object, value: object) -> None:
        row.push_back(value)  # type: ignore[attr-defined]
        row.pop_front()  # type: ignore[attr-defined]

    def heap(self) -> None:
        """Take memory on any member, use it, give it back."""
        blocks = []
        for _ in range(self.common.randrange(1, 40)):
            data = self.dice.randbytes(self.dice.randrange(1, 5000))
            blocks.append((acp.malloc(len(data), self.dice.choice(self.members)), data))
            acp.put(*blocks[-1])
        for ga, data in blocks:
            back = bytearray(len(data))
            acp.get(ga, back)
            assert back == data, "a block of the heap"
            acp.free(ga)

    def count(self) -> None:
        """Count on one member, exactly once for each call."""
        times = self.common.randrange(1, 30)
        before = self.counter.read()
        acp.sync()
        for _ in range(times):
            self.counter.next()
            self.counts.accumulate([times, 0], [1, 1])
        acp.sync()
        assert self.counter.read() == before + times * len(self.members), "a counter"
        acp.sync()


def patiently(call: Callable[[], object]) -> None:
    """Call again and again until it ends; raise a loss that it cannot hear of."""
    while True:
        try:
            call()
            return
        except TimeoutError:
            hear()


# The weather ----------------------------------------------------------------------------------


class Weather:
    """What happens to the processes of a storm."""

    def __init__(self, folder: Path, jobs: Sequence[launch.Job], seed: object) -> None:
        self.folder, self.jobs, self.dice = folder, jobs, random.Random(f"{seed} weather")
        self.living = list(range(len(jobs)))

    def rounds(self) -> list[int]:
        """Return how many rounds each of the living has done."""
        files = [self.folder / f"{rank} rounds" for rank in self.living]
        return [int(file.read_text() or 0) if file.exists() else 0 for file in files]

    def wait(self, rounds: int = 3) -> None:
        """Wait until each of the living has done so many rounds more."""
        target = [done + rounds for done in self.rounds()]

        def reached() -> bool:
            self.check()
            return all(now >= then for now, then in zip(self.rounds(), target, strict=True))

        launch.until(reached)

    def check(self) -> None:
        """Fail with all that was printed if one of the living has ended."""
        gone = [rank for rank in self.living if not self.jobs[rank].running]
        assert not gone, f"ranks {gone} have ended\n{self.text()}"

    def text(self) -> str:
        """Return what all ranks have printed."""
        return "\n".join(f"rank {n}: {job.output}" for n, job in enumerate(self.jobs))

    def kill(self) -> None:
        """Kill a rank, if enough are left."""
        if len(self.living) > 2:
            victim = self.dice.choice(self.living)
            self.living.remove(victim)
            os.kill(self.jobs[victim].pid, signal.SIGKILL)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop a rank for a while."""
        pid = self.jobs[self.dice.choice(self.living)].pid
        launch.freeze(pid)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def stop(self) -> None:
        """Stop a rank for a moment."""
        with self.stopped():
            self.pause()

    def stop_and_kill(self) -> None:
        """Kill a rank while another does nothing."""
        with self.stopped():
            self.kill()
            self.pause()

    def pause(self) -> None:
        """Let something go on for as long as chance wants."""
        time.sleep(self.dice.random() * 0.5)

    def end(self) -> None:
        """Have the storm end: all of the living end well."""
        (self.folder / "stop").touch()
        for rank in self.living:
            assert self.jobs[rank].wait(120.0) == 0, self.text()
            assert (self.folder / f"{rank} is done").exists(), self.text()
        for job in self.jobs:
            job.wait_for_all()


def storm(weather: Weather, events: Sequence[Callable[[], object]], count: int) -> None:
    """Have so many events happen, each after some rounds; then end it."""
    weather.wait()
    for _ in range(count):
        weather.dice.choice(events)()
        weather.wait(weather.dice.randrange(1, 4))
    weather.end()
