"""What the parts of one broker share, wired in one place."""

from dataclasses import dataclass, field

from staticfire.broker.consumers import ConsumerManager
from staticfire.broker.groups import GroupTable
from staticfire.broker.held_pulls import HeldPulls
from staticfire.broker.message_clock import MessageClock
from staticfire.broker.offsets import OffsetTable
from staticfire.broker.producers import ProducerManager
from staticfire.broker.queue_locks import QueueLocks
from staticfire.broker.rest import RestWatch
from staticfire.broker.retries import RetryWatch
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.small_state import SmallState
from staticfire.broker.statistics import Statistics
from staticfire.broker.store.store import MessageStore
from staticfire.broker.topics import TopicTable
from staticfire.runtime.machine import DiskUse, Machine


@dataclass(slots=True)
class BrokerState:
    """Tables, store and clocks of one broker."""

    machine: Machine
    settings: BrokerSettings
    clock: MessageClock
    store: MessageStore
    topics: TopicTable
    groups: GroupTable
    offsets: OffsetTable
    consumers: ConsumerManager
    producers: ProducerManager
    held: HeldPulls
    small_state: SmallState
    rest: RestWatch
    queue_locks: QueueLocks = field(default_factory=QueueLocks)
    retries: RetryWatch = field(default_factory=RetryWatch)
    statistics: Statistics = field(default_factory=Statistics)
    disk_use: DiskUse = field(default=DiskUse(0, 0))
    """When it was last looked at."""

    def use(self, settings: BrokerSettings) -> None:
        """Put other settings in place, for all that looks them up while the broker runs."""
        self.settings = settings
        self.topics.use(settings)
        self.groups.use(settings)

    @property
    def cluster(self) -> str:
        return self.settings.broker_cluster_name

    @property
    def writable(self) -> bool:
        """Whether the broker as a whole takes messages."""
        return self.settings.broker_permission & 2 != 0

    @property
    def readable(self) -> bool:
        """Whether the broker as a whole hands out messages."""
        return self.settings.broker_permission & 4 != 0
