"""Copies a topic from one cluster to another, with the offsets of its groups.

    async with Admin(source, ClientSettings(protocol="rocketmq")) as there, Admin(target) as here:
        report = await copy_topic(there, here, CopyWish("orders", ["billing"]))

Messages keep their unique ids, properties, born times and hosts, flags, order and queue ids. Their store times are
those of the copy. A new topic gets the attributes (such as its message type) and the order flag of the source. In the
copy, each group's next message is the same as in the source. Messages that are in the target already aren't copied
again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from staticfire.client.admin.admin import Admin
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.copying.plan import (
    AlreadyThere,
    Bounds,
    OffsetsInCopy,
    QueuePair,
    check_limits,
    pair_queues,
    queues_needed,
)
from staticfire.client.copying.queue_copy import copy_queue, read_records
from staticfire.client.pull.pull_consumer import PullConsumer
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import BrokerAnswer, GroupNotFound, TopicNotFound, UsageError, broker_answer
from staticfire.protocol.names import TOOLS_GROUP, is_retry_topic, is_system_topic
from staticfire.protocol.permissions import readable
from staticfire.protocol.requests.groups import GetAllGroups, SubscriptionGroupConfig
from staticfire.protocol.requests.topics import TopicConfig
from staticfire.runtime.addresses import comparable

TIMEOUT_MS = 5_000
SOURCE_REFUSES = "the source refuses"
"""How the remark begins if it is the source that refuses a request, perhaps because of its key."""


@dataclass(frozen=True)
class CopyWish:
    """What to copy."""

    topic: str
    groups: Sequence[str] = ()
    since_ms: int | None = None
    """Copy only messages that the source stored at this time or later."""
    until_ms: int | None = None
    """Copy only messages that the source stored before this time."""
    limit: int | None = None
    """Copy only this many of these messages: the newest of each queue."""


@dataclass
class CopyReport:
    """The progress of a copy."""

    topic: str
    total: int = 0
    """The number of messages to copy."""
    copied: int = 0
    there_already: int = 0
    queues: list[QueuePair] = field(default_factory=list)
    offsets: dict[str, dict[MessageQueue, int]] = field(default_factory=dict)
    """Each group's offsets, by queue of the copy."""

    @property
    def gone(self) -> int:
        """The number of messages that the source had at the start, and deleted before they could be copied."""
        return self.total - self.copied - self.there_already

    @property
    def moved_queues(self) -> bool:
        """Whether queues have other ids than in the source, because the source has more brokers."""
        return any(pair.source.queue_id != pair.target.queue_id for pair in self.queues)


async def copy_topic(
    source: Admin, target: Admin, wish: CopyWish, progress: Callable[[CopyReport], object] = lambda report: None
) -> CopyReport:
    """Copy a topic; `progress` is called after each batch.

    Raises: UsageError (also: messages that precede those in the target, groups with members there), TopicNotFound,
    GroupNotFound, BrokerAnswer, NetworkError. Messages copied before that are kept,
    and the next call continues after them.
    """
    check_limits(wish.since_ms, wish.until_ms, wish.limit)
    _refuse_itself(source, target)
    if is_system_topic(wish.topic):
        raise UsageError(f"{wish.topic} is an internal topic of the cluster and can't be copied")
    with _naming_the_source():
        groups = await _group_configs(source, wish.groups)
    await _refuse_members(target, wish.groups)
    report = CopyReport(wish.topic)
    report.queues = pairs = pair_queues(wish.topic, await _queue_counts(source, wish.topic), [*await target.masters()])
    await _prepare(target, await _topic_config(source, pairs[0].source), queues_needed(pairs))
    for config in groups:
        await target.create_group(config)
    async with (
        PullConsumer(TOOLS_GROUP, client=source.client) as reader,
        PullConsumer(TOOLS_GROUP, client=target.client) as own_reader,
    ):
        with _naming_the_source():
            bounds = [await _bounds(source, pair.source, wish) for pair in pairs]
        report.total = sum(end - start for start, end in bounds)
        progress(report)

        def done(copied: int, there: int) -> None:
            report.copied += copied
            report.there_already += there
            progress(report)

        for pair, wanted in zip(pairs, bounds, strict=True):
            there = await _already_there(target, own_reader, pair.target)
            offsets = OffsetsInCopy(await _committed(source, pair.source, wish.groups))
            await copy_queue(reader, target, pair, wanted, there, offsets, done)
            await _commit(target, pair.target, offsets.finish(await target.max_offset(pair.target)), report)
    return report


@contextmanager
def _naming_the_source() -> Iterator[None]:
    """Let a refusal say that it is the source's, which may need another key than the target. Raises: BrokerAnswer."""
    try:
        yield
    except (TopicNotFound, GroupNotFound):
        raise
    except BrokerAnswer as error:
        raise type(error)(error.code, f"{SOURCE_REFUSES}: {error.remark}") from None


