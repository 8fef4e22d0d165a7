"""A member of a group in the simulated world: the real push consumer, and a listener that notes its calls."""

import itertools
from collections.abc import Awaitable, Callable
from random import Random

from staticfire.client import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    OrderedContext,
    OrderedStatus,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.faults.checkers.events import CallBegan, CallEnded, Seen
from staticfire.faults.runs.record import Seat
from staticfire.faults.runs.sending import NAME_PROPERTY
from staticfire.faults.simulation.chance import number_from, source_of_chance
from staticfire.faults.workload.description import Group
from staticfire.protocol.names import RETRY_PREFIX

_SHARES = 1 << 20
_BROADCASTS = "BROADCASTING"

Outcome = ConsumeStatus | OrderedStatus | None
Pause = Callable[[int], Awaitable[None]]


class MemberListener:
    """What all members of a run's groups do when they are called."""

    def __init__(self, pause: Callable[[float], Awaitable[None]]) -> None:
        """`pause` lets so many milliseconds pass."""
        self.fails_by_chance = True
        self._pause = pause
        self._calls = itertools.count(1)

    def consumer(self, group: Group, seat: Seat) -> PushConsumer:
        """Return a member, not started."""
        settings = PushSettings(
            **{
                "consume_from_where": ConsumeFromWhere.FIRST_OFFSET,
                "consume_message_batch_max_size": group.batch,
                "max_reconsume_times": group.retries_max,
                "suspend_current_queue_time_ms": 500,
                **group.settings,
            }
        )
        consumer = PushConsumer(group.name, seat.namesrv, settings, seat.machine)
        for topic in group.topics:
            consumer.subscribe(topic, group.expression)
        who = seat.machine.identity.host_name
        chance = source_of_chance(seat.seed, "listening", who, seat.machine.identity.pid)

        async def listen(messages: tuple[ReceivedMessage, ...], context: ConsumeContext | OrderedContext) -> Outcome:
            return await self._listen(group, seat, chance, messages, context)

        if group.ordered:
            consumer.ordered_listener(listen)  # type: ignore[type-var]
        else:
            consumer.listener(listen)  # type: ignore[type-var]
        return consumer

    async def _listen(
        self, group: Group, seat: Seat, chance: Random, messages: tuple[ReceivedMessage, ...],
        context: ConsumeContext | OrderedContext,
    ) -> Outcome:  # fmt: skip
        call, clock, record = next(self._calls), seat.machine.clock, seat.record
        queue = context.queue
        record.note(
            CallBegan(
                clock.uptime_ms(), call, group.name, seat.machine.identity.host_name,
                (queue.broker_name, queue.topic, queue.queue_id), tuple(map(_seen, messages)), group.ordered,
            )
        )  # fmt: skip
        is_success = False
        try:
            await self._pause(chance.randint(*group.takes_ms))
            outcome = await self._answer(group, seat.seed, chance, messages, context)
            is_success = outcome in (ConsumeStatus.CONSUME_SUCCESS, OrderedStatus.SUCCESS)
            return outcome
        finally:
            record.note(CallEnded(clock.uptime_ms(), call, is_success))

    async def _answer(
        self, group: Group, seed: int, chance: Random, messages: tuple[ReceivedMessage, ...],
        context: ConsumeContext | OrderedContext,
    ) -> Outcome:  # fmt: skip
        later = OrderedStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT if group.ordered else ConsumeStatus.RECONSUME_LATER
        success = OrderedStatus.SUCCESS if group.ordered else ConsumeStatus.CONSUME_SUCCESS
        if group.listener is not None:
            returned = await group.listener(messages, context)
            return success if returned is None else returned  # type: ignore[return-value]
        if group.poison and any(_is_poison(group, seed, message) for message in messages):
            return later
        return later if self.fails_by_chance and chance.random() < group.fails else success


def _is_poison(group: Group, seed: int, message: ReceivedMessage) -> bool:
    name = message.get(NAME_PROPERTY)
    return number_from(seed, "poison", group.name, name) % _SHARES < group.poison * _SHARES


def _seen(message: ReceivedMessage) -> Seen:
    is_retry = message.record.topic.startswith(RETRY_PREFIX)
    return Seen(message.get(NAME_PROPERTY) or "", message.queue_offset, message.reconsume_times, is_retry)
