"""Which protocol a connection begins with, by its first bytes. Pure. A frame's first byte is 0 or 1."""

from staticfire.protocol.errors import ProtocolError

# The first byte of a TLS record: an alert, and a handshake, with which each TLS connection begins.
TLS_ALERT, TLS_HANDSHAKE = 0x15, 0x16
TLS_FIRST = bytes([TLS_ALERT]), bytes([TLS_HANDSHAKE])


class TlsHello(ProtocolError):
    """A connection begins with TLS."""


class PlainText(ProtocolError):
    """A connection begins without TLS, and only TLS is accepted."""


def recognise(data: bytes) -> None:
    """Refuse the first bytes of a connection if they belong to another protocol. Raises: ProtocolError.

    A frame is shorter than 16 MiB, so its first byte is 0 (or 1). Any other first byte isn't RocketMQ remoting.
    """
    if data[0] <= 1:
        return
    if data[0] == TLS_HANDSHAKE:
        raise TlsHello("these bytes are TLS; this port speaks plain TCP: turn useTLS off in the client")
    if data[0] == TLS_ALERT and data[1:2] in (b"", b"\x03"):
        raise ProtocolError(
            "the peer speaks only TLS on this port: turn TLS on in the client (tls=True, --tls, useTLS)"
        )
    if b"PRI * HTTP/2".startswith(data[:12]):
        raise ProtocolError("these bytes are HTTP/2, probably of a 5.x gRPC client: use the gRPC port, usually 8081")
    if data.split(b" ", 1)[0] in (b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"CONNECT", b"PATCH"):
        raise ProtocolError("these bytes are HTTP: use the port of the control endpoint, usually 8082")
    raise ProtocolError(f"these bytes are not a frame: {data[:16].hex(' ')}")
