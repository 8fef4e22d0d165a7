"""Mutants that somebody wrote who hadn't read the checkers: faults that a user would suffer from."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from staticfire.broker.delay import delivery
from staticfire.broker.groups.dead_letters import DeadLetters
from staticfire.broker.groups.offsets import OffsetTable
from staticfire.broker.groups.producers import ProducerManager
from staticfire.broker.groups.queue_locks import QueueLocks
from staticfire.broker.handlers.reply import ReplyHandlers
from staticfire.broker.handlers.send_many import ManyHandler
from staticfire.broker.pop.acks import Acknowledger
from staticfire.broker.pulls.choosing import Choice, _Taken
from staticfire.broker.pulls.held_pulls import HeldPull, HeldPulls
from staticfire.broker.store.store import MessageStore
from staticfire.broker.timers.service import TimerService
from staticfire.broker.transactions import forms
from staticfire.client.cluster.routes import subscribe_queues
from staticfire.client.consume.membership import rebalancer
from staticfire.client.consume.queues.concurrent_policy import ConcurrentPolicy
from staticfire.client.consume.queues.instructions import Count, GiveBack
from staticfire.client.consume.queues.ordered_policy import OrderedPolicy
from staticfire.client.consume.queues.process_queue import ProcessQueue
from staticfire.client.consume.queues.queue_decisions import AssignedQueue
from staticfire.client.offsets import local_offsets

Patch = pytest.MonkeyPatch


def _only_one_held_pull_is_woken(patch: Patch) -> None:
    whole = HeldPulls.take

    def take(self: HeldPulls, topic: str, queue_id: int) -> list[HeldPull]:
        woken = whole(self, topic, queue_id)
        for pull in woken[1:]:
            self.hold(pull)
        return woken[:1]

    patch.setattr(HeldPulls, "take", take)


def _rest_of_an_answer_is_passed_over(patch: Patch) -> None:
    """What a condition wants and what doesn't fit into an answer any more."""
    whole = _Taken.take

    def take(self: _Taken, data: bytes, start: int, size: int) -> bool:
        whole(self, data, start, size)
        return True

    patch.setattr(_Taken, "take", take)


def _unknown_is_true(patch: Patch) -> None:
    whole = Choice.__init__

    def init(self: Choice, wanted: Any) -> None:
        whole(self, wanted)
        evaluate = self._evaluate
        patch_evaluate: Callable[[bytes], Any] = lambda properties: evaluate(properties) is not False  # noqa: E731
        self._evaluate = patch_evaluate

    patch.setattr(Choice, "__init__", init)


def _dead_letters_of_the_first_group(patch: Patch) -> None:
    whole = DeadLetters.queue_of
    first: dict[int, str] = {}

    def queue_of(self: DeadLetters, group: str) -> Any:
        return whole(self, first.setdefault(id(self), group))

    patch.setattr(DeadLetters, "queue_of", queue_of)


def _last_of_many_is_lost(patch: Patch) -> None:
    whole, whole_stored = ManyHandler.send, ManyHandler._stored
    short: set[int] = set()

    def send(self: ManyHandler, call: Any) -> Any:
        rows = call.request.body or []
        if len(rows) > 2:
            rows.pop()
            short.add(id(call))
        return whole(self, call)

    def stored(self: ManyHandler, context: Any, queue_offset: int, log_position: int, outcome: Any) -> None:
        many, _, queue_id = context
        if many.missing == 1 and id(many.call) in short:
            short.discard(id(many.call))
            many.results.append(self._result(outcome, queue_id, queue_offset, log_position))
        whole_stored(self, context, queue_offset, log_position, outcome)

    patch.setattr(ManyHandler, "send", send)
    patch.setattr(ManyHandler, "_stored", stored)


def _failed_in_order_goes_behind(patch: Patch) -> None:
    def put_back(self: OrderedPolicy, messages: Sequence[Any]) -> None:
        back = {message.queue_offset for message in messages}
        self._taken = [message for message in self._taken if message.queue_offset not in back]
        self._waiting.extend(message for message in messages if message in self._cache)

    patch.setattr(OrderedPolicy, "put_back", put_back)


