"""Settings of push consumers: frozen values with RocketMQ's names. RocketMQ: DefaultMQPushConsumer.

Defaults that concern only this client differ from RocketMQ's where a first message would wait without need: the first
rebalance is part of the start (there 1 s later), and a queue's first pull is sent at once (there after 500 ms).
"""

from dataclasses import dataclass, field
from enum import Enum

from staticfire.client.cluster.settings import ClientSettings
from staticfire.client.settings.allocation import AVERAGELY, AllocateStrategy
from staticfire.protocol.limits import PULL_BYTES_MAX, PULL_MESSAGES_MAX
from staticfire.protocol.names import TRACE_TOPIC
from staticfire.protocol.requests.pop import POP_MESSAGES_MAX
from staticfire.protocol.times import MessageMs
from staticfire.runtime.ranges import INT32_MAX, INT64_MAX, PERIOD, PERIOD_OR_NONE, check_ranges, within

MIB = 1024 * 1024
CONSUME_THREADS_MAX = 1_000
# The limit for concurrent consumption if max_reconsume_times is -1.
RECONSUME_TIMES_MAX = 16
# The limit for ordered consumption if max_reconsume_times is -1: a message blocks its queue until it succeeds.
ORDERED_RECONSUME_TIMES_MAX = 2**31 - 1


class MessageModel(Enum):
    """Whether the members of a group share the messages, or each gets all of them. RocketMQ: MessageModel."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumeFromWhere(Enum):
    """Where a group starts in a queue without a stored offset. RocketMQ: ConsumeFromWhere."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@dataclass(frozen=True, slots=True)
