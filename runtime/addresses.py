"""Addresses as users write them, `host:port`, and lists of addresses.

IPv6 hosts are written in brackets: `[::1]:9876`.
"""

from staticfire.protocol.errors import UsageError

Address = tuple[str, int]

PORT_DIGITS_MAX = 5
# The length of a part of a host name, between two dots. Python's name lookup refuses a longer or an empty one.
LABEL_CHARS_MAX = 63


def parse_address(text: str, default_port: int | None = None) -> Address:
    """Return host and port. Raises: UsageError, which shows the given text."""
    host, separator, port = text.strip().rpartition(":")
    if (not separator or "]" in port) and default_port is not None:
        host, port = text.strip(), str(default_port)
    host = host.removeprefix("[").removesuffix("]")
    is_port = port.isdecimal() and len(port) <= PORT_DIGITS_MAX and int(port) <= 65535
    if not _is_host(host) or not is_port:
        raise UsageError(f"{text!r} is not an address; write host:port, for example 127.0.0.1:9876")
    return host, int(port)


def _is_host(host: str) -> bool:
    """Return whether a host can be looked up: it is an IP address, or it may be a name."""
    if not host or " " in host or not host.isprintable():
        return False
    if ":" in host:
        return True
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            return False
    return all(0 < len(label) <= LABEL_CHARS_MAX for label in host.removesuffix(".").split("."))


def parse_addresses(text: str) -> list[Address]:
    """Return the addresses of a list separated by semicolons or commas. Raises: UsageError if there is none."""
    addresses = [parse_address(part) for part in text.replace(",", ";").split(";") if part.strip()]
    if not addresses:
        raise UsageError("no nameserver address; write host:port, for example 127.0.0.1:9876")
    return addresses


def each_address(text: str) -> list[str]:
    """Return the addresses of a list, each as `host:port`. Raises: UsageError."""
    return [format_address(*address) for address in parse_addresses(text)]


def comparable(text: str) -> set[Address]:
    """Return the addresses of a list, for comparisons: localhost is 127.0.0.1, case doesn't matter. Raises: UsageError.

    Other names aren't looked up.
    """
    lower = [(host.lower(), port) for host, port in parse_addresses(text)]
    return {("127.0.0.1" if host == "localhost" else host, port) for host, port in lower}


def plain_host(host: str) -> str:
    """Return the host, with IPv4 unwrapped from IPv4-mapped IPv6 (`::ffff:127.0.0.1`)."""
    return host[7:] if host.startswith("::ffff:") and "." in host else host


def format_address(host: str, port: int) -> str:
    """Return `host:port`, with brackets if the host is IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