def _commits_one_beyond(patch: Patch) -> None:
    """Of what is held, the first counts as done."""
    whole = ProcessQueue.remove

    def remove(self: ProcessQueue, messages: Sequence[Any]) -> int:
        return whole(self, messages) + (1 if self._held else 0)

    patch.setattr(ProcessQueue, "remove", remove)


def _delayed_goes_to_the_first_queue(patch: Patch) -> None:
    whole = delivery.Delivery._home_of

    def home_of(self: delivery.Delivery, properties: bytes) -> Any:
        return self._store.queue(whole(self, properties).topic, 0)

    patch.setattr(delivery.Delivery, "_home_of", home_of)


def _any_producer_gets_checks(patch: Patch) -> None:
    whole = ProducerManager.next_connection

    def next_connection(self: ProducerManager, group: str) -> Any:
        groups = [name for name in self.producer_table if name != group] or [group]
        return whole(self, groups[0])

    patch.setattr(ProducerManager, "next_connection", next_connection)


def _last_acknowledgement_ends_all(patch: Patch) -> None:
    whole = Acknowledger._remove

    def remove(self: Acknowledger, queue: Any, found: Any, offsets: Sequence[int]) -> bool:
        last = found.start + found.messages.bit_length() - 1
        return whole(self, queue, found, range(found.start, last + 1) if last in offsets else offsets)

    patch.setattr(Acknowledger, "_remove", remove)


def _put_off_and_due_as_before(patch: Patch) -> None:
    whole = Acknowledger.change

    def change(self: Acknowledger, place: Any, handle: Any, offset: int, times: Any) -> Any:
        found = self._find(place, handle)
        result = whole(self, place, handle, offset, times)
        if found is not None:
            self._tables.put(*found)
        return result

    patch.setattr(Acknowledger, "change", change)


def _broadcast_offsets_of_another_broker(patch: Patch) -> None:
    whole = local_offsets.decode_offsets

    def decode(data: bytes) -> dict[Any, int]:
        offsets = whole(data)
        return {
            queue: max(
                offset
                for other, offset in offsets.items()
                if (other.topic, other.queue_id) == (queue.topic, queue.queue_id)
            )
            for queue in offsets
        }

    patch.setattr(local_offsets, "decode_offsets", decode)


def _unlock_takes_all(patch: Patch) -> None:
    whole = QueueLocks.unlock

    def unlock(self: QueueLocks, group: str, client_id: str, queues: Iterable[Any]) -> list[str]:
        return whole(self, group, client_id, list(self._locks.get(group, {})))

    patch.setattr(QueueLocks, "unlock", unlock)


def _some_replies_are_dropped(patch: Patch) -> None:
    whole = ReplyHandlers._push
    count = [0]

    async def push(self: ReplyHandlers, call: Any, request: Any, properties: bytes) -> str | None:
        count[0] += 1
        return None if count[0] % 5 == 0 else await whole(self, call, request, properties)

    patch.setattr(ReplyHandlers, "_push", push)


def _recall_takes_the_next_one_too(patch: Patch) -> None:
    whole = TimerService.recall

    def recall(self: TimerService, one: Any, *others: Any) -> None:
        whole(self, one, *others)
        self._index.done.add(one[1] - 1)

    patch.setattr(TimerService, "recall", recall)


def _full_queues_wait_long(patch: Patch) -> None:
    whole, whole_pause = AssignedQueue.removed, AssignedQueue._pause

    def removed(self: Any, offset: int, uptime_ms: Any, may_go_back: bool = False) -> Any:
        is_full, self._is_full = self._is_full, False
        out = whole(self, offset, uptime_ms, may_go_back)
        self._is_full = is_full
        return out

    def pause(self: Any, out: Any, uptime_ms: Any, pause_ms: int) -> None:
        whole_pause(self, out, uptime_ms, 30_000 if self._is_full else pause_ms)

    patch.setattr(AssignedQueue, "removed", removed)
    patch.setattr(AssignedQueue, "_pause", pause)


def _queues_as_first_seen(patch: Patch) -> None:
    first: dict[tuple[str, tuple[str, ...]], Any] = {}

    def queues_of(topic: str, route: Any) -> Any:
        names = tuple(sorted(data.broker_name for data in route.queue_datas))
        return first.setdefault((topic, names), subscribe_queues(topic, route))

    patch.setattr(rebalancer, "subscribe_queues", queues_of)


