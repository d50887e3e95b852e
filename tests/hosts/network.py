"""Hosts on one machine: network namespaces on a switch, gone with the process that made them.

A host is a network, UTS and mount namespace: interfaces, host name and `/etc/hosts` of its own;
files, process numbers and the clock are those of the machine. Nothing has a name outside, so two
runs never meet: each namespace is held by a process that waits for the end of its input and then
removes whatever is left there, however the test run ended.
"""

import concurrent.futures
import contextlib
import ctypes
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_lowercase
from types import TracebackType
from typing import Self

import launch

WIRE = Path(__file__).with_name("wire.py")
_CLONE_NEWNET = 0x40000000
_SPACES = ("--net", "--uts", "--mount")

# UCX reads the interfaces in /sys, which shows those of the namespace that mounted it; limits of
# memory are read there, too, and stay. `read` ends with the holder's input, that is, its maker.
_HOLD = """
echo "$1" > /proc/sys/kernel/hostname && mount --bind "$2" /etc/hosts &&
mount --bind /sys/fs/cgroup /mnt && mount -t sysfs sysfs /sys &&
mount --move /mnt /sys/fs/cgroup && echo ready || exit
read -r end
while
    more=
    for process in /proc/[0-9]*; do
        [ "$process/ns/net" -ef /proc/self/ns/net ] && [ "${process#/proc/}" != $$ ] &&
            kill -9 "${process#/proc/}" && more=1
    done 2>/dev/null
    [ "$more" ]
do sleep 0.01; done
rm -rf "${2%/*}"
"""

# Stands in for ssh: AGENT [OPTION...] HOST COMMAND...
_AGENT = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
case $1 in
{cases}
*) echo "$0: there is no host $1" >&2; exit 255 ;;
esac
shift
exec {bare}nsenter --target "$holder" --net --uts --mount sh -c "$*"
"""
# The environment that a real ssh finds on a host, and the mark by which a test knows its processes.
_BARE = (
    'env -i HOME="$HOME" USER="$USER" PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin '
    f'{launch.MARK}="${launch.MARK}" '
)


@functools.cache
def why_not() -> str:
    """Return why this process cannot make hosts, or "" if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "ss", "unshare", "nsenter", "mount"):
        if shutil.which(tool) is None:
            return f"network namespaces need the program {tool!r} (iproute2, util-linux)"
    trial = ["unshare", *_SPACES, "sh", "-c", "ip link add type veth && mount -t sysfs x /mnt"]
    outcome = subprocess.run(trial, capture_output=True, text=True)
    if outcome.returncode:
        return f"this system forbids network namespaces: {outcome.stderr.strip()}"
    return ""