class PushSettings:
    """How a push consumer pulls, consumes and shares queues. RocketMQ's consumer checks most of these ranges, too."""

    client: ClientSettings = field(default_factory=ClientSettings)
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    consume_timestamp_ms: MessageMs | None = field(default=None, metadata=within(0, INT64_MAX))
    """Where ConsumeFromWhere.TIMESTAMP begins, in milliseconds since 1970; None: half an hour before the start."""
    skip_young_history: bool = False
    """Let LAST_OFFSET skip all messages of a young queue, too. RocketMQ starts at 0 if its first message exists."""
    allocate_strategy: AllocateStrategy = AVERAGELY

    # Consumption
    consume_threads: int = field(default=20, metadata=within(1, CONSUME_THREADS_MAX))
    """How many listener calls run at once: coroutines as tasks, plain functions in threads."""
    consume_message_batch_max_size: int = field(default=1, metadata=within(1, 1_024))
    max_reconsume_times: int = field(default=-1, metadata=within(-1, INT32_MAX))
    """How often a message is retried before it is a dead letter; -1: 16 times, without limit if ordered."""
    reconsume_later_honours_ack_index: bool = False
    """With an ack_index, RECONSUME_LATER retries only the messages after it. RocketMQ retries all."""
    consume_timeout_ms: int = field(default=15 * 60_000, metadata=PERIOD)
    """A message whose listener takes longer is sent back, unless consumption is ordered. RocketMQ: consumeTimeout."""
    consume_timeout_scans: bool = False
    """As RocketMQ: check once per timeout, of each queue at most 16 messages, up to the first with time left."""
    resend_after_ms: int = field(default=0, metadata=PERIOD_OR_NONE)
    """If a message isn't done this long after its listener began, it is sent back, and its queue continues without it.
    So after a restart only this message is redelivered, not those after it. 0: off. RocketMQ has no such setting.
    """
    retry_here_ms: int = field(default=5_000, metadata=PERIOD)
    """The pause before a message is consumed here again, if no broker accepted it for redelivery."""
    await_termination_ms: int = field(default=10_000, metadata=PERIOD_OR_NONE)
    """How long to wait for running listener calls at the end. RocketMQ doesn't wait: the messages come twice."""

    # Ordered consumption
    suspend_current_queue_time_ms: int = field(default=1_000, metadata=PERIOD)
    """How long a queue pauses when its listener requests that: 10 to 30,000."""
    max_time_consume_continuously_ms: int = field(default=60_000, metadata=PERIOD)
    """After this time a queue lets others use its thread."""
    lock_interval_ms: int = field(default=20_000, metadata=PERIOD)
    """The time between two renewals of queue locks; at brokers they expire after 60 s."""
    lock_max_live_time_ms: int = field(default=30_000, metadata=PERIOD)
    """A lock that wasn't renewed for this time is no longer trusted."""
    lock_timeout_ms: int = field(default=1_000, metadata=PERIOD)
    """The timeout for a broker's response."""

    # Pulling
    pull_batch_size: int = field(default=PULL_MESSAGES_MAX, metadata=within(1, 1_024))
    pull_batch_size_in_bytes: int = field(default=PULL_BYTES_MAX, metadata=within(1, INT32_MAX))
    """Brokers ignore it, also RocketMQ's: maxTransferBytesOnMessageInMemory is what limits a response."""
    pull_interval_ms: int = field(default=0, metadata=within(0, 65_535))
    pull_threshold_for_queue: int = field(default=1_000, metadata=within(1, 65_535))
    pull_threshold_size_for_queue_mib: int = field(default=100, metadata=within(1, 1_024))
    pull_threshold_for_topic: int = field(default=-1, metadata=within(-1, 6_553_500))
    pull_threshold_size_for_topic_mib: int = field(default=-1, metadata=within(-1, 102_400))
    consume_concurrently_max_span: int = field(default=2_000, metadata=within(1, 65_535))
    flow_control_pause_ms: int = field(default=50, metadata=PERIOD)
    pull_error_pause_ms: int = field(default=3_000, metadata=PERIOD)
    broker_suspend_max_ms: int = field(default=15_000, metadata=PERIOD_OR_NONE)
    """How long a broker may hold a pull that finds nothing."""
    pull_timeout_ms: int = field(default=30_000, metadata=PERIOD)
    post_subscription_when_pull: bool = False
    """Send the subscription with each pull, too. Otherwise brokers filter by the group's heartbeats."""
    offset_illegal_pause_ms: int = field(default=10_000, metadata=PERIOD_OR_NONE)
    """The time from dropping a queue with an illegal offset to correcting that offset; RocketMQ 5.3: 0."""

    # Sharing and progress
    pull_idle_ms_max: int = field(default=120_000, metadata=PERIOD)
    """A queue that wasn't pulled for this time is dropped and taken again."""
    offset_timeout_ms: int = field(default=5_000, metadata=PERIOD)
    persist_first_ms: int = field(default=10_000, metadata=PERIOD_OR_NONE)
    persist_interval_ms: int = field(default=5_000, metadata=PERIOD)
    local_offset_store_dir: str = ".rocketmq_offsets"
    """The folder of the offsets with BROADCASTING: <dir>/<ip@instance>/<group>/offsets.json."""

    # POP
    client_rebalance: bool = True
    """Members distribute queues themselves. False: brokers assign queues, and decide whether they are popped or pulled,
    as set with `Admin.set_consume_mode`; not in BROADCASTING, and not for ordered consumption. RocketMQ:
    clientRebalance.
    """
    pop_invisible_time_ms: int = field(default=60_000, metadata=within(5_000, 300_000))
    """How long a popped message is invisible to others. If its listener takes longer, it is redelivered."""
    pop_batch_nums: int = field(default=32, metadata=within(1, POP_MESSAGES_MAX))
    pop_threshold_for_queue: int = field(default=96, metadata=within(1, 65_535))
    """If a consumer holds more messages of a broker, it doesn't pop from it."""
    pop_dead_letters: bool = True
    """Whether a popped message that failed too often becomes a dead letter. RocketMQ drops it."""

    enable_trace: bool = False
    """Write traces of consumption to `trace_topic`, in RocketMQ's format. RocketMQ: enableMsgTrace."""
    trace_topic: str = TRACE_TOPIC

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def is_assigned_by_brokers(self) -> bool:
        """Whether brokers assign the queues, unless consumption is ordered."""
        return not self.client_rebalance and self.message_model is MessageModel.CLUSTERING

    @property
    def retries_max(self) -> int:
        """How many retries a message has before it is a dead letter."""
        return RECONSUME_TIMES_MAX if self.max_reconsume_times == -1 else self.max_reconsume_times

    @property
    def ordered_retries_max(self) -> int:
        """How many retries a message has before it is a dead letter, in ordered consumption."""
        return ORDERED_RECONSUME_TIMES_MAX if self.max_reconsume_times == -1 else self.max_reconsume_times
