"""The tables about groups of one broker. Most of them are kept when a snapshot replaces the broker's core."""

import msgspec

from staticfire.broker.clock.progress import ProgressTable
from staticfire.broker.groups.consumers import ConsumerManager
from staticfire.broker.groups.first_offsets import FirstOffsets
from staticfire.broker.groups.offsets import LastResets, OffsetTable
from staticfire.broker.groups.producers import ProducerManager
from staticfire.broker.groups.queue_locks import QueueLocks
from staticfire.broker.groups.retries import RetryWatch
from staticfire.broker.groups.subscription_groups import GroupTable
from staticfire.broker.pulls.refusals import Refusals


class GroupTables(msgspec.Struct):
    """What a broker knows about consumer groups and producer groups."""

    configs: GroupTable
    consumers: ConsumerManager
    producers: ProducerManager
    offsets: OffsetTable
    queue_locks: QueueLocks
    retries: RetryWatch
    progress: ProgressTable
    """How far the messages of each queue were delivered to each group."""
    refusals: Refusals = msgspec.field(default_factory=Refusals)
    last_resets: LastResets = msgspec.field(default_factory=LastResets)
    first_offsets: FirstOffsets = msgspec.field(default_factory=FirstOffsets)

    def knows(self, group: str) -> bool:
        """Return whether a group has members, producers or a configuration."""
        return (
            group in self.consumers.consumer_table
            or group in self.producers.producer_table
            or group in self.configs.groups
        )
