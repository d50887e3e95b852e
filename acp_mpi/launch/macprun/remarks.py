"""Warnings of the library about a job that macprun starts, under its name, above the table."""

import logging

from acp_mpi.launch.macprun.table import Table


class Remarks(logging.Handler):
    """Writes warnings to the terminal, whichever thread they are from."""

    def __init__(self, table: Table) -> None:
        super().__init__(logging.WARNING)
        self._table = table
        logging.getLogger("acp_mpi").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a warning."""
        try:
            self._table.say(f"macprun: {record.getMessage()}")
        except Exception:
            self.handleError(record)

    def hush(self) -> None:
        """Write nothing more: ranks that leave from now on do so on macprun's order."""
        self.setLevel(logging.CRITICAL + 1)
