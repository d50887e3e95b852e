"""Messages of the library through `logging`, which it loads only when there is need.

`logging` and what it imports take as much memory as all of this library at start.
"""

import sys


def info(room: str, text: str, *arguments: object) -> None:
    """Tell the listeners: without `logging` in the program there are none."""
    if logging := sys.modules.get("logging"):
        logging.getLogger(f"acp_mpi.{room}").info(text, *arguments, stacklevel=2)


def debug(room: str, text: str, *arguments: object) -> None:
    """Tell those who look for a cause, likewise."""
    if logging := sys.modules.get("logging"):
        logging.getLogger(f"acp_mpi.{room}").debug(text, *arguments, stacklevel=2)


def warning(room: str, text: str, *arguments: object) -> None:
    """Warn: on standard error, if the program says nothing else."""
    import logging

    logging.getLogger(f"acp_mpi.{room}").warning(text, *arguments, stacklevel=2)
