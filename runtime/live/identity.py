"""The identity of this process. It is found locally: no name is looked up, and no packet is sent."""

import fcntl
import os
import random
import socket
import struct
import time
from typing import TYPE_CHECKING

from staticfire.runtime.machine import KEY_VARIABLES, Identity

if TYPE_CHECKING:
    from staticfire.runtime.credentials import Credentials

LOOPBACK = "127.0.0.1"
# An address for documentation (RFC 5737). "Connecting" a UDP socket to it only selects the local address of the route.
NOWHERE = ("192.0.2.1", 9)
# Linux's ioctl number for the address of a network interface.
_SIOCGIFADDR = 0x8915


def live_identity() -> Identity:
    """Return this process's identity, with a random generator that the operating system seeds."""
    return Identity(
        pid=os.getpid(),
        host_name=socket.gethostname(),
        host_ip=host_ip(),
        random=random.Random(),
        utc_offset_ms=time.localtime().tm_gmtoff * 1000,
        credentials=_credentials(),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    )


def _credentials() -> "Credentials | None":
    """Return the access key in the environment, if there is one. Raises: UsageError (it can't be used)."""
    if not any(name in os.environ for name in KEY_VARIABLES):
        return None
    from staticfire.runtime.credentials import Credentials  # imported here: most processes have none

    return Credentials.of_environment(os.environ)


def host_ip() -> str:
    """Return the IPv4 address by which other machines most likely reach this one; loopback if it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(NOWHERE)
            address = str(probe.getsockname()[0])
        except OSError:
            # There is no default route, as in an isolated container network. Any interface's address will do.
            address = next((found for found in map(_address_of, interfaces()) if found), LOOPBACK)
    return LOOPBACK if address == "0.0.0.0" else address


def interfaces() -> list[str]:
    try:
        return [name for _, name in socket.if_nameindex()]
    except OSError:
        return []


def _address_of(interface: str) -> str:
    """Return the interface's address; empty if it has none or only a loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return ""
    address = socket.inet_ntoa(answer[20:24])
    return "" if address.startswith("127.") else address
