"""A member of a group in the simulated world: the real push consumer, with a listener that records its calls."""

import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from inspect import isawaitable
from random import Random
from typing import Any

from staticfire.client import (
    ClientSettings,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    OrderedContext,
    OrderedStatus,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.client.cluster.namespaces import Namespace
from staticfire.client.cluster.subscriptions import SQL92, TAG
from staticfire.client.pop.popped import PoppedMessage
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.names import RETRY_PREFIX
from staticfire.protocol.pop_handles import NORMAL
from staticfire.runtime.machine import Clock
from staticfire.runtime.ranges import shown
from staticfire.simulation.checkers.events import BroadcastReceived, CallBegan, CallEnded, QueuePlace, Seen, WentWrong
from staticfire.simulation.runs.contents import content_of
from staticfire.simulation.runs.members import Member, ReplyingMember, loop_member
from staticfire.simulation.runs.record import Seat
from staticfire.simulation.runs.sending import NAME_PROPERTY
from staticfire.simulation.workload.description import PUSH, Group, ProgramListener, namespace_of
from staticfire.simulation.workload.own_code import words_of_error
from staticfire.simulation.world.chance import number_from, source_of_chance

_SHARES = 1 << 20

Outcome = ConsumeStatus | OrderedStatus | None
Pause = Callable[[int], Awaitable[None]]


class _NoListener(Exception):
    """The workload's listener isn't a valid one."""


class MemberListener:
    """The listener of all members of a run's groups."""

    def __init__(self, pause: Callable[[float], Awaitable[None]]) -> None:
        """`pause` waits for a number of milliseconds."""
        self.fails_by_chance = True
        self._pause = pause
        self._calls = itertools.count(1)
        self.reached: dict[str, dict[QueuePlace, int]] = {}
        """For each member that gets all messages: the offset after what it has consumed, by queue."""
        self.running: Counter[str] = Counter()
        """The number of running calls by group, including those of killed members."""
        self._reported: set[str] = set()
        """Groups whose invalid listener was reported."""

    def member(self, group: Group, seat: Seat) -> Member:
        """Return a member that isn't started."""
        if group.way != PUSH:
            return self._loop_member(group, seat)
        if not group.replies:
            return self._consumer(group, seat, None)
        producer = Producer(f"{group.name}-replying", seat.namesrv, machine=seat.machine)
        return ReplyingMember(self._consumer(group, seat, producer), producer)

    def _loop_member(self, group: Group, seat: Seat) -> Member:
        chance = source_of_chance(seat.seed, "listening", seat.machine.identity.host_name, seat.machine.identity.pid)

        async def work(messages: Sequence[ReceivedMessage]) -> bool:
            return await self._listen(group, seat, chance, tuple(messages), None) is ConsumeStatus.CONSUME_SUCCESS

        return loop_member(group, seat, work)

    def _consumer(self, group: Group, seat: Seat, producer: Producer | None) -> PushConsumer:
        namespace = Namespace(namespace_of(group.name))
        client = group.settings.get("client", ClientSettings())
        settings = PushSettings(
            **{
                "consume_from_where": ConsumeFromWhere.FIRST_OFFSET,
                "consume_message_batch_max_size": group.batch,
                "max_reconsume_times": group.retries_max,
                "suspend_current_queue_time_ms": 500,
                "client_rebalance": not group.popped,
                **group.settings,
                "client": replace(client, namespace=namespace.name) if namespace.name else client,
            }
        )
        consumer = PushConsumer(namespace.unwrap(group.name), seat.namesrv, settings, seat.machine)
        for topic in group.topics:
            consumer.subscribe(namespace.unwrap(topic), group.wants, TAG if group.condition is None else SQL92)
        who = seat.machine.identity.host_name
        chance = source_of_chance(seat.seed, "listening", who, seat.machine.identity.pid)

        async def listen(messages: tuple[ReceivedMessage, ...], context: ConsumeContext | OrderedContext) -> Outcome:
            if producer is not None:
                await _reply(producer, messages)
            return await self._listen(group, seat, chance, messages, context)

        if group.ordered:
            consumer.ordered_listener(listen)  # type: ignore[type-var]
        else:
            consumer.listener(listen)  # type: ignore[type-var]
        return consumer

    async def _listen(
        self, group: Group, seat: Seat, chance: Random, messages: tuple[ReceivedMessage, ...],
        context: ConsumeContext | OrderedContext | None,
    ) -> Outcome:  # fmt: skip
        if group.broadcasts:
            return await self._listen_to_all(group, seat, chance, messages)
        clock, record = seat.machine.clock, seat.record
        calls = []
        for place, seen in _by_place(group.name, clock, messages):
            calls.append(next(self._calls))
            who = seat.machine.identity.host_name
            record.note(CallBegan(clock.uptime_ms(), calls[-1], group.name, who, place, seen, group.ordered))
        self.running[group.name] += 1
        is_success = False
        try:
            await self._pause(chance.randint(*group.takes_ms))
            outcome = await self._answer(group, seat.seed, chance, messages, context)
            is_success = outcome in (ConsumeStatus.CONSUME_SUCCESS, OrderedStatus.SUCCESS)
            return outcome
        except _NoListener as error:
            if group.name not in self._reported:
                self._reported.add(group.name)
                record.note(WentWrong(clock.uptime_ms(), seat.machine.identity.host_name, f"its listener: {error}"))
            raise
        finally:
            self.running[group.name] -= 1
            for call in calls:
                record.note(CallEnded(clock.uptime_ms(), call, is_success))

    async def _listen_to_all(
        self, group: Group, seat: Seat, chance: Random, messages: tuple[ReceivedMessage, ...]
    ) -> Outcome:
        """Handle a call of a member that gets all messages: the calls of other members don't matter."""
        who, clock = seat.machine.identity.host_name, seat.machine.clock
        await self._pause(chance.randint(*group.takes_ms))
        for place, seen in _by_place(group.name, clock, messages):
            reached = self.reached.setdefault(who, {})
            reached[place] = max(reached.get(place, 0), seen[-1].offset + 1)
            seat.record.note(BroadcastReceived(clock.uptime_ms(), group.name, who, place, seen))
        return ConsumeStatus.CONSUME_SUCCESS

    async def _answer(
        self, group: Group, seed: int, chance: Random, messages: tuple[ReceivedMessage, ...],
        context: ConsumeContext | OrderedContext | None,
    ) -> Outcome:  # fmt: skip
        later = OrderedStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT if group.ordered else ConsumeStatus.RECONSUME_LATER
        success = OrderedStatus.SUCCESS if group.ordered else ConsumeStatus.CONSUME_SUCCESS
        if group.listener is not None:
            returned = await _called(group.listener, messages, context)
            if returned is None or isinstance(returned, type(success)):
                return returned or success
            raise _NoListener(f"it returned {shown(repr(returned))}; return a {type(success).__name__}, or nothing")
        if group.poison and any(_is_poison(group, seed, message) for message in messages):
            return later
        return later if self.fails_by_chance and chance.random() < group.fails else success


async def _reply(producer: Producer, messages: Iterable[ReceivedMessage]) -> None:
    """Reply to each message with its name. Errors are ignored."""
    for message in messages:
        with suppress(StaticfireError):
            await producer.reply(message, (message.get(NAME_PROPERTY) or "").encode())


async def _called(listen: ProgramListener, *arguments: Any) -> object:
    """Return the result of a user's listener. Raises: what it raises, _NoListener (it isn't a valid listener)."""
    try:
        answer = listen(*arguments)
        if not isawaitable(answer):
            raise _NoListener(f"it returned {type(answer).__name__}, which can't be awaited; write it as `async def`")
        return await answer
    except (SystemExit, KeyboardInterrupt) as error:
        raise _NoListener(words_of_error(error, listen)) from None


def _is_poison(group: Group, seed: int, message: ReceivedMessage) -> bool:
    name = message.get(NAME_PROPERTY)
    return number_from(seed, "poison", group.name, name) % _SHARES < group.poison * _SHARES


def _by_place(
    group: str, clock: Clock, messages: tuple[ReceivedMessage, ...]
) -> Iterable[tuple[QueuePlace, tuple[Seen, ...]]]:
    """Group the messages of a call by queue: those of a pop come from several."""
    namespace = Namespace(namespace_of(group))
    found: dict[QueuePlace, list[Seen]] = {}
    for message in messages:
        if isinstance(message, PoppedMessage):
            place, seen = _popped(group, clock, message)
        else:
            place = message.broker_name, namespace.wrap(message.record.topic), message.queue_id
            is_retry = message.record.topic.startswith(RETRY_PREFIX)
            seen = Seen(message.get(NAME_PROPERTY) or "", message.queue_offset, message.reconsume_times, is_retry)
        seen = seen._replace(content=content_of(message, namespace.wrap(message.topic), clock))
        found.setdefault(place, []).append(seen)
    return [(place, tuple(seen)) for place, seen in found.items()]


def _popped(group: str, clock: Clock, message: PoppedMessage) -> tuple[QueuePlace, Seen]:
    handle = message.handle
    popped_ms = clock.uptime_ms() - (clock.wall_ms() - handle.pop_time_ms)
    return (handle.broker_name, handle.real_topic(message.topic, group), handle.queue_id), Seen(
        message.get(NAME_PROPERTY) or "", handle.queue_offset, message.reconsume_times, handle.flag != NORMAL,
        popped_ms, popped_ms + handle.invisible_ms,
    )  # fmt: skip
