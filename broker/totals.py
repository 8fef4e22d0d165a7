"""What one broker holds by topic and by group, read from its tables on request. Nothing is counted only for this.

A topic belongs to a group if the group has an offset in it or is subscribed to it; to an online group only if it is
subscribed. Metrics use the same rule.
"""

from collections.abc import Collection, Iterable

from staticfire.broker.groups.consumers import BROADCASTING
from staticfire.broker.groups.findings import findings_of
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.pop.lazy_service import LazyPopService
from staticfire.broker.state import BrokerState
from staticfire.broker.topics import TopicTable
from staticfire.protocol.lag import lag_of
from staticfire.protocol.names import dead_letter_topic, requested_topic, retry_topic
from staticfire.protocol.requests.topics import TopicConfig
from staticfire.protocol.requests.totals import GroupTotal, TopicTotal


def counts_for(groups: GroupTables, group: str, topic: str) -> bool:
    """Whether a topic belongs to a group; for an online group only its subscriptions and their retries do."""
    online = groups.consumers.consumer_table.get(group)
    return online is None or not online.subscriptions or requested_topic(topic, group) in online.subscriptions


def topics_by_group(groups: GroupTables) -> dict[str, set[str]]:
    """Return for each group the topics in which it has an offset, or to which it is subscribed."""
    found: dict[str, set[str]] = {}
    for group, topic in groups.offsets.places():
        if counts_for(groups, group, topic):
            found.setdefault(group, set()).add(topic)
    for name, online in groups.consumers.consumer_table.items():
        if online.message_model == "CLUSTERING":  # Broadcasting members keep their offsets themselves.
            found.setdefault(name, set()).update(online.subscriptions)
    for group, topics in found.items():
        if counts_for(groups, group, retry_topic(group)):
            topics.add(retry_topic(group))  # Also of a group that left before its retries were due.
    return found


class BrokerTotals:
    """Reads the tables of one broker."""

    def __init__(self, state: BrokerState, topics: TopicTable, groups: GroupTables, pops: LazyPopService) -> None:
        self._topics = topics
        self._store = state.store
        self._groups = groups
        self._pops = pops

    def of_topics(self, names: Collection[str] | None) -> dict[str, TopicTotal]:
        """Return topics with these names, or all."""
        table = self._topics.topics
        wanted = list(table.values()) if names is None else [table[name] for name in names if name in table]
        return {one.topic_name: TopicTotal(one.read_queue_nums, self._messages_of(one)) for one in wanted}

    def _messages_of(self, topic: TopicConfig) -> int:
        name, queue_of, count = topic.topic_name, self._store.queue, 0
        for queue_id in range(max(topic.read_queue_nums, topic.write_queue_nums)):
            queue = queue_of(name, queue_id)
            count += queue.max_offset - queue.min_offset
        return count

    def of_groups(self, names: Collection[str] | None) -> dict[str, GroupTotal]:
        """Return groups with these names, or all."""
        there = self._groups.configs.groups
        online = self._groups.consumers.consumer_table
        wanted = list(dict.fromkeys([*there, *online])) if names is None else names
        topics = topics_by_group(self._groups)
        return {
            name: self._total_of(name, topics.get(name, ())) for name in wanted if name in there or name in online
        }  # fmt: skip

    def _total_of(self, group: str, topics: Iterable[str]) -> GroupTotal:
        online = self._groups.consumers.consumer_table.get(group)
        dead = self._topics.get(dead_letter_topic(group))
        total = GroupTotal(
            lag=sum(self._lag(group, one) for one in map(self._topics.get, topics) if one is not None),
            dead_letters=0 if dead is None else self._messages_of(dead),
        )
        if online is not None:
            total.members = sorted({one.client_id for one in online.channel_info_table.values()})
            total.findings = len(findings_of(online))
            total.broadcasts = online.message_model == BROADCASTING
        return total

    def _lag(self, group: str, topic: TopicConfig) -> int:
        name, lag = topic.topic_name, 0
        for queue_id in range(topic.read_queue_nums):
            queue = self._store.queue(name, queue_id)
            popped, _ = self._pops.in_flight(group, name, queue_id)
            committed = self._groups.offsets.committed(group, name, queue_id)
            lag += lag_of(queue.max_offset, committed, queue.min_offset, popped)
        return lag
