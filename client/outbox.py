"""What leaves for one broker: messages of a moment gathered into one SEND_MANY, or one request each.

There is no linger: what the `send` calls of one tick of the event loop bring leaves at its end. While the window of
requests under way is full, further messages gather, so that a busy producer sends large requests and an idle one
answers as fast as a single send. Every message has a result of its own; one that has not gone well goes
back to the sender.

`is_gathering` False (RocketMQ's own brokers): each message is a request, and those of a tick share one write.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from staticfire.client.cluster_client import ClusterClient
from staticfire.client.load import Load
from staticfire.client.parcel import Parcel
from staticfire.client.routes import address_to_write
from staticfire.client.send_requests import Outcome, many_request, result_of, results_of, single_request
from staticfire.client.send_result import SendResult, SendStatus
from staticfire.client.settings import ProducerSettings
from staticfire.client.waiting_parcels import WaitingParcels
from staticfire.protocol.command import Answer, Request
from staticfire.protocol.errors import AnswerTimeout, ConnectFailed, NetworkError, ProtocolError, StaticfireError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection

Troubled = Callable[[Parcel, Outcome], None]
_SEND_OK = SendStatus.SEND_OK


class Outbox:
    """One broker's outgoing messages. All but connecting is synchronous."""

    def __init__(
        self,
        broker_name: str,
        group: str,
        client: ClusterClient,
        settings: ProducerSettings,
        load: Load,
        troubled: Troubled,
    ) -> None:
        self.broker_name = broker_name
        self._group = group
        self._client = client
        self._settings = settings
        self._load = load
        self._troubled = troubled
        self._loop = asyncio.get_running_loop()
        self._waiting = WaitingParcels()
        self._is_gathering = client.settings.protocol == "staticfire"
        self._window = settings.in_flight_gathered_max if self._is_gathering else settings.in_flight_single_max
        self._in_flight = 0
        self._planned = False
        self._blocked = False

    def put(self, parcel: Parcel) -> None:
        """Take a message; it leaves at the end of this tick, or when the window opens."""
        self._load.messages += 1
        self._load.bytes += parcel.size
        self._waiting.add(parcel)
        if not self._planned:
            self._planned = True
            self._loop.call_soon(self._leave)

    def _plan(self) -> None:
        if not self._planned and self._waiting:
            self._planned = True
            self._loop.call_soon(self._leave)

    def _leave(self) -> None:
        """Send as much as the window takes."""
        self._planned = False
        if not self._waiting or self._blocked or self._in_flight >= self._window:
            return
        address = address_to_write(self._client.routes.addresses, self.broker_name)
        connection = self._client.pool.open_connection(address) if address is not None else None
        if connection is None:
            self._blocked = True
            self._client.spawn(self._connect(address), f"connect {self.broker_name}")
            return
        writable = connection.writable()
        if writable is not None:
            self._blocked = True
            self._client.spawn(self._unblock(writable), f"write {self.broker_name}")
            return
        uptime_ms = self._client.machine.clock.uptime_ms()
        while self._waiting and self._in_flight < self._window:
            self._send_next(connection, uptime_ms)

    def _send_next(self, connection: Connection, uptime_ms: UptimeMs) -> None:
        settings = self._settings
        messages_max = settings.gathered_messages_max if self._is_gathering else 1
        parcels = self._waiting.take(messages_max, settings.gathered_bytes_max)
        timeout_ms = self._timeout_ms(parcels, uptime_ms)
        if timeout_ms <= 0:
            parcels = self._drop_late(parcels, uptime_ms)
            timeout_ms = self._timeout_ms(parcels, uptime_ms)
        if not parcels:
            return
        try:
            if self._is_gathering and not parcels[0].alone:
                answer = connection.ask(many_request(parcels, self._group, settings), timeout_ms)
            else:
                answer = connection.ask(self._single(parcels[0]), timeout_ms)
        except (NetworkError, ProtocolError) as error:
            self._fail(parcels, error)
            return
        self._in_flight += 1
        answer.add_done_callback(partial(self._answered, parcels, connection))

    def _single(self, parcel: Parcel) -> Request:
        return single_request(parcel.wire, self.broker_name, self._group, self._settings, parcel.batch)

    def _timeout_ms(self, parcels: list[Parcel], uptime_ms: UptimeMs) -> int:
        """Return how long to wait for the answer: as long as the most urgent of them may."""
        if not parcels:
            return 0
        left_ms = min([parcel.deadline_ms for parcel in parcels]) - uptime_ms
        limit_ms = self._settings.send_msg_max_timeout_per_request_ms
        return min(left_ms, limit_ms) if limit_ms > 0 and parcels[0].attempts_left else left_ms

    def _drop_late(self, parcels: list[Parcel], uptime_ms: UptimeMs) -> list[Parcel]:
        """Fail those whose time is over before they could leave; return the others."""
        late = [parcel for parcel in parcels if parcel.deadline_ms <= uptime_ms]
        words = f"not sent within {self._settings.send_msg_timeout_ms} ms: {self.broker_name} takes no more"
        self._fail(late, AnswerTimeout(words))
        return [parcel for parcel in parcels if parcel.deadline_ms > uptime_ms]

    def _answered(self, parcels: list[Parcel], connection: Connection, answer: asyncio.Future[Answer]) -> None:
        self._in_flight -= 1
        if answer.cancelled():
            self._fail(parcels, ConnectFailed("this client is closed"))
            return
        error = answer.exception()
        if error is not None:
            self._fail(parcels, error if isinstance(error, StaticfireError) else NetworkError(repr(error)))
            return
        if parcels[0].alone or not self._is_gathering:
            outcomes = [result_of(parcels[0], answer.result())]
        else:
            outcomes = results_of(parcels, answer.result(), connection.peer.address)
        self._load.remove(len(parcels), sum([parcel.size for parcel in parcels]))
        for parcel, outcome in zip(parcels, outcomes, strict=True):
            if parcel.ordered:
                self._waiting.settle(parcel)
            if not isinstance(outcome, SendResult) or outcome.status is not _SEND_OK:
                self._troubled(parcel, outcome)
            elif not parcel.future.done():
                parcel.future.set_result(outcome)
        self._plan()

    def _fail(self, parcels: list[Parcel], error: StaticfireError) -> None:
        self._load.remove(len(parcels), sum([parcel.size for parcel in parcels]))
        for parcel in parcels:
            self._waiting.settle(parcel)
            self._troubled(parcel, error)
        self._plan()

    async def _connect(self, address: str | None) -> None:
        try:
            if address is None:
                raise ConnectFailed(f"broker {self.broker_name} has no master in the routes")
            await self._client.pool.connection(address)
        except (NetworkError, ProtocolError) as error:
            self._blocked = False
            self._fail(self._waiting.take_all(), error)
        else:
            self._blocked = False
            self._leave()

    async def _unblock(self, writable: Awaitable[None]) -> None:
        await writable
        self._blocked = False
        self._leave()
