"""What the library has to say of a job that macprun starts, under its name and above the table."""

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
        """Write nothing more: who leaves from now on does so because macprun has told it to."""
        self.setLevel(logging.CRITICAL + 1)