def _refuse_itself(source: Admin, target: Admin) -> None:
    both = [one.client.nameservers for one in (source, target)]
    if comparable(str(both[0])) & comparable(str(both[1])):
        raise UsageError(f"{both[0]} is both source and target: choose two different clusters")


async def _refuse_members(target: Admin, groups: Sequence[str]) -> None:
    """Refuse groups that have members in the target: these would overwrite copied offsets. Raises: UsageError."""
    for group in groups:
        members = await target.members(group)
        if members:
            raise UsageError(
                f"{group} has members at {target.client.nameservers.chosen}, such as {members[0].client_id}, which "
                "commit their own offsets and overwrite copied ones: stop them first, or copy without this group"
            )


async def _group_configs(source: Admin, names: Sequence[str]) -> list[SubscriptionGroupConfig]:
    """Return the groups' configurations in the source. All are fetched, because a query for one may create it."""
    known: dict[str, SubscriptionGroupConfig] = {}
    for address in (await source.readers()).values() if names else ():
        answer = await source.client.pool.ask(address, GetAllGroups(), TIMEOUT_MS)
        if answer.code != SUCCESS:
            raise broker_answer(answer.code, answer.remark, f"groups of the source at {address}")
        if answer.body is not None:
            known = {**answer.body.subscription_group_table, **known}
    for name in names:
        if name not in known:
            words = f"there is no group {name} at {source.client.nameservers.chosen}"
            raise GroupNotFound(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, words)
    return [known[name] for name in names]


async def _queue_counts(source: Admin, topic: str) -> dict[str, int]:
    """Return the number of a topic's queues by broker. Raises: TopicNotFound, UsageError (it can't be read)."""
    counts = {}
    for queues in (await source.route(topic)).queue_datas:
        if not readable(queues.perm):
            raise UsageError(f"{topic} can't be read on {queues.broker_name}: its permission there is {queues.perm}")
        counts[queues.broker_name] = max(queues.read_queue_nums, queues.write_queue_nums)
    return counts


async def _topic_config(source: Admin, queue: MessageQueue) -> TopicConfig:
    """Return the configuration of a queue's topic in the source; the default if its broker doesn't return it."""
    try:
        return await source.topic_config(queue.topic, queue.broker_name)
    except BrokerAnswer:  # Brokers of RocketMQ 4 may not have the request, and the caller may lack the permission.
        return TopicConfig(queue.topic)


async def _prepare(target: Admin, config: TopicConfig, needed: dict[str, int]) -> None:
    """Create the topic if it doesn't exist, with the attributes and order of the source.

    Raises: UsageError (it exists with fewer queues).
    """
    topic = config.topic_name
    there = await _queues_there(target, topic, needed)
    for broker, count in needed.items():
        if 0 < there.get(broker, 0) < count:
            words = f"{topic} already exists on {broker} with {there[broker]} queues, but needs {count}"
            raise UsageError(f"{words}: delete it there, or copy to a cluster without this topic")
        if broker not in there:
            create = partial(target.create_topic, topic, count, order=config.order, broker_name=broker)
            try:
                await create(attributes=config.attributes)
            except BrokerAnswer:  # The target doesn't allow one of them, such as the message type MIXED.
                await create()


async def _queues_there(target: Admin, topic: str, brokers: Iterable[str]) -> dict[str, int]:
    """Return how many queues each broker of the target has; brokers without the topic are left out.

    The route of a retry topic also has brokers that would create it when its group begins.
    """
    try:
        there = {queues.broker_name: queues.write_queue_nums for queues in (await target.route(topic)).queue_datas}
    except TopicNotFound:
        return {}
    for broker in [name for name in brokers if name in there] if is_retry_topic(topic) else ():
        try:
            await target.topic_config(topic, broker)
        except TopicNotFound:
            del there[broker]
    return there


async def _bounds(source: Admin, queue: MessageQueue, wish: CopyWish) -> Bounds:
    first, end = await source.min_offset(queue), await source.max_offset(queue)
    start = first
    if wish.since_ms is not None:
        start = await source.offsets.search_offset(queue, wish.since_ms)
    if wish.until_ms is not None:
        end = min(end, await source.offsets.search_offset(queue, wish.until_ms))
    return Bounds(min(max(start, first), end), end).newest(wish.limit)


async def _already_there(target: Admin, reader: PullConsumer, queue: MessageQueue) -> AlreadyThere:
    there = AlreadyThere()
    bounds = Bounds(await target.min_offset(queue), await target.max_offset(queue))
    async for records in read_records(reader, queue, bounds):
        for record in records:
            there.add(record)
    return there


async def _committed(source: Admin, queue: MessageQueue, groups: Sequence[str]) -> dict[str, int]:
    found = {}
    for group in groups:
        offset = await source.offsets.committed(group, queue)
        if offset is not None:
            found[group] = offset
    return found


async def _commit(target: Admin, queue: MessageQueue, offsets: dict[str, int], report: CopyReport) -> None:
    for group, offset in offsets.items():
        await target.offsets.commit(group, queue, offset)
        report.offsets.setdefault(group, {})[queue] = offset
