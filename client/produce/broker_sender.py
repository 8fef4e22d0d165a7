"""Sends messages to one broker: gathered into one SEND_MANY, or one request each.

There is no linger time: messages of `send` calls in one tick of the event loop are sent at its end. While the window of
requests in flight is full, further messages gather. So a busy producer sends large requests, and an idle one is as fast
as a single send. Every message has its own result; one that failed goes back to the sender.

If `is_gathering` is False (RocketMQ's own brokers), each message is a request, and those of a tick share one write.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.routes import address_to_write, without_master
from staticfire.client.cluster.settings import ProducerSettings
from staticfire.client.produce.backpressure import Backpressure
from staticfire.client.produce.bundle import Bundle
from staticfire.client.produce.pending_send import PendingSend
from staticfire.client.produce.send_requests import (
    Outcome,
    many_request,
    offset_prefix,
    outcome_of,
    result_of,
    results_of,
    single_request,
)
from staticfire.client.produce.send_result import SendResult, SendStatus
from staticfire.client.produce.waiting_sends import GatheredSends, WaitingSends
from staticfire.client.produce.waiting_time import WaitingTime
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import AnswerTimeout, ConnectFailed, NetworkError, ProtocolError, StaticfireError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.pending_answers import Reply

# If nothing is in flight, this many waiting messages or more are sent in two halves. If all were sent at once, broker
# and client would alternate: each would wait for the other's whole burst. Two halves stay separate.
HALVED_FROM = 32

Troubled = Callable[[PendingSend, Outcome], None]
Answered = Callable[[str, UptimeMs], None]
Heard = Callable[[Reply], None]
_SEND_OK = SendStatus.SEND_OK


class BrokerSender:
    """Messages to one broker. Everything but connecting is synchronous."""

    def __init__(
        self,
        broker_name: str,
        group: str,
        client: ClusterClient,
        settings: ProducerSettings,
        backpressure: Backpressure,
        troubled: Troubled,
        answered: Answered | None = None,
    ) -> None:
        """`troubled` gets each message with an outcome other than success.

        `answered`, if it is set, gets the send time of each request whose response arrives, to measure latency.
        """
        self.broker_name = broker_name
        self._group = group
        self._client = client
        self._settings = settings
        self._backpressure = backpressure
        self._troubled = troubled
        self._answered = answered
        self._loop = asyncio.get_running_loop()
        self._waiting = WaitingSends()
        self._line = self._waiting.line
        self._side_lines = self._waiting.side_lines
        self._waiting_time = WaitingTime(self._waiting, settings, client.machine.clock, self._give_up)
        self._is_gathering = client.settings.protocol == "staticfire"
        self._messages_max = settings.gathered_messages_max if self._is_gathering else 1
        self._window = settings.in_flight_gathered_max if self._is_gathering else settings.in_flight_single_max
        self._in_flight = 0
        self._planned = False
        self._blocked = False
        self._connecting = False

    # -- in ------------------------------------------------------------------------------------------------------

    def put_plain(self, pending: PendingSend) -> None:
        """Accept a first attempt that can share a request: the hot path of `put`."""
        if self._side_lines:
            self.put(pending)
            return
        backpressure = self._backpressure
        backpressure.messages += 1
        backpressure.bytes += pending.size
        self._line.append(pending)
        if not self._planned:
            self._planned = True
            self._loop.call_soon(self._leave)

    def put(self, pending: PendingSend) -> None:
        """Accept any message. It is sent at the end of this tick, or when the window and its queue have room."""
        self._backpressure.messages += 1
        self._backpressure.bytes += pending.size
        self._waiting.add(pending)
        self._waiting_time.include(pending)
        self._plan()

    def put_bundle(self, bundled: PendingSend) -> None:
        """Accept messages that are already counted as in flight."""
        self._waiting.add_bundle(bundled)
        self._plan()

    def _plan(self) -> None:
        if not self._planned and self._line:
            self._planned = True
            self._loop.call_soon(self._leave)

    # -- out -----------------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Send as much as the window allows."""
        self._planned = False
        if self._blocked or self._in_flight >= self._window:
            self._waiting_time.watch()
            return
        address = address_to_write(self._client.routes.addresses, self.broker_name)
        connection = self._client.pool.open_connection(address) if address is not None else None
        if connection is None:
            self._connecting = True
            self._block(self._connect(address), f"connect {self.broker_name}")
            return
        writable = connection.writable()
        if writable is not None:
            self._block(self._unblock(writable), f"write {self.broker_name}")
            return
        uptime_ms = self._client.machine.clock.uptime_ms()
        if self._in_flight == 0 and self._is_gathering and len(self._line) >= HALVED_FROM:
            self._send_next(connection, uptime_ms, (len(self._line) + 1) // 2)
        else:
            while self._line and self._in_flight < self._window:
                self._send_next(connection, uptime_ms, self._messages_max)
        connection.flush()
        if self._in_flight < self._window:
            self._plan()
        else:
            self._waiting_time.watch()

    def _block(self, wait: Coroutine[Any, Any, None], name: str) -> None:
        """Send nothing until the end of `wait`, or of the time of the sends that wait."""
        self._blocked = True
        self._client.spawn(wait, name)
        self._waiting_time.watch()

    def _send_next(self, connection: Connection, uptime_ms: UptimeMs, messages_max: int) -> None:
        settings = self._settings
        taken = self._waiting.take(min(messages_max, self._messages_max), settings.gathered_bytes_max)
        timeout_ms = taken.deadline_ms - uptime_ms
        if timeout_ms <= 0:
            self._line.extendleft(reversed(taken.sends))
            self._waiting_time.end_late(uptime_ms)
            return
        limit_ms = settings.send_msg_max_timeout_per_request_ms
        if 0 < limit_ms < timeout_ms and taken.sends[0].attempts_left:
            timeout_ms = limit_ms
        first = taken.sends[0]
        try:
            if first.bundle is not None:
                heard = self._timed(
                    uptime_ms, partial(self._bundle_answered, first, first.bundle, connection.peer.address)
                )
                connection.ask_for(many_request(first.bundle.rows, self._group, settings), timeout_ms, heard)
            elif self._is_gathering and not first.alone:
                heard = self._timed(uptime_ms, partial(self._many_answered, taken, connection.peer.address))
                messages = [pending.wire for pending in taken.sends]
                connection.ask_for(many_request(messages, self._group, settings), timeout_ms, heard)
            else:
                request = single_request(first.wire, self.broker_name, self._group, settings, first.batch)
                connection.ask_for(request, timeout_ms, self._timed(uptime_ms, partial(self._one_answered, taken)))
        except (NetworkError, ProtocolError) as error:
            self._fail(taken.sends, error)
            return
        self._in_flight += 1

    def _timed(self, began_ms: UptimeMs, heard: Heard) -> Heard:
        """Return a callback for a response, which also reports its time if latency is measured."""
        answered = self._answered
        if answered is None:
            return heard

        def timed(reply: Reply) -> None:
            if isinstance(reply, Answer):
                answered(self.broker_name, began_ms)
            heard(reply)

        return timed

    def _give_up(self, late: list[PendingSend]) -> None:
        """Fail sends whose time has passed before they could be sent, and which no longer wait."""
        error: NetworkError
        if self._connecting:
            error = ConnectFailed(f"not sent in time: no connection to {self.broker_name} yet")
        elif not self._blocked and self._in_flight == 0:
            words = f"{self.broker_name} was connected too late, or this program was too busy"
            error = ConnectFailed(f"not sent in time: {words}")
        else:
            does = "reads no data" if self._blocked else "hasn't answered earlier requests"
            error = AnswerTimeout(f"not sent in time: {self.broker_name} {does}")
        self._remove(late)
        for pending in late:
            self._troubled(pending, error)
        self._plan()

    # -- results -------------------------------------------------------------------------------------------------

    def _many_answered(self, taken: GatheredSends, peer_address: str, reply: Reply) -> None:
        self._in_flight -= 1
        sends = taken.sends
        results = results_of(len(sends), reply, peer_address)
        if isinstance(results, StaticfireError):
            self._fail(sends, results)
            return
        self._backpressure.remove(len(sends), taken.size)
        prefix = offset_prefix(peer_address)
        for pending, result in zip(sends, results, strict=True):
            if result.code == 0 and not pending.ordered:
                waiting = pending.future
                if not waiting.done():
                    waiting.set_result(
                        SendResult(
                            _SEND_OK,
                            pending.message_id,
                            pending.queue,
                            result.queue_offset,
                            result.log_position,
                            prefix,
                        )
                    )
            else:
                self._settle(pending, outcome_of(pending, result, prefix))
        self._plan()

    def _bundle_answered(self, bundled: PendingSend, bundle: Bundle, peer_address: str, reply: Reply) -> None:
        self._in_flight -= 1
        results = results_of(bundled.count, reply, peer_address)
        if isinstance(results, StaticfireError):
            self._fail([bundled], results)
            return
        self._backpressure.remove(bundled.count, bundled.size)
        prefix = offset_prefix(peer_address)
        for number in bundle.answered(results, prefix):
            pending = bundle.alone(number, bundled)
            self._settle(pending, outcome_of(pending, results[number], prefix))
        self._plan()

    def _one_answered(self, taken: GatheredSends, reply: Reply) -> None:
        self._in_flight -= 1
        self._backpressure.remove(1, taken.size)
        for pending in taken.sends:
            self._settle(pending, result_of(pending, reply) if isinstance(reply, Answer) else reply)
        self._plan()

    def _fail(self, sends: list[PendingSend], error: StaticfireError) -> None:
        self._remove(sends)
        for pending in sends:
            self._settle(pending, error)
        self._plan()

    def _remove(self, sends: list[PendingSend]) -> None:
        self._backpressure.remove(sum([pending.count for pending in sends]), sum([pending.size for pending in sends]))

    def _settle(self, pending: PendingSend, outcome: Outcome) -> None:
        self._waiting.settle(pending)
        if not isinstance(outcome, SendResult) or outcome.status is not _SEND_OK:
            self._troubled(pending, outcome)
        elif not pending.future.done():
            pending.future.set_result(outcome)

    # -- the connection ------------------------------------------------------------------------------------------

    async def _connect(self, address: str | None) -> None:
        try:
            if address is None:
                slaves = self._client.routes.addresses.get(self.broker_name, {})
                raise ConnectFailed(without_master(self.broker_name, slaves))
            await self._client.pool.connection(address)
        except StaticfireError as error:
            self._blocked = self._connecting = False
            self._fail(self._waiting.take_all(), error)
        else:
            self._blocked = self._connecting = False
            self._leave()

    async def _unblock(self, writable: Awaitable[None]) -> None:
        await writable
        self._blocked = False
        self._leave()
