"""What a channel says of itself. Channels are in the extension module."""

from acp_mpi.util.record import Record


class ChannelStatistics(Record):
    """Of one end: `messages` so far, its `waits`, slots `pending`, and slots `held` by views."""

    __slots__ = ("held", "messages", "pending", "waits")

    def __init__(self, messages: int, waits: int, pending: int, held: int) -> None:
        self.messages, self.waits, self.pending, self.held = messages, waits, pending, held
