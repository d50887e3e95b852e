"""Where the rendezvous is, as text."""

from acp_mpi.errors import Error


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of "host:port" or "[IPv6]:port"."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not colon or not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise Error(f"address {address!r}: expected HOST:PORT, or [ADDRESS]:PORT for IPv6")
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """Return what `parse_address` takes apart."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def may_span_hosts(address: str) -> bool:
    """Return whether processes of other hosts can come to this address."""
    host = parse_address(address)[0]
    return host != "localhost" and host != "::1" and not host.startswith("127.")
