"""Limits how long sends wait until their broker is connected, reads more data, or has answered earlier requests.

RocketMQ: `sendMsgTimeout` is the time of a message with all its attempts, `sendMsgMaxTimeoutPerRequest` that of each
attempt but the last, wherever the message waits. A request that was sent has its own timeout in its connection.

All sends of a broker share one timer, which is set when they have to wait. It may ring for nothing, once. If it rings
late, the program couldn't run, and what the sends wait for couldn't happen either: they get more time, once.
"""

import asyncio
from collections.abc import Callable

from staticfire.client.cluster.settings import ProducerSettings
from staticfire.client.produce.pending_send import PendingSend
from staticfire.client.produce.waiting_sends import WaitingSends
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.machine import Clock
from staticfire.runtime.pending_answers import extension_s

_NEVER = UptimeMs(1 << 62)


class WaitingTime:
    """Ends the waiting sends of one broker that are late. It uses the running event loop."""

    def __init__(
        self,
        waiting: WaitingSends,
        settings: ProducerSettings,
        clock: Clock,
        give_up: Callable[[list[PendingSend]], None],
    ) -> None:
        """`give_up` gets the late sends, which no longer wait."""
        self._waiting = waiting
        self._timeout_ms = settings.send_msg_timeout_ms
        self._attempt_ms = settings.send_msg_max_timeout_per_request_ms
        self._shortest_ms = min(self._timeout_ms, self._attempt_ms) if self._attempt_ms > 0 else self._timeout_ms
        self._clock = clock
        self._give_up = give_up
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_ms = _NEVER

    def watch(self) -> None:
        """End each waiting send in time. Hot while the window of requests is full; mostly the timer is set already.

        A send that was posted in this tick of the event loop, and is late already, makes a timer that rings late.
        """
        if self._timer is None and self._waiting.line:
            self._ring_at(self._first_due_ms())

    def include(self, pending: PendingSend) -> None:
        """End a new send in time, too: if it is a retry, it has less time than those that wait already.

        If it is late already, it has waited elsewhere, such as for a route, and gets no more time here.
        """
        due_ms = self._due_ms(pending)
        if due_ms < self._rings_ms:
            self._ring_at(max(due_ms, self._clock.uptime_ms()))

    def end_late(self, uptime_ms: UptimeMs) -> None:
        """End the sends whose time has passed, or give them more time if the program couldn't run."""
        self._end_late(uptime_ms, self._first_due_ms() if self._timer is None else self._rings_ms)

    def _due_ms(self, pending: PendingSend) -> UptimeMs:
        """Return when an attempt has waited for too long."""
        if self._attempt_ms <= 0 or not pending.attempts_left:
            return pending.deadline_ms
        began_ms = pending.retried_ms or pending.deadline_ms - self._timeout_ms
        return UptimeMs(min(pending.deadline_ms, began_ms + self._attempt_ms))

    def _first_due_ms(self) -> UptimeMs:
        return min(map(self._due_ms, self._waiting.everything()))

    def _ring_at(self, due_ms: UptimeMs) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_ms = due_ms
        self._timer = self._loop.call_later(max(due_ms - self._clock.uptime_ms(), 0) / 1000, self._ring)

    def _ring(self) -> None:
        rings_ms, self._timer, self._rings_ms = self._rings_ms, None, _NEVER
        self._end_late(self._clock.uptime_ms(), rings_ms)
        self.watch()

    def _end_late(self, uptime_ms: UptimeMs, rings_ms: UptimeMs) -> None:
        """`rings_ms`: when the timer should have rung."""
        more_ms = round(extension_s((uptime_ms - rings_ms) / 1000) * 1000)
        if more_ms:
            self._extend(UptimeMs(uptime_ms + min(more_ms, self._shortest_ms)))
        late = self._waiting.take_late(lambda pending: self._due_ms(pending) <= uptime_ms)
        if late:
            self._give_up(late)

    def _extend(self, until_ms: UptimeMs) -> None:
        """Give all sends time until then; a whole send gets more time once, so that each one ends.

        Sends that come later have at least as much time, so the first one in the line remains the most urgent one.
        """
        for pending in self._waiting.everything():
            if pending.deadline_ms < until_ms and not pending.extension_ms:
                pending.extension_ms, pending.deadline_ms = until_ms - pending.deadline_ms, until_ms
            if self._due_ms(pending) < until_ms:  # The attempt would end before.
                pending.retried_ms = UptimeMs(until_ms - self._attempt_ms)
