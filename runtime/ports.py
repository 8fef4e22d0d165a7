"""Listening sockets that one process binds and another one serves.

Who starts a cluster binds all its ports first: a taken port is known before anything runs, port 0 is known to
everybody from the start, and a broker can connect to a nameserver that is still loading (it waits in the backlog).
"""

import errno
import socket

from staticfire.protocol.errors import UsageError
from staticfire.runtime.addresses import format_address

BACKLOG = 1024
NEXT_PORTS = 16
# Tried one after the other, where any near one will do.


class PortTaken(UsageError):
    """Another program listens there."""


def listen_on(host: str, port: int, way_out: str) -> socket.socket:
    """Return a socket that listens there. `way_out`: what to do when the port is taken.

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
            raise UsageError(f"{address} can't be listened on: this machine has no address {host}") from None
        kind = PortTaken if getattr(error, "errno", None) == errno.EADDRINUSE else UsageError
        raise kind(f"{address} can't be listened on: {_reason(error)}; {way_out}") from None
    return sock


def listen_near(host: str, port: int, way_out: str) -> socket.socket:
    """Return a socket that listens there, or at the next free port. Raises: UsageError."""
    for near in range(port, port + NEXT_PORTS - 1):
        try:
            return listen_on(host, near, way_out)
        except PortTaken:
            continue
    return listen_on(host, port + NEXT_PORTS - 1, way_out)


def port_of(sock: socket.socket) -> int:
    """Return the port in use, also when 0 was asked for."""
    return int(sock.getsockname()[1])


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return "something listens there already"
    if isinstance(error, OverflowError):
        return "ports end at 65535"
    return str(getattr(error, "strerror", None) or error)
