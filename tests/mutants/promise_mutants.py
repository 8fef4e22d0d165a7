"""What somebody could get wrong that checkers once excused or never compared: contents, promises, late deliveries."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from staticfire.broker.handlers.pull import PullHandlers
from staticfire.broker.handlers.recall import RecallHandlers
from staticfire.broker.handlers.reset_offset import ResetOffsetHandlers
from staticfire.broker.handlers.send_back import SendBackHandlers
from staticfire.broker.timers import forms as timer_forms
from staticfire.broker.timers.recovery import TimerRecovery
from staticfire.broker.transactions import forms as half_forms
from staticfire.broker.transactions.service import TransactionService
from staticfire.client.cluster.routes import publish_queues
from staticfire.client.consume.queues import queue_decisions
from staticfire.client.offsets.local_offsets import LocalOffsets
from staticfire.client.produce import destinations
from staticfire.nameserver.route_table import RouteTable
from staticfire.protocol.codes import ResponseCode
from staticfire.simulation.runs import sending

Patch = pytest.MonkeyPatch
LATE_MS, WAKES_FOR_MS = 200_000, 45_000


def _lost_brokers_stay(patch: Patch) -> None:
    patch.setattr(RouteTable, "lose", lambda *_: [])
    patch.setattr(RouteTable, "expire", lambda *_: [])


def _pulls_soon_not_woken(patch: Patch) -> None:
    whole = PullHandlers.arrived

    def arrived(self: PullHandlers, queues: Any) -> None:
        if self._state.machine.clock.uptime_ms() < WAKES_FOR_MS:
            whole(self, queues)

    patch.setattr(PullHandlers, "arrived", arrived)


def _held_pulls_that_passed_not_woken(patch: Patch) -> None:
    """A pull that has passed messages that don't match isn't woken by one that does."""
    whole = PullHandlers.arrived

    def arrived(self: PullHandlers, queues: Any) -> None:
        passed = [pull for pull in self._held if pull.offset != pull.call.request.queue_offset]
        topics = {(pull.call.request.topic, pull.call.request.queue_id) for pull in passed}
        whole(self, [queue for queue in queues if (queue.topic, queue.queue_id) not in topics])

    patch.setattr(PullHandlers, "arrived", arrived)


def _found_timers_late(patch: Patch) -> None:
    whole = TimerRecovery._take_in_entry

    def take_in_entry(self: TimerRecovery, offset: int, entry: Any) -> bool:
        if entry.tags_code > 0:
            entry = entry._replace(tags_code=entry.tags_code + (LATE_MS << timer_forms.HASH_BITS))
        return whole(self, offset, entry)

    patch.setattr(TimerRecovery, "_take_in_entry", take_in_entry)


def _committed_twice(patch: Patch) -> None:
    whole = TransactionService.end

    def end(self: TransactionService, half: Any, is_commit: bool, on_stored: Any, context: Any) -> None:
        if is_commit:
            topic, queue_id = half_forms.place_of(half)
            final = half_forms.final_of(half, self._store.queue(topic, queue_id))
            self._intake.put(final, lambda *_: None, None)
        whole(self, half, is_commit, on_stored, context)

    patch.setattr(TransactionService, "end", end)


def _sent_back_as(**changes: Any) -> Callable[[Patch], None]:
    def patched(patch: Patch) -> None:
        whole = SendBackHandlers._put

        def put(self: SendBackHandlers, call: Any, old: Any, queue: Any, sent_back: Any) -> None:
            whole(self, call, msgspec.structs.replace(old, **changes), queue, sent_back)

        patch.setattr(SendBackHandlers, "_put", put)

    return patched


def _made_with(owner: Any, name: str, **changes: Any) -> Callable[[Patch], None]:
    """Return a mutant that makes a record from one with other fields."""
    whole = getattr(owner, name)

    def made(old: Any, *arguments: Any) -> Any:
        return whole(msgspec.structs.replace(old, **changes), *arguments)

    return lambda patch: patch.setattr(owner, name, made)


def _local_offsets_not_written(patch: Patch) -> None:
    async def store(self: LocalOffsets, queues: Any) -> None:
        """Write nothing."""

    patch.setattr(LocalOffsets, "_store", store)


def _recalls_refused(patch: Patch) -> None:
    def recall(self: RecallHandlers, call: Any) -> Any:
        return self._refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed")

    patch.setattr(RecallHandlers, "recall", recall)


def _keys_ignored(patch: Patch) -> None:
    count = [0]

    def choose(queues: Any, *_: Any) -> Any:
        count[0] += 1
        return queues[count[0] % len(queues)]

    patch.setattr(sending, "by_hash", choose)


def _all_queues_written(patch: Patch) -> None:
    """A producer takes the number of queues to read for the number of queues to write."""

    def published(topic: str, route: Any) -> Any:
        datas = [
            msgspec.structs.replace(queues, write_queue_nums=max(queues.read_queue_nums, queues.write_queue_nums))
            for queues in route.queue_datas
        ]
        return publish_queues(topic, msgspec.structs.replace(route, queue_datas=datas))

    patch.setattr(destinations, "publish_queues", published)


def _first_offset(_: ResetOffsetHandlers, queue: Any, timestamp: int) -> int:
    return int(queue.min_offset)


PROMISE_MUTANTS: dict[str, Callable[[Patch], None]] = {
    "a lost broker stays in the routes": _lost_brokers_stay,
    "held pulls are notified for 45 s": _pulls_soon_not_woken,
    "a held pull that has passed messages isn't notified": _held_pulls_that_passed_not_woken,
    "a start delivers what waits for its time late": _found_timers_late,
    "a committed message is stored twice": _committed_twice,
    "a retry has another body": _sent_back_as(body=b"x"),
    "a retry has no born time": _sent_back_as(born_ms=0),
    "a committed message has another body": _made_with(half_forms, "final_of", body=b"x"),
    "a message with a delivery time has another body": _made_with(timer_forms, "delivered", body=b"x"),
    "offsets of broadcasting members are never written": _local_offsets_not_written,
    "recalls are always refused": _recalls_refused,
    "messages with a key go to any queue": _keys_ignored,
    "queues that can't be written to are written to": _all_queues_written,
    "offsets are always reset to the first message": lambda patch: patch.setattr(
        ResetOffsetHandlers, "_offset_at", _first_offset
    ),
    "a retry has the topic of retries": lambda patch: patch.setattr(
        queue_decisions, "give_own_topics", lambda *_: None
    ),
}