def _reset_by_time_one_too_far(patch: Patch) -> None:
    whole = MessageStore.search_offset

    def search(self: MessageStore, queue: Any, *others: Any) -> int:
        return int(min(whole(self, queue, *others) + 1, queue.max_offset))

    patch.setattr(MessageStore, "search_offset", search)


def _only_the_first_of_a_failed_batch(patch: Patch) -> None:
    whole = ConcurrentPolicy.answered

    def answered(self: ConcurrentPolicy, *given: Any) -> Any:
        out: list[Any] = []
        for one in whole(self, *given):
            if isinstance(one, GiveBack) and len(one.messages) > 1:
                out += [replace(one, messages=one.messages[:1]), Count(one.messages[1:])]
            else:
                out.append(one)
        return out

    patch.setattr(ConcurrentPolicy, "answered", answered)


def _pull_commits_for_another_queue(patch: Patch) -> None:
    """Offsets of the first two queues are mixed up when they are saved."""
    whole = OffsetTable.snapshot

    def snapshot(self: OffsetTable, log_position: int) -> bytes:
        kept = self._committed
        self._committed = {
            key: queues | {0: queues[1], 1: queues[0]} if 0 in queues and 1 in queues else queues
            for key, queues in kept.items()
        }
        try:
            return whole(self, log_position)
        finally:
            self._committed = kept

    patch.setattr(OffsetTable, "snapshot", snapshot)


def _set(owner: Any, name: str, value: Any) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(owner, name, value)


FOREIGN_MUTANTS: dict[str, Callable[[Patch], None]] = {
    "one of the pulls held on a queue is woken": _only_one_held_pull_is_woken,
    "what doesn't fit into an answer is passed over": _rest_of_an_answer_is_passed_over,
    "a condition takes unknown for true": _unknown_is_true,
    "dead letters go to the first group": _dead_letters_of_the_first_group,
    "the last of many messages is lost": _last_of_many_is_lost,
    "a failed ordered message goes to the end": _failed_in_order_goes_behind,
    "an offset counts the message at work": _commits_one_beyond,
    "delayed messages go to the first queue": _delayed_goes_to_the_first_queue,
    "delayed messages lose their tag's code": _set(delivery, "tags_code", lambda _: 0),
    "committed messages lose their tag's code": _set(forms, "tags_code", lambda _: 0),
    "producers of another group get checks": _any_producer_gets_checks,
    "the last acknowledgement ends the whole pop": _last_acknowledgement_ends_all,
    "a popped message that is put off is due as before, too": _put_off_and_due_as_before,
    "broadcast offsets are another broker's after a start": _broadcast_offsets_of_another_broker,
    "who unlocks one queue unlocks all": _unlock_takes_all,
    "one reply of five is dropped": _some_replies_are_dropped,
    "a recall takes the message before, too": _recall_takes_the_next_one_too,
    "a full queue waits half a minute": _full_queues_wait_long,
    "a consumer keeps to the queues it saw first": _queues_as_first_seen,
    "a search by time finds the next message": _reset_by_time_one_too_far,
    "of a failed batch one message is given back": _only_the_first_of_a_failed_batch,
    "saved offsets of two queues are mixed up": _pull_commits_for_another_queue,
}

FOREIGN_KINDS: dict[str, tuple[str, ...]] = {
    "one of the pulls held on a queue is woken": (),
    "what doesn't fit into an answer is passed over": ("filters", "late"),
    "a condition takes unknown for true": ("filters",),
    "dead letters go to the first group": ("bursts",),
    "the last of many messages is lost": ("bursts",),
    "a failed ordered message goes to the end": (),
    "delayed messages go to the first queue": (),
    "delayed messages lose their tag's code": ("filters",),
    "committed messages lose their tag's code": ("filters",),
    "producers of another group get checks": (),
    "broadcast offsets are another broker's after a start": ("broadcast",),
    "one reply of five is dropped": ("requests",),
    "a recall takes the message before, too": ("timed",),
    "a full queue waits half a minute": (),
    "a consumer keeps to the queues it saw first": ("administration",),
    "a search by time finds the next message": ("administration",),
    "of a failed batch one message is given back": (),
}
"""What a seed has to have for each of those that are looked for in the swarm with nothing broken."""
