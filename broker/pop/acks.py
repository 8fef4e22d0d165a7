"""Messages that are done, or hidden for longer. RocketMQ: AckMessageProcessor, ChangeInvisibleTimeProcessor.

An acknowledgement counts when its handle means a check-point that has the message; all others do nothing, and are
answered as if they had. So is a change, which moves its message to a check-point of its own.
"""

from collections.abc import Sequence
from typing import NamedTuple

from staticfire.broker.clock.quiescence import PUSH
from staticfire.broker.pop.events import NO_OFFSET, GroupQueue, OrderState
from staticfire.broker.pop.in_flight import GIVEN_BACK, CheckPoint, PoppedQueue
from staticfire.broker.pop.orders import AckOutcome, acknowledged, free_at_ms, offset_behind, postponed
from staticfire.broker.pop.tables import PopTables
from staticfire.broker.pop.taking import REVIVE_QUEUE, flag_of
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.pop_handles import PopHandle
from staticfire.protocol.requests.pop import ORDERLY_REVIVE_QUEUE
from staticfire.runtime.connection import Connection


class Changed(NamedTuple):
    """What a change of the invisible time is answered with."""

    pop_ms: int = 0
    invisible_ms: int = 0
    revive_queue: int = 0


class Acknowledger:
    """Works on handles."""

    def __init__(self, tables: PopTables) -> None:
        self._tables = tables
        self._state = tables.state
        self.freed: list[GroupQueue] = []
        """Queues that an acknowledgement in order has made free; who wakes pops takes them away."""

    def ack(self, place: GroupQueue, handle: PopHandle, offsets: Sequence[int], peer: str) -> None:
        """Take note that messages are done. Raises: BrokerAnswer (in order, and one isn't of that pop)."""
        if handle.revive_queue == ORDERLY_REVIVE_QUEUE:
            for offset in offsets:
                self._ack_in_order(place, handle, offset, peer)
            return
        found = self._find(place, handle)
        if found is not None:
            self._remove(*found, offsets)

    def change(
        self, place: GroupQueue, handle: PopHandle, offset: int, times: tuple[int, Connection | None]
    ) -> Changed:
        """Hide a message until another time. `times`: for how long from now on, and for whom; None: given back."""
        invisible_ms, connection = times
        now_ms = self._state.clock.message_ms()
        if handle.revive_queue == ORDERLY_REVIVE_QUEUE:
            return self._change_in_order(place, handle, offset, now_ms + invisible_ms)
        pop_ms = int(now_ms)
        found = self._find(place, handle)
        if found is not None and self._remove(*found, [offset]):
            queue = found[0]
            while queue.find(offset, pop_ms) is not None or (offset, pop_ms) == (handle.start_offset, found[1].pop_ms):
                pop_ms += 1  # time stands: each check-point has a name of its own all the same
            if connection is None or self._gives_back(place.group):
                owner = GIVEN_BACK
            else:
                owner = self._tables.owners.number_of(connection)
            self._put(queue, CheckPoint(offset, pop_ms, 1, now_ms + invisible_ms, owner))
        return Changed(pop_ms, invisible_ms, handle.revive_queue)

    # -- check-points --------------------------------------------------------------------------------------------

    def _find(self, place: GroupQueue, handle: PopHandle) -> tuple[PoppedQueue, CheckPoint] | None:
        """Return the check-point that a handle means."""
        is_ours = handle.broker_name == self._state.settings.broker_name and handle.revive_queue == REVIVE_QUEUE
        if not is_ours or handle.flag != flag_of(place.topic):
            return None
        queue = self._tables.in_flight.find(place.group, place.topic, place.queue_id)
        found = None if queue is None else queue.find(handle.start_offset, handle.pop_time_ms)
        return None if queue is None or found is None else (queue, found)

    def _remove(self, queue: PoppedQueue, found: CheckPoint, offsets: Sequence[int]) -> bool:
        """Take messages out of a check-point; return whether one was in it."""
        size, messages = found.messages.bit_length(), 0
        for offset in offsets:
            if 0 <= offset - found.start < size:
                messages |= 1 << (offset - found.start)
        removed = self._tables.remove(queue, found.start, found.pop_ms, messages)
        if not removed:
            return False
        self._state.progress.activity += 1
        in_flight = self._tables.in_flight

        def undo(is_written: bool) -> None:
            if not is_written:
                now = queue.find(found.start, found.pop_ms)
                left = 0 if now is None else now.messages
                in_flight.put(queue, found._replace(messages=left | removed))

        self._tables.log.when_written(undo)
        return True

    def _put(self, queue: PoppedQueue, new: CheckPoint) -> None:
        tables = self._tables
        tables.put(queue, new)

        def undo(is_written: bool) -> None:
            if not is_written:
                tables.in_flight.remove(queue, new.start, new.pop_ms, new.messages)

        tables.log.when_written(undo)

    def _gives_back(self, group: str) -> bool:
        """Whether who changes an invisible time has failed to consume the message: push consumers do it then only."""
        online = self._state.consumers.consumer_table.get(group)
        return online is not None and online.consume_type == PUSH

    # -- in order ------------------------------------------------------------------------------------------------

    def _ack_in_order(self, place: GroupQueue, handle: PopHandle, offset: int, peer: str) -> None:
        offsets, now_ms = self._state.offsets, self._state.clock.message_ms()
        committed = offsets.committed(place.group, place.topic, place.queue_id)
        if offset < committed:
            return
        old = self._tables.orders.find(place)
        if old is None:
            self._put_order(place, None, offset + 1)
            return
        outcome, state = acknowledged(old, offset, handle.pop_time_ms, now_ms)
        if outcome is AckOutcome.ILLEGAL:
            words = (
                f"offset is illegal, key:{place.topic}@{place.group}@{place.queue_id}, old:{committed}, "
                f"commit:{offset}, next:-1, /{peer}"
            )
            raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, words)
        if outcome is AckOutcome.COUNTED:
            self._put_order(place, state, offset_behind(state))
            if free_at_ms(state) is None:
                self.freed.append(place)

    def _put_order(self, place: GroupQueue, state: OrderState | None, committed: int) -> None:
        tables, offsets = self._tables, self._state.offsets
        old, key = tables.orders.find(place), (place.group, place.topic, place.queue_id)
        stood = offsets.committed(*key)
        if offsets.has_reset(*key):
            committed = NO_OFFSET  # the next pop begins where it was moved to
        tables.put_order(place, state, committed)
        if committed != NO_OFFSET:
            tables.commit(place, committed)

        def undo(is_written: bool) -> None:
            if not is_written:
                tables.orders.put(place, old)
                tables.commit(place, stood)

        tables.log.when_written(undo)

    def _change_in_order(self, place: GroupQueue, handle: PopHandle, offset: int, visible_ms: int) -> Changed:
        committed = self._state.offsets.committed(place.group, place.topic, place.queue_id)
        if offset < committed:
            return Changed()
        state = self._tables.orders.find(place)
        if state is not None and state.pop_ms == handle.pop_time_ms and offset in state.offsets:
            now_ms = self._state.clock.message_ms()
            self._put_order(place, postponed(state, offset, visible_ms, now_ms), NO_OFFSET)
        return Changed(handle.pop_time_ms, visible_ms - handle.pop_time_ms, ORDERLY_REVIVE_QUEUE)
