"""The exceptions of the package; each names the value and the next step."""

import os
from errno import EBADMSG


class Error(Exception):
    """Base of all errors of acp_mpi."""


class NotInitializedError(Error):
    """The call needs `acp.init()` first, or came after `acp.finalize()`."""


class RankError(Error, ValueError):
    """There is no such rank."""


class AddressError(Error, ValueError):
    """A global address that is null, unregistered, stale or out of its region."""


class AlignmentError(Error, ValueError):
    """The address of an atomic is not a multiple of its size."""


class HeapFullError(Error, MemoryError):
    """The memory limit of a rank is reached."""


class DeviceError(Error):
    """The driver of a device has failed, or does not know that memory."""


class PeerLostError(Error, ConnectionError):
    """A rank that is needed has died; `rank` says which, if known."""

    rank: int | None = None


class FinalizingError(Error):
    """The rank that is needed, or all that could answer, are in `finalize` and will not come."""


class EndOfChannel(Error, EOFError):
    """The sender has closed the channel, and all that it sent is received."""


class ClosedError(Error, ValueError):
    """The channel is closed here, or by its receiver."""


class TruncationError(Error):
    """A message is longer than the buffer that was to receive it."""


class DeviceSide(Exception):
    """Inside the library: a buffer is device memory.

    `args`: its block, the offset there, its bytes, the stream behind which operations start.
    """


class AstrayError(Error):
    """Ranks have called collectives that do not belong together; `why` tells the others which."""

    why = 0


class AstrayTypeError(AstrayError, TypeError):
    """The same, of elements of different types."""


class Status:
    """The answers of the engine (`acp_status` in `engine/core/acp.h`)."""

    NULL = -1
    RANK = -2
    UNREGISTERED = -3
    BOUNDS = -4
    ALIGN = -5
    FULL = -6
    LOST = -7
    TIMEOUT = -8
    INTERRUPTED = -9
    BUSY = -10
    SYSTEM = -11
    PRIVATE = -12
    FINALIZING = -13
    HANDLE = -14
    CLOSED = -15
    ARGUMENT = -16
    MPI = -17
    BLOCK = -18
    DAMAGED = -19
    DESTROYED = -20
    TRUNCATED = -21
    CANCELLED = -22
    MISMATCH = -23
    LEFT = -24
    OVERFLOW = -25
    REGIONS = -26
    TAKEN = -27
    SHORT = -28
    TYPE = -29
    DEVICE = -30
    DRIVER = -31


def _where(ga: int, rank: int, low: int, high: int) -> str:
    text = f"{ga:#x}"
    if rank >= 0:
        text += f" (rank {rank})"
    if high > low:
        first = ga - (ga & (1 << 40) - 1)
        text += f", region {first + low:#x} to {first + high:#x}, {high - low} bytes"
    return text


