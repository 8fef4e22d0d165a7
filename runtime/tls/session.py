"""One TLS session, without input and output of its own: bytes in, plain text and bytes out.

asyncio can't start TLS after it has delivered bytes, and a server decides by the first byte, so the session is driven
here. It also works where asyncio was imported without OpenSSL, and in a simulated network.
"""

import ssl

from staticfire.protocol.errors import ProtocolError
from staticfire.runtime.tls.failures import failure_words

READ_BYTES = 64 * 1024


class TlsFailed(ProtocolError):
    """The handshake failed, or the session broke."""


class TlsSession:
    """One side of a session."""

    def __init__(self, context: ssl.SSLContext, is_server: bool = True, host: str | None = None) -> None:
        """`host`: the name of the server, for a client."""
        self._is_server = is_server
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server, server_hostname=host)
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
            pass  # The peer has sent close_notify; the end of the connection follows.
        except ssl.SSLError as error:
            raise TlsFailed(f"TLS: {failure_words(error, self._is_server)}") from None
        return plain[0] if len(plain) == 1 else b"".join(plain)

    def send(self, data: bytes) -> None:
        """Encrypt data; `to_send` returns the result."""
        view = memoryview(data)
        while view:
            view = view[self._session.write(view) :]

    def to_send(self) -> bytes:
        """Return the encrypted bytes for the peer."""
        return self._outgoing.read()

    def end(self) -> None:
        """Announce the end of the session (close_notify); `to_send` returns it."""
        try:
            self._session.unwrap()
        except ssl.SSLError:
            pass  # The peer hasn't sent its close_notify yet, and we close without waiting for it.

    @property
    def ssl_object(self) -> ssl.SSLObject:
        """OpenSSL's object, with the version, the cipher and the peer's certificate."""
        return self._session
