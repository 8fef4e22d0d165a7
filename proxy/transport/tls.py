"""TLS on a connection whose first bytes were already read, without input and output of its own.

asyncio can't start TLS after it has delivered bytes, so the session is driven here: bytes in, plain text and bytes out.
"""

import ssl

from staticfire.protocol.errors import ProtocolError

READ_BYTES = 64 * 1024


class TlsFailed(ProtocolError):
    """The handshake failed, or the session broke."""


class TlsSession:
    """The server side of one TLS session."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_open = False
        """The handshake is complete."""

    def receive(self, data: bytes) -> bytes:
        """Return the plain text that has arrived. After that, send what `to_send` returns. Raises: TlsFailed."""
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
            pass  # The client has sent close_notify; the end of the connection follows.
        except ssl.SSLError as error:
            reason = (error.reason or str(error)).lower().replace("_", " ")
            raise TlsFailed(f"TLS: {reason}{_way_out(reason)}") from None
        return b"".join(plain)

    def send(self, data: bytes) -> None:
        """Encrypt data; `to_send` returns the result."""
        view = memoryview(data)
        while view:
            view = view[self._session.write(view) :]

    def to_send(self) -> bytes:
        """Return the encrypted bytes for the client."""
        return self._outgoing.read()

    def end(self) -> None:
        """Announce the end of the session (close_notify); `to_send` returns it."""
        try:
            self._session.unwrap()
        except ssl.SSLError:
            pass  # The client hasn't sent its close_notify yet, and we close without waiting for it.


def _way_out(reason: str) -> str:
    if "unknown ca" in reason or "certificate" in reason:
        return (
            "; the client checks certificates, and this one was created at the start: use its file as the root "
            "certificate, or turn TLS off"
        )
    if "http request" in reason or "wrong version" in reason or "version too low" in reason:
        return "; TLS 1.2 or later is required"
    return ""
