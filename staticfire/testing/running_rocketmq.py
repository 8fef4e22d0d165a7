"""The operations of a test's cluster, which run inside an event loop. `RocketMQ` and `AsyncRocketMQ` call them."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
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
from staticfire.protocol.errors import BrokerAnswer, NetworkError
from staticfire.protocol.names import TOOLS_GROUP, retry_topic
from staticfire.protocol.times import UptimeMs
from staticfire.testing.progress import QueueLeft, ends_of_returned, left_text, queues_left
from staticfire.testing.sent import SentEnds
from staticfire.testing.waits import WAIT_S, NotYet, comes_true

if TYPE_CHECKING:
    from staticfire.client import DeadLetter, GroupView, PullConsumer
    from staticfire.client.admin.journal import JournalRecords

# Imports that only some tests need are at the place of use: the first test waits for everything imported here.

S = TypeVar("S", bound=ClientService)

MESSAGES_MAX = 1_000
PRODUCER_GROUP = "rocketmq-tests"


class RunningRocketMQ:
    """A cluster for one test."""

    def __init__(
        self,
        namesrv: str,
        settings: ClientSettings,
        suffix: str,
        deaths: Sequence[str],
        began_ms: UptimeMs | None = None,
        brokers: Collection[str] = (),
    ) -> None:
        """`suffix`: added to topics and groups on a cluster that others use, too. `deaths`: see Cluster.

        `brokers`: the names of all brokers, if they are known.
        `began_ms`: when the test began, if the brokers run on this machine. Older records aren't the test's.
        """
        self.namesrv = namesrv
        self.suffix = suffix
        self.client_settings = settings
        self._deaths = deaths
        self._began_ms = began_ms
        self._brokers = brokers
        self._stack = AsyncExitStack()
        self._client = ClusterClient(namesrv, self.client_settings)
        self.clock = self._client.machine.clock
        self._is_open = False
        self._services: dict[type[ClientService], ClientService] = {}
        """The services used so far. All share the client."""
        self._opening = asyncio.Lock()
        self._topics: list[str] = []
        self._groups: set[str] = set()
        self._is_real = settings.protocol == "rocketmq"
        self._sent = SentEnds()

    def group_name(self, name: str) -> str:
        """Return the name for a consumer group of this test. On a shared cluster, the group is deleted at its end."""
        self._groups.add(name + self.suffix)
        return name + self.suffix

    # -- topics and messages -------------------------------------------------------------------------------------

    async def create_topic(
        self, topic: str, queues: int = 4, attributes: Mapping[str, str] | None = None, order: bool = False
    ) -> str:
        """Create a topic on every broker; return its name. When this returns, the nameserver has its route.

        The name is `topic`; on a real cluster it gets a suffix unique to this test. `attributes`: such as
        `{"message.type": "FIFO"}`. Raises: UsageError, BrokerAnswer, NetworkError.
        """
        if not is_whole(queues) or queues < 1:
            raise UsageError(f"queues={queues!r}: a topic takes a whole number of queues per broker, 1 or more")
        name = topic + self.suffix
        await (await self._admin()).create_topic(name, queues, attributes=attributes, order=order)
        self._topics.append(name)
        return name

    async def send(self, topic: str, *bodies: bytes | str | Message) -> list[SendResult]:
        """Send bodies or whole messages to a topic, one after another. Raises: as `Producer.send`."""
        producer = await self._opened(Producer, lambda client: Producer(PRODUCER_GROUP, client=client))
        results = []
        for body in bodies:
            message = _message(topic, body)
            results.append(await producer.send(message))
            if self._is_real:
                self._sent.note(message, results[-1])
        return results

    async def messages(self, topic: str, tags: str = "*", messages_max: int = MESSAGES_MAX) -> list[ReceivedMessage]:
        """Return the stored messages of a topic, oldest first; none if it doesn't exist. This changes no offset.

        Raises: NotYet (a real cluster has accepted a message of this test, and doesn't put it into its queue).
        """
        from staticfire.client.admin.peek import peek_messages

        reader = await self._reader()
        try:
            queues = await reader.queues(topic)
        except TopicNotFound:
            return []
        await self._sent.wait_in_queues(topic, reader, self.clock, self.pause)
        return await peek_messages(reader, queues, messages_max, tags=tags)

    # -- conditions ----------------------------------------------------------------------------------------------

    async def wait_consumed(self, topic: str, group: str, timeout_s: float = WAIT_S) -> None:
        """Wait until a group has consumed all messages that are in a topic now, and its retries that are due.

        A failed message that waits for its retry counts as consumed; advance the clock to have it redelivered. A popped
        message counts only when it is acknowledged; a real cluster doesn't report that, so there it counts at once.
        Raises: NotYet, with what is left and, as far as known, the reason.
        """
        ends = await self._ends(topic)
        if ends is None:
            raise UsageError(f"there is no topic {topic}: create it, or send something to it, before waiting for it")
        reader, left = await self._reader(), list[QueueLeft]()
        firsts = dict(zip(ends, await asyncio.gather(*map(reader.min_offset, ends)), strict=True))

        async def is_consumed() -> bool:
            nonlocal left
            retries = await self._ends(retry_topic(group)) or {}
            view = await self._group(group)
            left = queues_left({**ends, **retries, **ends_of_returned(topic, view)}, view, firsts)
            return not left

        if not await comes_true(is_consumed, timeout_s, self.clock, self.pause):
            words = f"{group} has not consumed {topic} within {timeout_s:g} s: {left_text(left)}"
            raise NotYet(f"{words}\n{await self.explain(group)}")

    async def wait_dead(self, group: str, count: int = 1, timeout_s: float = WAIT_S) -> "list[DeadLetter]":
        """Wait until a group has at least `count` dead letters; return them. Raises: NotYet."""
        letters: list[DeadLetter] = []

        async def are_dead() -> bool:
            nonlocal letters
            letters = await self._dead_letters(group, max(count, MESSAGES_MAX))
            return len(letters) >= count

        if not await comes_true(are_dead, timeout_s, self.clock, self.pause):
            words = f"{group} has {len(letters)} dead letters and not {count} within {timeout_s:g} s"
            raise NotYet(f"{words}\n{await self.explain(group)}")
        return letters

    async def pause(self, seconds: float) -> None:
        """Pause for some seconds of real time."""
        await self._admin()
        await self._client.pause_for(round(seconds * 1_000))

    # -- queries -------------------------------------------------------------------------------------------------

    async def dead_letters(self, group: str) -> "list[DeadLetter]":
        """Return the dead letters of a group, in the order in which they died."""
        return await self._dead_letters(group, MESSAGES_MAX)

    async def _dead_letters(self, group: str, limit: int) -> "list[DeadLetter]":
        await self._admin()
        from staticfire.client import DeadLetterQueue

        async with DeadLetterQueue(group, client=self._client) as queue:
            try:
                return await queue.letters(limit)
            except GroupNotFound:
                return []

    async def group(self, group: str) -> "GroupView":
        """Return the state of a group: members, progress, warnings. Raises: GroupNotFound, NetworkError."""
        return await (await self._admin()).group(group)

    async def journal(self, *kinds: str, client: str | None = None, group: str | None = None) -> "JournalRecords":
        """Return the events of this test in real-time order. See docs/journal.md. Raises: UsageError, BrokerAnswer."""
        admin = await self._admin()
        return await self._own("rocketmq.journal", admin.journal(*kinds, client=client, group=group))

    async def requests(
        self, code: str | int | None = None, client: str | None = None, group: str | None = None
    ) -> "JournalRecords":
        """Return the requests of clients during this test, like each "PULL_MESSAGE" of one. Raises: as `journal`."""
        admin = await self._admin()
        return await self._own("rocketmq.requests", admin.requests(code, client, group))

    async def _own(self, what: str, records: "Awaitable[JournalRecords]") -> "JournalRecords":
        """Return records, which only staticfire's own brokers have. Raises: SkipTest, on a real cluster."""
        from staticfire.client.admin.journal import JournalRecords

        try:
            found, clock = await records, self.clock
            if self._began_ms is None:
                return found
            # As brokers date their records: if the wall clock was set meanwhile, by the new one.
            began_ms = self._began_ms + clock.wall_ms() - clock.uptime_ms()
            return JournalRecords([one for one in found if one.real_ms >= began_ms], found.dropped)
        except BrokerAnswer as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            from unittest import SkipTest

            raise SkipTest(f"{what} needs a cluster of staticfire; {self.namesrv} is a real one") from None

    async def explain(self, group: str | None = None) -> str:
        """Describe what a group, or every group, has consumed, and its problems."""
        from staticfire.testing.report import describe

        groups = None if group is None else [group]
        return await describe(await self._admin(), groups, self._deaths, self.suffix, self._brokers)

    # -- close ---------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close what was opened. On a cluster that others use, too, delete the topics and groups of this test."""
        try:
            if self.suffix and (self._topics or self._groups):
                await self._clean_up(await self._admin())
        finally:
            await self._stack.aclose()

    async def _clean_up(self, admin: Admin) -> None:
        from staticfire.client.admin.creating_groups import delete_group

        for group in sorted(self._groups):
            try:
                await delete_group(admin, group)
            except GroupNotFound:
                continue  # It has never connected.
            except NetworkError:
                if self._topics:
                    raise
                return  # The test only needed a name, and there is no cluster.
        for topic in self._topics:
            await admin.delete_topic(topic)

    async def _ends(self, topic: str) -> dict[MessageQueue, int] | None:
        """Return the end offset of each queue of a topic, or None if there is no such topic."""
        reader = await self._reader()
        try:
            queues = await reader.queues(topic)
        except TopicNotFound:
            return None
        await self._sent.wait_in_queues(topic, reader, self.clock, self.pause)
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
        """Return the service of a type. The first use opens it."""
        async with self._opening:
            if not self._is_open:
                await self._stack.enter_async_context(self._client)
                self._is_open = True
            if kind not in self._services:
                self._services[kind] = await self._stack.enter_async_context(make(self._client))
            return cast(S, self._services[kind])


def _message(topic: str, body: bytes | str | Message) -> Message:
    """Return the message to send. Raises: UsageError."""
    if isinstance(body, Message):
        return body
    return Message(topic, body.encode() if isinstance(body, str) else body)
