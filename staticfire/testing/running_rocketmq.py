"""What a test can do with its cluster, from within an event loop: what `RocketMQ` and `AsyncRocketMQ` stand before."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, TypeVar, cast

from staticfire.client import (
    Admin,
    ClientSettings,
    ClusterClient,
    GroupNotFound,
    Message,
    MessageQueue,
    Producer,
    ReceivedMessage,
    SendResult,
    TopicNotFound,
    UsageError,
)
from staticfire.client.cluster.client_service import ClientService
from staticfire.launch.places import is_whole
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.names import TOOLS_GROUP, retry_topic
from staticfire.testing.progress import QueueLeft, ends_of_returned, left_text, queues_left
from staticfire.testing.waits import WAIT_S, NotYet, comes_true

if TYPE_CHECKING:
    from staticfire.client import DeadLetter, GroupView, PullConsumer
    from staticfire.client.admin.journal import JournalRecords

# What only some tests need is imported where it is used: the first one waits for all that is here.

S = TypeVar("S", bound=ClientService)

MESSAGES_MAX = 1_000
PRODUCER_GROUP = "rocketmq-tests"


class RunningRocketMQ:
    """A cluster in the hands of one test."""

    def __init__(self, namesrv: str, protocol: str, suffix: str, deaths: Sequence[str]) -> None:
        """`suffix`: of the names of topics and groups, where others use the cluster too. `deaths`: see Cluster."""
        self.namesrv = namesrv
        self.suffix = suffix
        self.client_settings = ClientSettings(protocol=protocol)  # type: ignore[arg-type]  # one of its words: see target.py
        self._deaths = deaths
        self._stack = AsyncExitStack()
        self._client = ClusterClient(namesrv, self.client_settings)
        self.clock = self._client.machine.clock
        self._is_open = False
        self._services: dict[type[ClientService], ClientService] = {}
        """Those that were needed so far; all share the client."""
        self._opening = asyncio.Lock()
        self._topics: list[str] = []

    # -- topics and messages -------------------------------------------------------------------------------------

    async def create_topic(
        self, topic: str, queues: int = 4, attributes: Mapping[str, str] | None = None, order: bool = False
    ) -> str:
        """Create a topic on every broker; its route is known when this returns. Return its name.

        That is `topic`, on a real cluster with an ending of this test's own. `attributes`: as
        `{"message.type": "FIFO"}`. Raises: UsageError, BrokerAnswer, NetworkError.
        """
        if not is_whole(queues) or queues < 1:
            raise UsageError(f"queues={queues!r}: a topic takes a whole number of queues per broker, 1 or more")
        name = topic + self.suffix
        await (await self._admin()).create_topic(name, queues, attributes=attributes, order=order)
        self._topics.append(name)
        return name

    async def send(self, topic: str, *bodies: bytes | str | Message) -> list[SendResult]:
        """Send bodies, or whole messages, to a topic, one after another. Raises: as `Producer.send`."""
        producer = await self._opened(Producer, lambda client: Producer(PRODUCER_GROUP, client=client))
        return [await producer.send(_message(topic, body)) for body in bodies]

    async def messages(self, topic: str, tags: str = "*", messages_max: int = MESSAGES_MAX) -> list[ReceivedMessage]:
        """Return what is stored in a topic, the oldest first; nothing for one that isn't there. Leaves no traces."""
        from staticfire.client.admin.peek import peek_messages

        reader = await self._reader()
        try:
            queues = await reader.queues(topic)
        except TopicNotFound:
            return []
        return await peek_messages(reader, queues, messages_max, tags=tags)

    # -- conditions ----------------------------------------------------------------------------------------------

    async def wait_consumed(self, topic: str, group: str, timeout_s: float = WAIT_S) -> None:
        """Wait until a group has consumed what is in a topic now, and what came back of it and is due.

        A message that failed and waits for its next try counts as consumed: advance the clock for it. One that was
        popped and isn't acknowledged doesn't count, unless the cluster is a real one, which doesn't tell. Raises:
        NotYet, which says what is left, and why as far as that is known.
        """
        ends = await self._ends(topic)
        if ends is None:
            raise UsageError(f"there is no topic {topic}: create it, or send something to it, before waiting for it")
        left: list[QueueLeft] = []

        async def is_consumed() -> bool:
            nonlocal left
            retries = await self._ends(retry_topic(group)) or {}
            view = await self._group(group)
            left = queues_left({**ends, **retries, **ends_of_returned(topic, view)}, view)
            return not left

        if not await comes_true(is_consumed, timeout_s, self.clock, self.pause):
            words = f"{group} has not consumed {topic} within {timeout_s:g} s: {left_text(left)}"
            raise NotYet(f"{words}\n{await self.explain(group)}")

    async def wait_dead(self, group: str, count: int = 1, timeout_s: float = WAIT_S) -> "list[DeadLetter]":
        """Wait until a group has that many dead letters, or more; return them. Raises: NotYet."""
        letters: list[DeadLetter] = []

        async def are_dead() -> bool:
            nonlocal letters
            letters = await self.dead_letters(group)
            return len(letters) >= count

        if not await comes_true(are_dead, timeout_s, self.clock, self.pause):
            words = f"{group} has {len(letters)} dead letters and not {count} within {timeout_s:g} s"
            raise NotYet(f"{words}\n{await self.explain(group)}")
        return letters

    async def pause(self, seconds: float) -> None:
        """Let some time go by, of the real one."""
        await self._admin()
        await self._client.pause_for(round(seconds * 1_000))

    # -- what there is -------------------------------------------------------------------------------------------

    async def dead_letters(self, group: str) -> "list[DeadLetter]":
        """Return the dead letters of a group, in the order in which they died."""
        await self._admin()
        from staticfire.client import DeadLetterQueue

        async with DeadLetterQueue(group, client=self._client) as queue:
            try:
                return await queue.letters(MESSAGES_MAX)
            except GroupNotFound:
                return []

    async def group(self, group: str) -> "GroupView":
        """Return a group as it is: members, progress, what is wrong. Raises: GroupNotFound, NetworkError."""
        return await (await self._admin()).group(group)

    async def journal(self, *kinds: str, client: str | None = None, group: str | None = None) -> "JournalRecords":
        """Return what happened, by real time; docs/journal.md has the kinds. Raises: UsageError, BrokerAnswer."""
        admin = await self._admin()
        return await self._own("rocketmq.journal", admin.journal(*kinds, client=client, group=group))

    async def requests(
        self, code: str | int | None = None, client: str | None = None, group: str | None = None
    ) -> "JournalRecords":
        """Return what clients asked, like all "PULL_MESSAGE"s of a client. Raises: UsageError, BrokerAnswer."""
        admin = await self._admin()
        return await self._own("rocketmq.requests", admin.requests(code, client, group))

    async def _own(self, what: str, asked: "Awaitable[JournalRecords]") -> "JournalRecords":
        """Return what only brokers of ours know. Raises: SkipTest, on a real cluster."""
        try:
            return await asked
        except BrokerAnswer as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            from unittest import SkipTest

            raise SkipTest(f"{what} needs a cluster of staticfire; {self.namesrv} is a real one") from None

    async def explain(self, group: str | None = None) -> str:
        """Return how a group, or all there are, stand to what was sent: in words."""
        from staticfire.testing.report import describe

        return await describe(await self._admin(), None if group is None else [group], self._deaths)

    # -- the end -------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close what was opened; topics that only this test knows are deleted."""
        try:
            if self.suffix and self._topics:
                admin = await self._admin()
                for topic in self._topics:
                    await admin.delete_topic(topic)
        finally:
            await self._stack.aclose()

    async def _ends(self, topic: str) -> dict[MessageQueue, int] | None:
        """Return where the queues of a topic end, None without such a topic."""
        reader = await self._reader()
        try:
            queues = await reader.queues(topic)
        except TopicNotFound:
            return None
        ends = await asyncio.gather(*(reader.max_offset(queue) for queue in queues))
        return dict(zip(queues, ends, strict=True))

    async def _group(self, group: str) -> "GroupView | None":
        try:
            return await self.group(group)
        except GroupNotFound:
            return None

    async def _admin(self) -> Admin:
        return await self._opened(Admin, lambda client: Admin(client=client))

    async def _reader(self) -> "PullConsumer":
        from staticfire.client import PullConsumer

        return await self._opened(PullConsumer, lambda client: PullConsumer(TOOLS_GROUP, client=client))

    async def _opened(self, kind: type[S], make: Callable[[ClusterClient], S]) -> S:
        """Return the service of a kind, which is opened when it is first needed."""
        async with self._opening:
            if not self._is_open:
                await self._stack.enter_async_context(self._client)
                self._is_open = True
            if kind not in self._services:
                self._services[kind] = await self._stack.enter_async_context(make(self._client))
            return cast(S, self._services[kind])


def _message(topic: str, body: bytes | str | Message) -> Message:
    """Return what is to be sent. Raises: UsageError."""
    if isinstance(body, Message):
        return body
    return Message(topic, body.encode() if isinstance(body, str) else body)
