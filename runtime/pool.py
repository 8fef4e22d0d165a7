"""The connections that this process opened, by address. One is opened when first needed, and again after a loss."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from staticfire.protocol.codecs import JSON, NATIVE, codec_for
from staticfire.protocol.command import Answer, Request
from staticfire.protocol.errors import ConnectFailed, ProtocolError, UsageError, os_words
from staticfire.runtime.addresses import parse_address
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Dispatcher
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine

if TYPE_CHECKING:
    from staticfire.runtime.credentials import Credentials

log = logger("connection")

A = TypeVar("A", bound=Answer)
Heard = Callable[[str, Connection], None]

CONNECT_TIMEOUT_MS = 3_000
REQUEST_TIMEOUT_MS = 3_000


class ConnectionPool:
    """One connection per address. Concurrent callers for the same address share one attempt to connect."""

    def __init__(
        self,
        machine: Machine,
        dispatcher: Dispatcher | None = None,
        codec_byte: int = NATIVE,
        connected: Heard | None = None,
        lost: Heard | None = None,
        credentials: "Credentials | None" = None,
    ) -> None:
        """`connected` and `lost` are called with the address and the connection that was opened or closed.

        `credentials`: the access key for requests; by default that of the machine, if it has one.
        """
        self._machine = machine
        self._dispatcher = dispatcher or Dispatcher()
        self._credentials = credentials or machine.identity.credentials
        self._codec = codec_for(codec_byte)
        if self._credentials is not None and codec_byte == JSON:
            self._codec = self._credentials.codec()
        self._open: dict[str, Connection] = {}
        self._attempts: dict[str, asyncio.Task[Connection]] = {}
        self._closed = False
        self._heard_connected = connected
        self._heard_lost = lost

    def random_name(self) -> str:
        """Return a name that no other request has."""
        return f"{self._machine.identity.random.getrandbits(128):032x}"

    @property
    def is_signing(self) -> bool:
        """Whether requests have an access key."""
        return self._credentials is not None

    def open_connection(self, address: str) -> Connection | None:
        """Return the connection if it is open now."""
        connection = self._open.get(address)
        return connection if connection is not None and connection.is_open else None

    def address_of(self, connection: Connection) -> str:
        """Return the address to which an open connection was requested; empty if it isn't open."""
        return next((address for address, one in self._open.items() if one is connection), "")

    async def connection(self, address: str) -> Connection:
        """Return the connection; connect first if needed. Raises: ConnectFailed."""
        connection = self.open_connection(address)
        if connection is not None:
            return connection
        attempt = self._attempts.get(address)
        if attempt is None:
            attempt = asyncio.get_running_loop().create_task(self._connect(address))
            self._attempts[address] = attempt
            attempt.add_done_callback(lambda ended: self._attempted(address, ended))
        return await asyncio.shield(attempt)

    def _attempted(self, address: str, attempt: asyncio.Task[Connection]) -> None:
        self._attempts.pop(address, None)
        if not attempt.cancelled():
            # The exception is retrieved here, because perhaps no caller waits for it any more.
            attempt.exception()

    async def _connect(self, address: str) -> Connection:
        if self._closed:
            raise _closed(address)
        try:
            host, port = parse_address(address)
        except UsageError as error:
            raise ConnectFailed(f"connect to {address} failed: {error}") from None
        connection = Connection(self._dispatcher, self._codec, accepting=False, owner=self)
        try:
            await self._machine.network.connect(lambda: connection, host, port, CONNECT_TIMEOUT_MS)
        except OSError as error:
            # A TimeoutError is an OSError, too.
            reason = os_words(error)
            raise ConnectFailed(f"connect to {address} failed: {reason.removeprefix(f'{address}: ')}") from None
        except asyncio.CancelledError:
            if self._closed:
                raise _closed(address) from None  # Its callers aren't cancelled.
            raise
        self._open[address] = connection
        if self._credentials is not None and self._codec.number == NATIVE:
            # Before any other request. Nameservers ignore it.
            connection.tell(self._credentials.sign_in(self.random_name()))
        if self._heard_connected is not None:
            self._heard_connected(address, connection)
        return connection

    def connected(self, connection: Connection) -> None:
        # `_connect` reports it, with its address, when the attempt has succeeded.
        pass

    def left_unfinished(self, connection: Connection, unread_bytes: int, is_new: bool) -> None:
        # A server may take its time; each request has a deadline.
        pass

    def rejected(self, connection: Connection, reason: str) -> None:
        log.warning("connection_rejected", peer=connection.peer.address, reason=reason)

    def takes_over(self, connection: Connection, error: ProtocolError) -> bool:
        return False  # A server never begins TLS.

    def disconnected(self, connection: Connection) -> None:
        for address, held in list(self._open.items()):
            if held is connection:
                del self._open[address]
                if self._heard_lost is not None:
                    self._heard_lost(address, connection)

    async def ask(self, address: str, request: Request, timeout_ms: int = REQUEST_TIMEOUT_MS) -> Answer:
        """Send a request; return the response. Raises: ConnectFailed, ConnectionLost, AnswerTimeout, ProtocolError."""
        return await (await self.connection(address)).ask(request, timeout_ms)

    async def tell(self, address: str, request: Request) -> None:
        """Send a one-way request. Raises: ConnectFailed, ConnectionLost."""
        (await self.connection(address)).tell(request)

    @property
    def addresses(self) -> list[str]:
        """The addresses with an open connection."""
        return sorted(self._open)

    async def close(self) -> None:
        """Close all connections and wait until they are closed."""
        self._closed = True
        await asyncio.sleep(0)  # A task that is cancelled before its first step can't report why.
        for attempt in list(self._attempts.values()):
            attempt.cancel()
        await asyncio.gather(*self._attempts.values(), return_exceptions=True)
        connections = list(self._open.values())
        for connection in connections:
            connection.close()
        ends = [connection.closed for connection in connections if connection.closed is not None]
        if ends:
            _, stuck = await asyncio.wait(ends, timeout=1)
            if stuck:
                for connection in connections:
                    connection.abort()
        await self._dispatcher.close()


def _closed(address: str) -> ConnectFailed:
    return ConnectFailed(f"{address}: this client is closed")
