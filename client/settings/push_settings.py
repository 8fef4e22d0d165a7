"""Settings of push consumers: frozen values with RocketMQ's names. RocketMQ: DefaultMQPushConsumer.

Numbers that are this client's own business differ from RocketMQ's where a first message would wait for nothing: the
first rebalance is part of the start (there 1 s later), and a queue's first pull leaves at once (there after 500 ms).
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
RECONSUME_TIMES_MAX = 16
# Of concurrent consumption, when max_reconsume_times is -1.
ORDERED_RECONSUME_TIMES_MAX = 2**31 - 1
# Of ordered consumption: a message holds its queue until it succeeds.


class MessageModel(Enum):
    """Whether the members of a group share the messages or each gets all of them. RocketMQ: MessageModel."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumeFromWhere(Enum):
    """Where a group begins in a queue that it has no offset in. RocketMQ: ConsumeFromWhere."""

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
    """Where ConsumeFromWhere.TIMESTAMP begins: milliseconds since 1970; half an hour before the start when None."""
    skip_young_history: bool = False
    """LAST_OFFSET skips what a young queue holds, too. RocketMQ starts at 0 where the first message is still there."""
    allocate_strategy: AllocateStrategy = AVERAGELY

    # Consumption
    consume_threads: int = field(default=20, metadata=within(1, 1_000))
    """How many listeners run at once: coroutines as tasks, plain functions in threads."""
    consume_message_batch_max_size: int = field(default=1, metadata=within(1, 1_024))
    max_reconsume_times: int = field(default=-1, metadata=within(-1, INT32_MAX))
    """How often a message is tried again before it is dead; -1 means 16, and for ever in ordered consumption."""
    reconsume_later_honours_ack_index: bool = False
    """With an ack_index, RECONSUME_LATER retries only what comes behind it. RocketMQ retries all."""
    consume_timeout_ms: int = field(default=15 * 60_000, metadata=PERIOD)
    """A message whose listener takes longer is sent back, unless it is consumed in order. RocketMQ: consumeTimeout."""
    consume_timeout_scans: bool = False
    """RocketMQ's way: once per timeout, and of each queue only its first 16 messages, up to one that has time left."""
    resend_after_ms: int = field(default=0, metadata=PERIOD_OR_NONE)
    """A message that isn't done so long after its listener began is sent back, and its queue goes on without it: so a
    restart brings again that one, and none of those behind it. 0: off. RocketMQ has nothing like it."""
    retry_here_ms: int = field(default=5_000, metadata=PERIOD)
    """When a message that could neither be sent back nor sent is consumed here again."""
    await_termination_ms: int = field(default=10_000, metadata=PERIOD_OR_NONE)
    """How long leaving waits for listeners that run. RocketMQ doesn't wait: their messages come twice."""

    # Ordered consumption
    suspend_current_queue_time_ms: int = field(default=1_000, metadata=PERIOD)
    """How long a queue waits whose listener wants its messages again: 10 to 30,000."""
    max_time_consume_continuously_ms: int = field(default=60_000, metadata=PERIOD)
    """After that a queue lets others have its thread."""
    lock_interval_ms: int = field(default=20_000, metadata=PERIOD)
    """Between two renewals of queue locks; brokers forget them after 60 s."""
    lock_max_live_time_ms: int = field(default=30_000, metadata=PERIOD)
    """A lock that could not be renewed for that long isn't trusted any more."""
    lock_timeout_ms: int = field(default=1_000, metadata=PERIOD)
    """For a broker's answer."""

    # Pulling
    pull_batch_size: int = field(default=PULL_MESSAGES_MAX, metadata=within(1, 1_024))
    pull_batch_size_in_bytes: int = field(default=PULL_BYTES_MAX, metadata=within(1, INT32_MAX))
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
    """Send the subscription with each pull, too. Without it brokers filter by the group's heartbeats."""
    offset_illegal_pause_ms: int = field(default=10_000, metadata=PERIOD_OR_NONE)
    """Between dropping a queue whose offset a broker refused and correcting it; RocketMQ 5.3: 0."""

    # Sharing and progress
    pull_idle_ms_max: int = field(default=120_000, metadata=PERIOD)
    """A queue that was not pulled for that long is dropped and taken anew."""
    offset_timeout_ms: int = field(default=5_000, metadata=PERIOD)
    persist_first_ms: int = field(default=10_000, metadata=PERIOD_OR_NONE)
    persist_interval_ms: int = field(default=5_000, metadata=PERIOD)
    local_offset_store_dir: str = ".rocketmq_offsets"
    """Where BROADCASTING keeps its offsets: <dir>/<ip@instance>/<group>/offsets.json."""

    # POP
    client_rebalance: bool = True
    """Members share queues among themselves. False: brokers say who has which, and whether they are popped or pulled,
    as `Admin.set_consume_mode` has set it; not in BROADCASTING, and not in order. RocketMQ: clientRebalance."""
    pop_invisible_time_ms: int = field(default=60_000, metadata=within(5_000, 300_000))
    """How long nobody else gets a popped message: a listener that takes longer gets it again."""
    pop_batch_nums: int = field(default=32, metadata=within(1, POP_MESSAGES_MAX))
    pop_threshold_for_queue: int = field(default=96, metadata=within(1, 65_535))
    """With more messages of a broker in hand, it isn't popped."""
    pop_dead_letters: bool = True
    """A popped message that has failed too often is a dead letter. RocketMQ drops it."""

    enable_trace: bool = False
    """Write what was consumed to `trace_topic`, in RocketMQ's form. RocketMQ: enableMsgTrace."""
    trace_topic: str = TRACE_TOPIC

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def is_assigned_by_brokers(self) -> bool:
        """Whether brokers say who has which queues, unless they are consumed in order."""
        return not self.client_rebalance and self.message_model is MessageModel.CLUSTERING

    @property
    def retries_max(self) -> int:
        """After how many failures a message is dead."""
        return RECONSUME_TIMES_MAX if self.max_reconsume_times == -1 else self.max_reconsume_times

    @property
    def ordered_retries_max(self) -> int:
        """After how many failures a message is dead that is consumed in order."""
        return ORDERED_RECONSUME_TIMES_MAX if self.max_reconsume_times == -1 else self.max_reconsume_times
