"""Addresses as records and message ids store them: 4 or 16 bytes of IP, then the port as a 32-bit number."""

from ipaddress import ip_address
from struct import Struct, error as StructError

from staticfire.protocol.errors import ProtocolError

_PORT = Struct(">i")


def pack_host(ip: str, port: int) -> bytes:
    """Return the 8 bytes of an IPv4 address or the 20 of an IPv6 one.

    IPv4-mapped IPv6 (`::ffff:10.0.0.1`, as a dual-stack listener sees it) counts as IPv4. Raises: ProtocolError.
    """
    try:
        address = ip_address(ip.partition("%")[0])
        mapped = address.ipv4_mapped if address.version == 6 else None
        return (mapped or address).packed + _PORT.pack(port)
    except (ValueError, StructError) as error:
        raise ProtocolError(f"not the address of a host: {ip!r}, {port!r}") from error


def unpack_host(host: bytes) -> tuple[str, int]:
    """Return IP and port. Raises: ProtocolError."""
    if len(host) not in (8, 20):
        raise ProtocolError(f"a host of {len(host)} bytes: IPv4 has 8, IPv6 has 20")
    return str(ip_address(host[:-4])), _PORT.unpack(host[-4:])[0]


def host_text(host: bytes) -> str:
    """Return `ip:port`, with an IPv6 address in brackets. Raises: ProtocolError."""
    ip, port = unpack_host(host)
    return f"{ip}:{port}" if len(host) == 8 else f"[{ip}]:{port}"
