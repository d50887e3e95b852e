"""Services by name, for all ranks of the job: the names that `acp.publish` gives, too."""

from __future__ import annotations

import acp_mpi as acp
from acp_mpi.spawn.standin.original import MPI

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ANSWER = 0.5  # s for the rank that keeps a name to answer: for one that is not there it waits
_own: set[str] = set()  # services of this process


def _key(service: str) -> str:
    return f"mpi service {service}"


def _fail(code: int, text: str) -> None:
    error = MPI.Exception(code)
    error.add_note(text)
    raise error


def _find(service: str) -> str | None:
    try:
        port: str | None = acp.lookup(_key(service), timeout=_ANSWER)
    except TimeoutError:
        return None
    return port


def publish(service_name: str, port_name: str, info: Any = MPI.INFO_NULL) -> None:
    """Make a port known by the name of a service."""
    if service_name in _own:
        _fail(MPI.ERR_SERVICE, f"Publish_name: {service_name!r} is published here already")
    try:
        acp.publish(_key(service_name), port_name)
    except ValueError as reason:
        _fail(MPI.ERR_SERVICE, f"Publish_name: {reason}")
    _own.add(service_name)


def unpublish(service_name: str, port_name: str, info: Any = MPI.INFO_NULL) -> None:
    """Take the name of a service back."""
    try:
        _own.discard(service_name)
        acp.withdraw(_key(service_name))
    except (KeyError, ValueError):
        _fail(MPI.ERR_SERVICE, f"Unpublish_name: {service_name!r} was not published here")


def lookup(service_name: str, info: Any = MPI.INFO_NULL) -> str:
    """Return the port of a service."""
    port = _find(service_name)
    if port is None:
        _fail(MPI.ERR_NAME, f"Lookup_name: nobody in this job has published {service_name!r}")
    assert port is not None
    return port
