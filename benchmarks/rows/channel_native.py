"""Messages of 8 B by channels from C, between two threads, against lines of memory that C sets."""

from harness import NS, US, Goal, Row

from rows.engine import printed


def measure(quick: bool) -> list[Row]:
    """Measure as one rank of the job; rank 0 returns the rows."""
    half, line, stream, ring = (ns * NS / US for ns in printed("channel_calls.c", quick, 500_000))
    return [
        Row("8 B from C, half a round trip", "µs", half, "bare line", line, Goal(times=1.3)),
        Row("8 B from C, stream", "µs", stream, "bare ring", ring),
    ]
