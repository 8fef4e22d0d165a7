"""TLS on a connection whose first bytes were read already, without input and output of its own.

asyncio can't begin TLS behind bytes that it has handed out, so the session is driven here: bytes in, plain text and
bytes out.
"""

import ssl

from staticfire.protocol.errors import ProtocolError

READ_BYTES = 64 * 1024


class TlsFailed(ProtocolError):
    """No session came about, or it broke."""


class TlsSession:
    """The server's side of one session."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_open = False
        """Both sides have agreed."""

    def receive(self, data: bytes) -> bytes:
        """Return the plain text that has come; `to_send` may have something then. Raises: TlsFailed."""
        self._incoming.write(data)
        plain: list[bytes] = []
        try:
            if not self.is_open:
                self._session.do_handshake()
                self.is_open = True
            while part := self._session.read(READ_BYTES):
                plain.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            pass  # The client has said goodbye; the end of the connection follows.
        except ssl.SSLError as error:
            reason = (error.reason or str(error)).lower().replace("_", " ")
            raise TlsFailed(f"TLS: {reason}{_way_out(reason)}") from None
        return b"".join(plain)

    def send(self, data: bytes) -> None:
        """Encrypt; fetch it with `to_send`."""
        view = memoryview(data)
        while view:
            view = view[self._session.write(view) :]

    def to_send(self) -> bytes:
        """Return what is to go to the client."""
        return self._outgoing.read()

    def end(self) -> None:
        """Announce that nothing more comes (close_notify); fetch it with `to_send`."""
        try:
            self._session.unwrap()
        except ssl.SSLError:
            pass  # The client hasn't announced it yet, and the connection closes without waiting for that.


def _way_out(reason: str) -> str:
    if "unknown ca" in reason or "certificate" in reason:
        return "; the client checks certificates, and this one is made at start: take its file as root, or turn TLS off"
    if "http request" in reason or "wrong version" in reason or "version too low" in reason:
        return "; TLS 1.2 and later is taken here"
    return ""
