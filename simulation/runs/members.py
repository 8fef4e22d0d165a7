"""Members of groups that aren't plain push consumers: they reply, poll or receive."""

from collections.abc import Awaitable, Callable, Sequence

from staticfire.client import (
    ConsumeFromWhere,
    LitePullConsumer,
    LitePullSettings,
    MessageQueue,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SimpleConsumer,
    SimpleSettings,
)
from staticfire.client.cluster.subscriptions import SQL92, TAG
from staticfire.client.pop.popped import PoppedMessage
from staticfire.protocol.errors import StaticfireError
from staticfire.runtime.service import Service
from staticfire.simulation.runs.record import Seat
from staticfire.simulation.workload.description import LITE_PULL, Group

INVISIBLE_MS, AWAIT_MS, POLL_MS = 12_000, 4_000, 2_000
# The pause after a failed poll.
PAUSE_MS = 500

Work = Callable[[Sequence[ReceivedMessage]], Awaitable[bool]]
"""Consumes messages; returns whether that succeeded."""


class ReplyingMember(Service):
    """A push consumer, and the producer with which its listener replies."""

    def __init__(self, consumer: PushConsumer, producer: Producer) -> None:
        super().__init__()
        self._consumer = consumer
        self._producer = producer

    async def _start(self) -> None:
        await self._producer.__aenter__()
        await self._consumer.__aenter__()
        self.spawn(self._consumer.wait(), "replying consumer")

    async def _stop(self) -> None:
        await self._consumer.__aexit__(None, None, None)
        await self._producer.__aexit__(None, None, None)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that the member owns now."""
        return self._consumer.assignment


class PollingMember(Service):
    """A lite pull consumer and its program's loop: each poll confirms the messages of the previous one."""

    def __init__(self, group: Group, seat: Seat, work: Work) -> None:
        super().__init__()
        settings = LitePullSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, poll_timeout_ms=POLL_MS)
        self._consumer = LitePullConsumer(group.name, seat.namesrv, settings, seat.machine)
        self._work = work
        for topic in group.topics:
            self._consumer.subscribe(topic, group.wants, TAG if group.condition is None else SQL92)

    async def _start(self) -> None:
        await self._consumer.__aenter__()
        self.spawn(self._poll_loop(), "polling")

    async def _stop(self) -> None:
        await self._consumer.__aexit__(None, None, None)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that the member owns now."""
        return self._consumer.assignment

    async def _poll_loop(self) -> None:
        while True:
            try:
                messages = await self._consumer.poll()
            except StaticfireError:
                await self.pause_for(PAUSE_MS)
                continue
            if messages:
                await self._work(messages)


class ReceivingMember(Service):
    """A simple consumer and its program's loop: consumed messages are acknowledged, the others are redelivered."""

    def __init__(self, group: Group, seat: Seat, work: Work) -> None:
        super().__init__()
        settings = SimpleSettings(
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET, max_messages=group.batch, invisible_ms=INVISIBLE_MS,
            await_ms=AWAIT_MS,
        )  # fmt: skip
        self._consumer = SimpleConsumer(group.name, seat.namesrv, settings, seat.machine)
        self._work = work
        for topic in group.topics:
            self._consumer.subscribe(topic, group.wants, TAG if group.condition is None else SQL92)

    async def _start(self) -> None:
        await self._consumer.__aenter__()
        self.spawn(self._receive_loop(), "receiving")

    async def _stop(self) -> None:
        await self._consumer.__aexit__(None, None, None)

    @property
    def assignment(self) -> list[MessageQueue]:
        """Empty: it receives from all queues."""
        return []

    async def _receive_loop(self) -> None:
        while True:
            try:
                messages: list[PoppedMessage] = await self._consumer.receive()
                if messages and await self._work(messages):
                    await self._consumer.ack_all(messages)
            except StaticfireError:
                await self.pause_for(PAUSE_MS)


Member = PushConsumer | ReplyingMember | PollingMember | ReceivingMember


def loop_member(group: Group, seat: Seat, work: Work) -> PollingMember | ReceivingMember:
    """Return a member whose program requests messages itself."""
    return (PollingMember if group.way == LITE_PULL else ReceivingMember)(group, seat, work)