class Host:
    """One host of a network: run programs on it, watch and disturb its interfaces."""

    def __init__(self, name: str, number: int, known: Path, interfaces: int) -> None:
        self.name = name
        self.number = number
        self.addresses = [f"10.77.{k}.{number}" for k in range(interfaces)]
        self._holder = subprocess.Popen(
            ["unshare", *_SPACES, "sh", "-c", _HOLD, "sh", name, str(known)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the tests, which then end this
            bufsize=0,
        )
        assert self._holder.stdout
        if self._holder.stdout.readline() != b"ready\n":
            self.close()
            raise OSError(f"host {name}: its namespaces could not be made; see above")

    @property
    def address(self) -> str:
        """The IPv4 address on the first interface."""
        return self.addresses[0]

    @property
    def pid(self) -> int:
        """The process that holds the namespaces."""
        return self._holder.pid

    def command(self, command: Sequence[str | os.PathLike[str]]) -> list[str]:
        """Return the command line that runs `command` on this host."""
        enter = ["nsenter", "--target", str(self.pid), *_SPACES]
        return [*enter, *(os.fspath(word) for word in command)]

    def run(self, *command: str | os.PathLike[str], stdin: str = "") -> str:
        """Run a short command here and return what it prints; OSError if it fails."""
        outcome = subprocess.run(
            self.command(command), input=stdin, capture_output=True, text=True, timeout=600
        )
        if outcome.returncode:
            raise OSError(f"host {self.name}: {' '.join(map(str, command))}: {outcome.stderr}")
        return outcome.stdout

    def configure(self, *commands: str) -> None:
        """Run commands of `ip` here, in one go."""
        self.run("ip", "-batch", "-", stdin="\n".join(commands))

    def open_socket(self, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
        """Return an IPv4 socket of this host for the calling process, which stays where it is."""
        with concurrent.futures.ThreadPoolExecutor(1) as thread:  # a thread can move by itself
            return thread.submit(self._open_socket, kind).result()

    def _open_socket(self, kind: socket.SocketKind) -> socket.socket:
        with open(f"/proc/{self.pid}/ns/net") as space:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(space.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"setns to host {self.name}")
        return socket.socket(socket.AF_INET, kind)

    def processes(self) -> list[int]:
        """Return the living processes of this host, without the one that holds it."""
        here = os.stat(f"/proc/{self.pid}/ns/net").st_ino
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if os.stat(f"/proc/{name}/ns/net").st_ino == here and int(name) != self.pid:
                    found.append(int(name))
        return found

    def freeze(self) -> None:
        """Stop all processes of this host; its interfaces go on acknowledging."""
        while running := [pid for pid in self.processes() if not launch.is_stopped(pid)]:
            _signal(running, signal.SIGSTOP)
            time.sleep(0.001)  # each stops when it is next scheduled

    def thaw(self) -> None:
        """Let stopped processes go on."""
        _signal(self.processes(), signal.SIGCONT)

    def reset_connections(self) -> int:
        """Break all TCP connections of this host at once, both ends; return how many.

        0 where there are none, or where the kernel cannot do this (CONFIG_INET_DIAG_DESTROY).
        """
        return len(self.run("ss", "-KHtn", "state", "established").splitlines())

    def down(self, interface: int = 0) -> None:
        """Shut an interface: what is sent fails at once, what arrives is lost."""
        self.configure(f"link set eth{interface} down")

    def up(self, interface: int = 0) -> None:
        """Open it again, with the addresses it had."""
        self.configure(f"link set eth{interface} up")

    def counters(self, interface: int = 0) -> tuple[int, int]:
        """Return the bytes that an interface has received and sent, headers included."""
        for line in Path(f"/proc/{self.pid}/net/dev").read_text().splitlines():
            name, _, numbers = line.partition(":")
            if name.strip() == f"eth{interface}":
                fields = numbers.split()
                return int(fields[0]), int(fields[8])
        raise OSError(f"host {self.name} has no interface eth{interface}")

    def close(self) -> None:
        """Kill what runs here; the namespaces and their interfaces go with it."""
        assert self._holder.stdin
        assert self._holder.stdout
        self._holder.stdin.close()
        self._holder.wait(30)
        self._holder.stdout.close()


class Network:
    """Hosts on a switch; the switch is a host, too, where launchers and rendezvous run.

    `interfaces` of each host lead to as many switches, eth0 with 10.77.0.N, eth1 with 10.77.1.N;
    with `ipv6` they have fd77:0:0:K::N as well. Names resolve on all hosts to the first address.
    """

    def __init__(self, hosts: int, *, interfaces: int = 1, ipv6: bool = False) -> None:
        self._count, self._interfaces, self._ipv6 = hosts, interfaces, ipv6
        self._stack = contextlib.ExitStack()
        self._wires: dict[tuple[int, int], subprocess.Popen[bytes]] = {}
        self.hosts: list[Host] = []

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hosts-")))
            known = folder / "hosts"
            # Launchers keep files under the name of the host: those of two runs must differ.
            names = [
                f"{word}-{os.getpid()}" for word in ("switch", *ascii_lowercase[: self._count])
            ]
            numbers = [254, *range(1, self._count + 1)]
            known.write_text(
                "127.0.0.1 localhost\n"
                + "".join(f"10.77.0.{n} {name}\n" for n, name in zip(numbers, names, strict=True))
            )
            for name, number in zip(names, numbers, strict=True):
                host = Host(name, number, known, self._interfaces)
                stack.callback(host.close)
                self.hosts.append(host)
            self.switch = self.hosts.pop(0)
            self._connect()
            self.agent = self._write_agent(folder / "agent", "")
            self.bare_agent = self._write_agent(folder / "bare_agent", _BARE)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _write_agent(self, path: Path, bare: str) -> Path:
        path.write_text(_AGENT.format(cases="\n".join(map(_case, self.hosts)), bare=bare))
        path.chmod(0o700)
        return path

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts)

    def __getitem__(self, index: int) -> Host:
        return self.hosts[index]

    def shape(
        self,
        host: Host,
        *,
        delay: float = 0.0,
        loss: float = 0.0,
        rate: float = 0.0,
        interface: int = 0,
    ) -> None:
        """Delay by seconds, lose a share of, limit to bytes per second what a host sends.

        What was on its way is lost; zeros give back a plain wire.
        """
        place = (host.number, interface)
        port, near, far = (f"{end}{host.number}e{interface}" for end in ("port", "near", "far"))
        if old := self._wires.pop(place, None):
            _end(old)
            self.switch.configure(f"link del {near}")
        if not (delay or loss or rate):
            self.switch.configure(f"link set {port} master br{interface}")
            return
        self.switch.configure(
            f"link set {port} nomaster",
            f"link add {near} type veth peer name {far}",
            f"link set {near} up",
            f"link set {far} master br{interface} up",
        )
        wire = subprocess.Popen(
            self.switch.command([sys.executable, WIRE, port, near, *map(str, (delay, loss, rate))]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self._stack.callback(_end, wire)
        self._wires[place] = wire
        assert wire.stdout
        if wire.stdout.readline() != b"ready\n":
            raise OSError(f"host {host.name}: its wire could not be shaped; see above")

    def pull(self, host: Host, interface: int = 0) -> None:
        """Pull the cable of a host: what is sent is lost in silence, both ways."""
        self.switch.configure(f"link set port{host.number}e{interface} down")

    def plug(self, host: Host, interface: int = 0) -> None:
        """Plug it in again."""
        self.switch.configure(f"link set port{host.number}e{interface} up")

    def _connect(self) -> None:
        """Give everybody interfaces and addresses."""
        for host in (self.switch, *self.hosts):
            # An interface that is shut keeps its address; else nothing is sent unless asked for.
            setting = "keep_addr_on_down" if self._ipv6 else "disable_ipv6"
            host.run("sh", "-c", f"echo 1 > /proc/sys/net/ipv6/conf/all/{setting}")
            host.configure("link set lo up")
        for k in range(self._interfaces):
            self.switch.configure(f"link add br{k} type bridge")
            self._set_up(self.switch, f"br{k}", k)
            for host in self.hosts:
                port = f"port{host.number}e{k}"
                self.switch.configure(
                    f"link add {port} type veth peer name eth{k} netns {host.pid}",
                    f"link set {port} master br{k} up",
                )
                self._set_up(host, f"eth{k}", k)

    def _set_up(self, host: Host, interface: str, k: int) -> None:
        host.configure(f"addr add {host.addresses[k]}/24 dev {interface}")
        if self._ipv6:
            host.configure(f"addr add fd77:0:0:{k}::{host.number}/64 dev {interface} nodad")
        host.configure(f"link set {interface} up")


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _case(host: Host) -> str:
    return f"{host.name}|{host.address}) holder={host.pid} ;;"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream
        stream.close()
