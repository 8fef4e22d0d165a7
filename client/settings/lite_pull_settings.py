"""Settings of lite pull consumers: frozen values with RocketMQ's names and defaults. RocketMQ: DefaultLitePullConsumer.

There is no `pullThreadNums`, because this client pulls without threads.
"""

from dataclasses import dataclass, field

from staticfire.client.cluster.settings import ClientSettings
from staticfire.client.settings.allocation import AVERAGELY, AllocateStrategy
from staticfire.client.settings.push_settings import ConsumeFromWhere, MessageModel, PushSettings
from staticfire.protocol.errors import UsageError
from staticfire.protocol.limits import PULL_BYTES_MAX
from staticfire.protocol.times import MessageMs
from staticfire.runtime.ranges import INT32_MAX, INT64_MAX, PERIOD, PERIOD_OR_NONE, check_ranges, within

# A queue that isn't pulled isn't stuck: the program has paused it, or doesn't poll.
NEVER_IDLE_MS = INT32_MAX


@dataclass(frozen=True, slots=True)
class LitePullSettings:
    """How a lite pull consumer pulls, commits and shares queues."""

    client: ClientSettings = field(default_factory=ClientSettings)
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    consume_timestamp_ms: MessageMs | None = field(default=None, metadata=within(0, INT64_MAX))
    """Where ConsumeFromWhere.TIMESTAMP begins, in milliseconds since 1970; None: half an hour before the start."""
    skip_young_history: bool = False
    """Let LAST_OFFSET skip all messages of a young queue, too. RocketMQ starts at 0 if its first message exists."""
    allocate_strategy: AllocateStrategy = AVERAGELY
    """How the members of a group distribute queues; not used for queues assigned with `assign`."""

    poll_timeout_ms: int = field(default=5_000, metadata=PERIOD_OR_NONE)
    """How long `poll` waits if it gets no timeout."""
    auto_commit: bool = True
    """Commit polled messages at a later poll: that poll means that they are done."""
    auto_commit_interval_ms: int = field(default=5_000, metadata=within(1_000, INT32_MAX))

    pull_batch_size: int = field(default=10, metadata=within(1, 1_024))
    """The maximum number of messages per pull, and so per poll; by default brokers return 32 at most."""
    pull_batch_size_in_bytes: int = field(default=PULL_BYTES_MAX, metadata=within(1, INT32_MAX))
    """Brokers ignore it, also RocketMQ's: maxTransferBytesOnMessageInMemory is what limits a response."""
    pull_threshold_for_all: int = field(default=10_000, metadata=within(1, 6_553_500))
    """If more messages wait to be polled, nothing is pulled."""
    pull_threshold_for_queue: int = field(default=1_000, metadata=within(1, 65_535))
    pull_threshold_size_for_queue_mib: int = field(default=100, metadata=within(1, 1_024))
    consume_max_span: int = field(default=2_000, metadata=within(1, 65_535))
    flow_control_pause_ms: int = field(default=50, metadata=PERIOD)
    pull_error_pause_ms: int = field(default=1_000, metadata=PERIOD)
    broker_suspend_max_ms: int = field(default=20_000, metadata=PERIOD_OR_NONE)
    """How long a broker may hold a pull that finds nothing. RocketMQ: brokerSuspendMaxTimeMillis."""
    pull_timeout_ms: int = field(default=30_000, metadata=PERIOD)
    """The timeout of a pull. RocketMQ: consumerTimeoutMillisWhenSuspend."""

    offset_timeout_ms: int = field(default=5_000, metadata=PERIOD)
    persist_first_ms: int = field(default=10_000, metadata=PERIOD_OR_NONE)
    persist_interval_ms: int = field(default=5_000, metadata=PERIOD)
    local_offset_store_dir: str = ".rocketmq_offsets"
    """The folder of the offsets with BROADCASTING: <dir>/<ip@instance>/<group>/offsets.json."""

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.broker_suspend_max_ms >= self.pull_timeout_ms:
            raise UsageError(
                f"pull_timeout_ms={self.pull_timeout_ms} must be more than "
                f"broker_suspend_max_ms={self.broker_suspend_max_ms}, else a pull times out while the broker still "
                "holds it"
            )

    def as_push(self) -> PushSettings:
        """Return settings for the parts that it shares with push consumers."""
        return PushSettings(
            client=self.client,
            message_model=self.message_model,
            consume_from_where=self.consume_from_where,
            consume_timestamp_ms=self.consume_timestamp_ms,
            skip_young_history=self.skip_young_history,
            allocate_strategy=self.allocate_strategy,
            consume_concurrently_max_span=self.consume_max_span,
            pull_batch_size=self.pull_batch_size,
            pull_batch_size_in_bytes=self.pull_batch_size_in_bytes,
            pull_threshold_for_queue=self.pull_threshold_for_queue,
            pull_threshold_size_for_queue_mib=self.pull_threshold_size_for_queue_mib,
            flow_control_pause_ms=self.flow_control_pause_ms,
            pull_error_pause_ms=self.pull_error_pause_ms,
            broker_suspend_max_ms=self.broker_suspend_max_ms,
            pull_timeout_ms=self.pull_timeout_ms,
            post_subscription_when_pull=True,
            pull_idle_ms_max=NEVER_IDLE_MS,
            offset_timeout_ms=self.offset_timeout_ms,
            persist_first_ms=self.persist_first_ms,
            persist_interval_ms=self.persist_interval_ms,
            local_offset_store_dir=self.local_offset_store_dir,
        )
