"""Settings of clients: frozen values with RocketMQ's defaults. RocketMQ: ClientConfig, DefaultMQProducer."""

from dataclasses import dataclass, field
from typing import Literal

from staticfire.protocol.codecs import JSON, NATIVE
from staticfire.protocol.errors import UsageError
from staticfire.protocol.limits import (
    BODY_BYTES_MAX,
    FRAME_BYTES_MAX,
    QUEUES_OF_TOPIC_MAX,
    SEND_MANY_BYTES_MAX,
    SEND_MANY_MESSAGES_MAX,
    SEND_MANY_TAKEN_MAX,
)
from staticfire.protocol.names import TRACE_TOPIC
from staticfire.runtime.ranges import INT32_MAX, INT64_MAX, PERIOD, PERIOD_OR_NONE, check_ranges, within

PENDING_MESSAGES_MAX = 65_536
# As many unique ids there are per millisecond, and all messages posted in one tick have the same millisecond.

IN_FLIGHT_GATHERED_MAX = 4
# SEND_MANYs under way to one broker: enough that both sides work at once, few enough that sends gather meanwhile.

IN_FLIGHT_SINGLE_MAX = 1_024
# The same for single sends, of which each is a request.

COMPRESS_TYPES = ("zlib", "lz4", "zstd")
COUNTED = within(1, PENDING_MESSAGES_MAX)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What all producers and consumers of a client share.

    `protocol`: "staticfire" is msgpack frames and gathered sends; "rocketmq" is what Apache RocketMQ's own brokers and
    nameservers understand. `instance_name`: "DEFAULT" becomes the process id and a random number, so that each client
    has an id of its own; any other name stays, and so does the id after a restart.
    """

    protocol: Literal["staticfire", "rocketmq"] = "staticfire"
    instance_name: str = "DEFAULT"
    unit_name: str | None = None
    namespace: str = ""
    """Topics and groups are those of a namespace, `ns%orders`; programs write and read plain names. RocketMQ: namespace
    (the prefix form)."""
    client_ip: str | None = None
    poll_name_server_interval_ms: int = field(default=30_000, metadata=PERIOD)
    heartbeat_broker_interval_ms: int = field(default=30_000, metadata=PERIOD)
    rebalance_interval_ms: int = field(default=20_000, metadata=PERIOD)
    rebalance_min_interval_ms: int = field(default=100, metadata=PERIOD_OR_NONE)
    """Between two rebalances, however many notifications come. RocketMQ: 1,000; here members agree sooner."""
    rebalance_retry_ms: int = field(default=1_000, metadata=PERIOD)
    """After a rebalance that could not do everything: a broker or a route was missing."""
    mq_client_api_timeout_ms: int = field(default=3_000, metadata=PERIOD)
    """For routes, heartbeats, consumer lists and goodbyes."""
    align_versions: bool = True
    """Versions of subscriptions are the brokers' time. RocketMQ: this machine's, so that a client whose clock is ahead
    shuts changes of others out."""
    avoid_broker_ms: int = field(default=2_000, metadata=PERIOD_OR_NONE)
    """How long other brokers are preferred to one that could not be reached."""

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.protocol not in ("staticfire", "rocketmq"):
            raise UsageError(f'protocol={self.protocol!r} is unknown; known are "staticfire" and "rocketmq"')

    @property
    def codec_byte(self) -> int:
        """The codec of this client's requests."""
        return NATIVE if self.protocol == "staticfire" else JSON


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How a producer sends. Attempts, time-outs and limits are per message."""

    client: ClientSettings = ClientSettings()
    create_topic_key: str = "TBW102"
    default_topic_queue_nums: int = field(default=4, metadata=within(1, QUEUES_OF_TOPIC_MAX))
    send_msg_timeout_ms: int = field(default=3_000, metadata=PERIOD)
    """For a message with all its attempts."""
    send_msg_max_timeout_per_request_ms: int = field(default=-1, metadata=within(-1, INT32_MAX))
    """For each attempt but the last; below 0: one attempt may take all the time."""
    retry_times_when_send_failed: int = field(default=2, metadata=within(0, INT32_MAX))
    retry_another_broker_when_not_store_ok: bool = False
    compress_msg_body_over_bytes: int = field(default=4_096, metadata=within(0, INT32_MAX))
    compress_type: Literal["zlib", "lz4", "zstd"] = "zlib"
    """The latter two: `pip install 'staticfire[compression]'`. Clients of RocketMQ read all of them from 5.0 on."""
    compress_level: int = field(default=5, metadata=within(-1, 9))
    max_message_size_bytes: int = field(default=BODY_BYTES_MAX, metadata=within(1, INT32_MAX))
    pending_messages_max: int = field(default=10_000, metadata=COUNTED)
    """Of what was posted and not settled: `send` waits above it, `post` refuses."""
    pending_bytes_max: int = field(default=100 * 1024 * 1024, metadata=within(1, INT64_MAX))
    gathered_messages_max: int = field(default=SEND_MANY_MESSAGES_MAX, metadata=within(1, SEND_MANY_TAKEN_MAX))
    gathered_bytes_max: int = field(default=SEND_MANY_BYTES_MAX, metadata=within(1, FRAME_BYTES_MAX // 2))
    in_flight_gathered_max: int = field(default=IN_FLIGHT_GATHERED_MAX, metadata=COUNTED)
    in_flight_single_max: int = field(default=IN_FLIGHT_SINGLE_MAX, metadata=COUNTED)
    send_latency_fault_enable: bool = False
    """Keep away from brokers that were slow or failed, for as long as RocketMQ's table says (client/produce/
    broker_faults.py). Without it only from those that could not be reached, for avoid_broker_ms."""
    start_detector_enable: bool = False
    """With the former: brokers that failed are the last choice until they have answered a question."""
    detect_timeout_ms: int = field(default=200, metadata=PERIOD)
    detect_interval_ms: int = field(default=2_000, metadata=PERIOD)
    """Between two such questions; every 3 s is looked whose turn it is."""
    enable_trace: bool = False
    """Write what was sent to `trace_topic`, in RocketMQ's form. RocketMQ: enableMsgTrace."""
    trace_topic: str = TRACE_TOPIC

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.compress_type not in COMPRESS_TYPES:
            raise UsageError(f"compress_type={self.compress_type!r} is unknown; known are {', '.join(COMPRESS_TYPES)}")


@dataclass(frozen=True, slots=True)
class PullSettings:
    """How a pull consumer asks. RocketMQ: DefaultMQPullConsumer."""

    client: ClientSettings = ClientSettings()
    consumer_pull_timeout_ms: int = field(default=10_000, metadata=PERIOD)
    """For an answer that the broker gives at once."""
    hold_margin_ms: int = field(default=10_000, metadata=PERIOD_OR_NONE)
    """How much longer than the asked hold an answer is waited for: RocketMQ gives up at 30 s after a hold of 20 s."""
    offset_timeout_ms: int = field(default=5_000, metadata=PERIOD)
    max_reconsume_times: int = field(default=16, metadata=within(0, INT32_MAX))
    """How often a message that was sent back comes again before it is dead."""
    max_msg_bytes: int = field(default=262_144, metadata=within(1, INT32_MAX))

    def __post_init__(self) -> None:
        check_ranges(self)