def from_fault(
    function: str,
    status: int,
    ga: int = 0,
    size: int = 0,
    rank: int = -1,
    errno: int = 0,
    low: int = 0,
    high: int = 0,
    procs: int = 0,
) -> Exception:
    """Make the exception for a fault of the engine in `function`."""
    where = _where(ga, rank, low, high)
    match status:
        case Status.NULL:
            return AddressError(
                f"{function}: the null address 0 was given; a global address comes from "
                "query_starter_ga, query_ga or empty"
            )
        case Status.RANK:
            return RankError(
                f"{function}: address {ga:#x} names rank {rank}, but ranks are 0 to {procs - 1}; "
                "was arithmetic done on something that is not a global address?"
            )
        case Status.UNREGISTERED:
            return AddressError(
                f"{function}: nothing is registered at {where}; its key was closed, its array "
                "dropped or the address miscalculated: ask its owner for a new one"
            )
        case Status.BOUNDS:
            return AddressError(
                f"{function}: {size} bytes at {where} run past the end of the region; use a "
                "smaller size or split the transfer"
            )
        case Status.ALIGN:
            return AlignmentError(
                f"{function}: address {where} is not a multiple of {size}; atomics need words "
                f"aligned to their size: use an address that is a multiple of {size}"
            )
        case Status.FULL:
            there = f" on rank {rank}" if rank >= 0 else ""
            if errno:  # it is within the limit
                return HeapFullError(
                    f"{function}: {size} bytes do not fit{there}: of the memory of the machine, "
                    f"or of its control group, {high} bytes are left; end what takes the rest, or "
                    "ask for less (heap_size, starter_size)"
                )
            if low:
                return HeapFullError(
                    f"{function}: window=True, and {size} bytes do not fit in the window part, "
                    f"which has {high} free in one piece for arrays; drop arrays, raise "
                    "ACP_WINDOW_SIZE (half of it is for arrays), or leave window= out"
                )
            possible = f", where {high} are possible" if high else ""
            return HeapFullError(
                f"{function}: {size} bytes do not fit{there}{possible}; free blocks, drop arrays "
                "or raise heap_size (ACP_HEAP_SIZE) within the memory of the machine"
            )
        case Status.REGIONS:
            return HeapFullError(
                f"{function}: rank {rank} has {high} regions of memory, the most there can be; "
                "close keys or drop arrays, or register neighbouring buffers as one"
            )
        case Status.LOST:
            return _lost(function, rank)
        case Status.PRIVATE:
            return AddressError(
                f"{function}: this process cannot load from {where}: it is memory of another "
                "node, or an array that its rank registered; make it with acp.empty to share it "
                "on a node, or use get and put"
            )
        case Status.FINALIZING:
            who = f"rank {rank} is" if rank >= 0 else "all ranks that could answer are"
            return FinalizingError(
                f"{function}: {who} already in finalize and will not come; call it on "
                "all ranks before any of them ends"
            )
        case Status.CLOSED:
            return NotInitializedError(f"{function}: acp_mpi was finalized while this waited")
        case Status.TIMEOUT:
            return TimeoutError(
                f"{function}: timeout= passed without a result; give more time, or none at all"
            )
        case Status.ARGUMENT:
            return ValueError(
                f"{function}: {size} bytes cannot be registered with that color; a region has 1 "
                "byte to 1 TiB and a color from 0 to 3"
            )
        case Status.DESTROYED:
            return AddressError(
                f"{function}: there is no such container at {where}, or not any more; ask the rank "
                "that made it whether it was destroyed"
            )
        case Status.OVERFLOW:
            return OverflowError(
                f"{function}: {size} more, and the keys counted together there would be 2**64 or "
                "more; take some out, or count in a Map of floats"
            )
        case Status.BLOCK:
            return AddressError(
                f"{function}: {where} is not the address of a block: it was freed already, lies "
                "inside one, is a container, or is not an address of a heap; free each address "
                "that malloc returned once, and destroy containers"
            )
        case Status.DAMAGED if errno == EBADMSG:
            return Error(
                f"{function}: a command for rank {rank} or its answer was lost, something wrote "
                "over the memory in which they lay; it may have been done, and later calls work: "
                "look for a wild pointer in the programs on this node"
            )
        case Status.DAMAGED if not ga:
            whose = f"memory of rank {rank}" if rank >= 0 else "memory of a rank of this node"
            return Error(
                f"{function}: something wrote over {whose}, in which barriers count and messages "
                "lie for all ranks of a node; what was under way there is lost, and a barrier of "
                "the same ranks fails from now on: look for a wild pointer in the programs there"
            )
        case Status.DAMAGED:
            return Error(
                f"{function}: the heap of rank {rank} is damaged near {ga:#x}, something wrote "
                "past the end of a block, or into one that was freed; look for transfers that are "
                "longer than their blocks, and for addresses that are used after free"
            )
        case Status.MPI:
            return Error(
                f"{function}: MPI failed with error {errno} to move {size} bytes at {where}; "
                "ACP_PATH=link does without MPI windows"
            )
        case Status.SHORT:
            return _short(function)
        case Status.DEVICE:
            return AddressError(
                f"{function}: {where} is memory of a device, which no processor loads: words that "
                "are waited for, atomics and containers lie in host memory (acp.empty, malloc); "
                "move bytes of a device by put, get and copy, and set a flag in host memory"
            )
        case Status.DRIVER:
            if errno or rank >= 0:
                return from_device(function, errno, device_words(), 0, 0)
            return DeviceError(
                f"{function}: the driver of a device of another rank failed; operations on other "
                "memory go on, and acp.devices() there shows the device"
            )
    reason = os.strerror(errno) if errno else _name_of(status)
    if not ga:  # nothing of global memory: what the process itself needs
        needed = f"{size} bytes: " if size else ""
        return Error(f"{function}: {needed}{reason}; see the limits of this process (ulimit -a)")
    return Error(f"{function}: {size} bytes at {where}: {reason}")


def device_words() -> str:
    """Return what the driver of a device said last; `init` puts the engine's here."""
    return ""


