"""Listening sockets that one process binds and another one serves.

The process that starts a cluster binds all ports first. So a port that is taken is found before anything runs, the real
port behind port 0 is known from the start, and a broker can connect to a nameserver that is still starting (the
connection waits in the backlog).
"""

import errno
import socket

from staticfire.protocol.errors import UsageError
from staticfire.runtime.addresses import format_address

BACKLOG = 1024
# The number of ports to try, one after the other, if a nearby port will do.
NEXT_PORTS = 16


class PortTaken(UsageError):
    """Another program listens on the port."""


def listen_on(host: str, port: int, way_out: str, names_holder: bool = True) -> socket.socket:
    """Return a socket that listens at host:port. `way_out`: the advice in the error if that fails.

    `names_holder`: whether the error names the program that has the port, which takes some milliseconds to find out.

    Raises: UsageError.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        sock.close()
        address = format_address(host, port)
        if isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL:
            raise UsageError(f"can't listen on {address}: this machine has no address {host}") from None
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise PortTaken(f"port {port} is in use{_holder(port) if names_holder else ''}; {way_out}") from None
        raise UsageError(f"can't listen on {address}: {_reason(error)}; {way_out}") from None
    return sock


def listen_near(host: str, port: int, way_out: str) -> socket.socket:
    """Return a socket that listens at this port, or at the next free one. Raises: UsageError."""
    for near in range(port, port + NEXT_PORTS - 1):
        try:
            return listen_on(host, near, way_out, names_holder=False)
        except PortTaken:
            continue
    return listen_on(host, port + NEXT_PORTS - 1, way_out)


def port_of(sock: socket.socket) -> int:
    """Return the port in use, also if port 0 was requested."""
    return int(sock.getsockname()[1])


def _holder(port: int) -> str:
    from staticfire.runtime.port_holder import words_for_holder  # here, since few starts need it

    words = words_for_holder(port)
    return f": {words}" if words else ""


def _reason(error: Exception) -> str:
    if isinstance(error, OverflowError):
        return "the highest port is 65535"
    return str(getattr(error, "strerror", None) or error)
