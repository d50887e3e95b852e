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


def address_towards(host: str) -> str:
    """Return this host's address on the way to another; nothing is sent. Raises OSError."""
    import socket  # 0.3 MB that members do without

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))
        return str(probe.getsockname()[0])


def own_address() -> str:
    """Return the address by which this host is reached from elsewhere, loopback if it is not."""
    try:
        return address_towards("192.0.2.1")  # RFC 5737: an address without a host
    except OSError:
        return "127.0.0.1"


def said_of(host: str, reason: OSError) -> str:
    """Say why a host cannot be reached; one that no name server knows is called unknown."""
    why = reason.strerror or str(reason)
    # errors of name servers have negative numbers, those of the system positive ones
    return f"host {host!r} is unknown: {why}" if (reason.errno or 0) < 0 else why


def may_span_hosts(address: str) -> bool:
    """Return whether processes of other hosts can come to this address."""
    host = parse_address(address)[0]
    return host != "localhost" and host != "::1" and not host.startswith("127.")
