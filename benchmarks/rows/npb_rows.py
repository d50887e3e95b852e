"""The rows of a kernel of NPB: its rate against both other transports, and what it took."""

from collections.abc import Callable, Sequence

from harness import MS, Goal, Row
from npb.measuring import ACP, MPI_TCP, SELECT, Account


def rows_of(
    title: str, accounts: Sequence[Account], rate: Callable[[float], float], over_mpi: Goal
) -> list[Row]:
    """Return the rows; `rate` turns seconds into Mop/s. Not below select and read anywhere."""
    ours, select, mpi = accounts[ACP], accounts[SELECT], accounts[MPI_TCP]
    rows = []
    for other, goal in ((mpi, over_mpi), (select, Goal(speed=1.0))):
        rows.append(
            Row(
                title,
                "Mop/s",
                rate(ours.median("seconds")),
                f"{other.name}{' by TCP' * (other is mpi)}",
                rate(other.median("seconds")),
                goal,
                rate=True,
            )
        )
    shares = [
        f"{each.name} {each.median('processor') / MS:,.0f} ms and "
        f"{each.median('switches'):,.0f} changes of context"
        for each in accounts
    ]
    if ours.not_counted:
        shares.append(f"system calls are not counted: {ours.not_counted}")
    rows.append(
        Row(
            f"{title}: processor time of all ranks",
            "ms",
            ours.median("processor") / MS,
            select.name,
            select.median("processor") / MS,
            note=", ".join(shares),
        )
    )
    if not ours.not_counted:
        rows.append(
            Row(
                f"{title}: system calls of all ranks",
                "calls",
                ours.median("calls"),
                select.name,
                select.median("calls"),
                note=", ".join(f"{each.name} {each.median('calls'):,.0f}" for each in accounts),
            )
        )
    return rows
