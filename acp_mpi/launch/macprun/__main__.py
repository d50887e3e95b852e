"""`python -m acp_mpi.launch.macprun`, and the command `macprun`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:
    import _signal as signal  # what signal makes of it takes time to load


def main() -> NoReturn:
    """Run the command line of this process; Ctrl-C while it is loaded ends it in silence."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from acp_mpi.launch.macprun import command

    signal.signal(signal.SIGINT, before)
    command.main()


if __name__ == "__main__":
    main()
