"""A slow, lossy cable between two interfaces: `wire.py HOST SWITCH DELAY LOSS RATE`.

What the host sends waits DELAY seconds and passes at RATE bytes per second (0: unlimited), a share
LOSS of it is lost; what it receives passes at once. Does what `tc netem` does, on kernels that were
built without it. Ends with its standard input.
"""

import collections
import random
import select
import socket
import sys
import time
from collections.abc import Iterator

ALL_FRAMES = 0x0003  # ETH_P_ALL
SOL_PACKET = 263
PACKET_VNET_HDR = 15  # frames of up to 64 KiB pass uncut, their checksums left to whoever cuts them
PACKET_IGNORE_OUTGOING = 23
SO_RCVBUFFORCE = 33
FRAME_MAX = 70_000
QUEUE_MAX = 1000  # frames that wait; more are lost, as in netem


def interface(name: str) -> socket.socket:
    """Return a socket that reads what arrives at an interface and sends from it."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 2**26)
    end.bind((name, ALL_FRAMES))
    end.setblocking(False)
    return end


def frames(end: socket.socket) -> Iterator[bytes]:
    """Yield what has arrived."""
    while True:
        try:
            yield end.recv(FRAME_MAX)
        except OSError:  # no more, or the interface was shut, which is said once
            return


def send(end: socket.socket, frame: bytes) -> None:
    """Send a frame, or lose it where a real cable would."""
    try:
        end.send(frame)
    except OSError:
        return  # shut, or its queue is full


def main(host: str, switch: str, delay: float, loss: float, rate: float) -> None:
    """Pass frames until the input ends."""
    inner, outer = interface(host), interface(switch)
    chance = random.Random(f"{host} {loss}")
    waiting: collections.deque[tuple[float, bytes]] = collections.deque()
    free = 0.0  # when the cable can take the next frame
    print("ready", flush=True)
    while True:
        pause = max(waiting[0][0] - time.monotonic(), 0.0) if waiting else None
        ready, _, _ = select.select([inner, outer, sys.stdin], [], [], pause)
        if sys.stdin in ready:
            return
        for frame in frames(outer):
            send(inner, frame)
        now = time.monotonic()
        for frame in frames(inner):
            if chance.random() < loss or len(waiting) == QUEUE_MAX:
                continue
            free = max(free, now) + (len(frame) / rate if rate else 0.0)
            waiting.append((free + delay, frame))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            send(outer, waiting.popleft()[1])


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(float, sys.argv[3:6]))