def from_device(function: str, errno: int, words: str, size: int, free: int) -> Exception:
    """Make the exception for what a driver refuses; `size` bytes: there is no memory for them."""
    number = f" (error {errno})" if errno else ""
    if size:
        return HeapFullError(
            f"{function}: {size} bytes do not fit on the device, where {free} are free: "
            f"{words}{number}; drop arrays there"
        )
    return DeviceError(f"{function}: {words}{number}; acp.devices() shows what there is")


def connections() -> tuple[int, int, int]:
    """Return open links, the limit of open files, and the error; `init` puts the engine's here."""
    return 0, 0, 0


def _short(function: str) -> OSError:
    links, limit, error = connections()
    return OSError(
        error,
        f"{function}: this process has no room for one more connection ({os.strerror(error)}): "
        f"{links} links are open, none of them idle, and its limit of open files is {limit}; raise "
        "it (ulimit -n), or close files",
    )


def _name_of(status: int) -> str:
    return next((name for name, value in vars(Status).items() if value == status), str(status))


def _lost(function: str, rank: int) -> PeerLostError:
    who = f"rank {rank}" if rank >= 0 else "a rank"
    error = PeerLostError(
        f"{function}: {who} has died, or left the job; acp.refresh() accepts that and goes on "
        "with the living"
    )
    error.rank = rank if rank >= 0 else None
    return error


def from_collective(
    function: str, status: int, rank: int, ours: int, theirs: int, why: int
) -> Exception:
    """Make the exception for a collective that failed; `ours` and `theirs`: what was called."""
    match status:
        case Status.LOST:
            return _lost(function, rank)
        case Status.MISMATCH:
            return _astray(function, ours, theirs, why)
        case Status.LEFT:
            return Error(
                f"{function}: rank {rank} has left it, after an error, a timeout or an "
                "interruption there; look for the first error among the ranks"
            )
        case Status.FULL:
            return HeapFullError(
                f"{function}: the heap has no room for its messages; free blocks, drop arrays or "
                "raise heap_size (ACP_HEAP_SIZE) within the memory of the machine"
            )
    return from_fault(function, status, rank=rank)


def _astray(function: str, ours: int, theirs: int, why: int) -> AstrayError:
    """Say which two ranks call what; `theirs` is 0 if this one has only been told of it."""
    first, second = why & 0x3FFFFF, why >> 22 & 0x3FFFFF
    one, other = why >> 44 & 63, why >> 50 & 63
    names = [COLLECTIVES.get(call & ~OF_OBJECTS, "another") for call in (one, other)]
    kind = AstrayError
    if (one ^ other) & ~OF_OBJECTS:
        said = (
            f"rank {first} is in {names[0]}, and rank {second} in {names[1]} meanwhile; all ranks "
            "of a collective call the same ones in the same order"
        )
    elif one != other:
        whats = ["objects" if call & OF_OBJECTS else "buffers" for call in (one, other)]
        said = (
            f"rank {first} is in {names[0]} of {whats[0]}, and rank {second} in one of {whats[1]} "
            "meanwhile; give arrays on all ranks or on none, and out= likewise, out=() on those "
            "that get nothing"
        )
    elif why >> 56 & 1:
        kind = AstrayTypeError
        types = ("one type", "another")
        if theirs:
            types = (f"type {_type_name(theirs >> 46)}", f"type {_type_name(ours >> 46)}")
        said = (
            f"in {names[0]} rank {first} gives elements of {types[0]} and rank {second} of "
            f"{types[1]}; give all the same type, or bytes"
        )
    else:
        said = (
            f"in {names[0]} rank {first} gives another size, type, operation or root than rank "
            f"{second}; give what belongs together on all ranks"
        )
    if why >> 57 & 1:
        said = f"an earlier call was over here before this was found: {said}"
    error = kind(f"{function}: {said}")
    error.why = why
    return error


def _type_name(code: int) -> str:
    if code >> 14:
        return "of its own"
    name = list(PLAIN_TYPES.values())[(code >> 6 & 15) - 1]
    name += "" if name == "bool" else str(8 * (code & 63))
    return f"{name} of the other byte order" if code >> 10 else name


PLAIN_TYPES = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
OF_OBJECTS = 32  # in what a message of a collective says of its call: that is on objects
COLLECTIVES = dict(
    enumerate(
        ("barrier", "bcast", "reduce", "allreduce", "scan", "exscan", "gather", "scatter",
         "allgather", "alltoall", "reduce_scatter"), 1)
)  # fmt: skip
