"""Settings of clients: frozen values with RocketMQ's defaults. RocketMQ: ClientConfig, DefaultMQProducer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

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
from staticfire.runtime.tls.settings import TlsClient, tls_client

if TYPE_CHECKING:
    from staticfire.runtime.credentials import Credentials

# There are this many unique ids per millisecond, and all messages posted in one tick have the same millisecond.
PENDING_MESSAGES_MAX = 65_536

# The maximum number of SEND_MANYs in flight to one broker: enough to keep both sides busy, few enough that messages
# gather meanwhile.
IN_FLIGHT_GATHERED_MAX = 4

# The same limit for single sends, each of which is a request.
IN_FLIGHT_SINGLE_MAX = 1_024

COMPRESS_TYPES = ("zlib", "lz4", "zstd")
COUNTED = within(1, PENDING_MESSAGES_MAX)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings that all producers and consumers of a client share.

    `protocol`: "staticfire" uses msgpack frames and gathered sends; "rocketmq" is the protocol of Apache RocketMQ's own
    brokers and nameservers. `instance_name`: "DEFAULT" becomes the process id and a random number, so that each client
    has its own id; any other name is used as it is, so the id is the same after a restart.
    """

    protocol: Literal["staticfire", "rocketmq"] = "staticfire"
    instance_name: str = "DEFAULT"
    unit_name: str | None = None
    namespace: str = ""
    """Topics and groups belong to this namespace, `ns%orders`; programs use plain names.

    RocketMQ: namespace (the prefix form).
    """
    client_ip: str | None = None
    poll_name_server_interval_ms: int = field(default=30_000, metadata=PERIOD)
    heartbeat_broker_interval_ms: int = field(default=30_000, metadata=PERIOD)
    rebalance_interval_ms: int = field(default=20_000, metadata=PERIOD)
    rebalance_min_interval_ms: int = field(default=100, metadata=PERIOD_OR_NONE)
    """The minimum time between two rebalances, however many notifications arrive.

    RocketMQ: 1,000; with a shorter time members agree sooner.
    """
    rebalance_retry_ms: int = field(default=1_000, metadata=PERIOD)
    """The pause after a rebalance that couldn't do everything because a broker or a route was missing."""
    mq_client_api_timeout_ms: int = field(default=3_000, metadata=PERIOD)
    """The timeout of requests for routes, heartbeats, consumer lists and unregistering.

    If a timeout ends while the machine doesn't let the program run, it is extended once, by the time that it was
    noticed late, up to 10 s. The same applies to sends that wait for a connection or a response.
    """
    align_versions: bool = True
    """Whether versions of subscriptions are the brokers' time. RocketMQ: this machine's time, so that a client whose
    clock is ahead makes the changes of other members ineffective.
    """
    avoid_broker_ms: int = field(default=2_000, metadata=PERIOD_OR_NONE)
    """How long other brokers are preferred to one that couldn't be reached."""
    tls: bool | TlsClient | Mapping[str, Any] = False
    """True: use TLS and accept every server. A TlsClient, or a dictionary with RocketMQ's names like
    tls.client.trustCertPath, says what is verified. RocketMQ: useTLS, tls.enable.
    """
    access_key: str = ""
    """The user in whose name requests are signed. Unset: ROCKETMQ_ACCESS_KEY in the environment. RocketMQ:
    SessionCredentials."""
    secret_key: str = field(default="", repr=False)
    """The secret of the access key. Unset: ROCKETMQ_SECRET_KEY in the environment."""
    security_token: str = field(default="", repr=False)
    """A token of a cloud: it is signed and sent, and brokers don't check it."""

    def __post_init__(self) -> None:
        check_ranges(self)
        tls_client(self.tls)
        if bool(self.access_key) != bool(self.secret_key):
            raise UsageError("access_key and secret_key belong together: give both, or none")
        if self.protocol not in ("staticfire", "rocketmq"):
            raise UsageError(f'protocol={self.protocol!r} is unknown; known are "staticfire" and "rocketmq"')

    @classmethod
    def signing(cls, credentials: "Credentials | None", tls: TlsClient | None = None) -> "ClientSettings":
        """Return the default settings with an access key, and with TLS unless `tls` is None."""
        if credentials is None:
            return cls(tls=tls or False)
        return cls(access_key=credentials.access_key, secret_key=credentials.secret_key, tls=tls or False)

    @property
    def credentials(self) -> "Credentials | None":
        """The access key with its secret, if they are given."""
        if not self.access_key:
            return None
        from staticfire.runtime.credentials import Credentials  # imported here: most clients have no key

        return Credentials.of(self.access_key, self.secret_key, self.security_token)

    @property
    def codec_byte(self) -> int:
        """The codec of this client's requests."""
        return NATIVE if self.protocol == "staticfire" else JSON


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How a producer sends. Attempts, timeouts and limits are per message."""

    client: ClientSettings = ClientSettings()
    create_topic_key: str = "TBW102"
    default_topic_queue_nums: int = field(default=4, metadata=within(1, QUEUES_OF_TOPIC_MAX))
    send_msg_timeout_ms: int = field(default=3_000, metadata=PERIOD)
    """The timeout for a message with all its attempts."""
    send_msg_max_timeout_per_request_ms: int = field(default=-1, metadata=within(-1, INT32_MAX))
    """The timeout for each attempt but the last; below 0: one attempt may take all the time."""
    retry_times_when_send_failed: int = field(default=2, metadata=within(0, INT32_MAX))
    retry_another_broker_when_not_store_ok: bool = False
    compress_msg_body_over_bytes: int = field(default=4_096, metadata=within(0, INT32_MAX))
    compress_type: Literal["zlib", "lz4", "zstd"] = "zlib"
    """lz4 and zstd need `pip install 'staticfire[compression]'`. RocketMQ's clients read all of them since 5.0."""
    compress_level: int = field(default=5, metadata=within(-1, 9))
    max_message_size_bytes: int = field(default=BODY_BYTES_MAX, metadata=within(1, INT32_MAX))
    pending_messages_max: int = field(default=10_000, metadata=COUNTED)
    """The maximum number of messages posted but not settled. Above it `send` waits, and `post` raises."""
    pending_bytes_max: int = field(default=100 * 1024 * 1024, metadata=within(1, INT64_MAX))
    gathered_messages_max: int = field(default=SEND_MANY_MESSAGES_MAX, metadata=within(1, SEND_MANY_TAKEN_MAX))
    gathered_bytes_max: int = field(default=SEND_MANY_BYTES_MAX, metadata=within(1, FRAME_BYTES_MAX // 2))
    in_flight_gathered_max: int = field(default=IN_FLIGHT_GATHERED_MAX, metadata=COUNTED)
    in_flight_single_max: int = field(default=IN_FLIGHT_SINGLE_MAX, metadata=COUNTED)
    send_latency_fault_enable: bool = False
    """Avoid brokers that were slow or failed, as long as RocketMQ's table says (client/produce/broker_faults.py). If
    False, only brokers that couldn't be reached are avoided, for avoid_broker_ms.
    """
    start_detector_enable: bool = False
    """Needs send_latency_fault_enable: if all brokers are avoided, prefer those that the detector can reach."""
    detect_timeout_ms: int = field(default=200, metadata=PERIOD)
    detect_interval_ms: int = field(default=2_000, metadata=PERIOD)
    """The time between two such checks of a broker; every 3 s the detector looks which brokers are due."""
    enable_trace: bool = False
    """Write traces of the sends to `trace_topic`, in RocketMQ's format. RocketMQ: enableMsgTrace."""
    trace_topic: str = TRACE_TOPIC

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.compress_type not in COMPRESS_TYPES:
            raise UsageError(f"compress_type={self.compress_type!r} is unknown; known are {', '.join(COMPRESS_TYPES)}")


@dataclass(frozen=True, slots=True)
class PullSettings:
    """How a pull consumer pulls. RocketMQ: DefaultMQPullConsumer."""

    client: ClientSettings = ClientSettings()
    consumer_pull_timeout_ms: int = field(default=10_000, metadata=PERIOD)
    """The timeout of a pull that the broker doesn't hold."""
    hold_margin_ms: int = field(default=10_000, metadata=PERIOD_OR_NONE)
    """How much longer than the requested hold time to wait for the response.

    RocketMQ waits 30 s in all, for a hold of 20 s.
    """
    offset_timeout_ms: int = field(default=5_000, metadata=PERIOD)
    max_reconsume_times: int = field(default=16, metadata=within(0, INT32_MAX))
    """How often a message that was sent back is redelivered before it is a dead letter."""
    max_msg_bytes: int = field(default=262_144, metadata=within(1, INT32_MAX))
    """Brokers ignore it, also RocketMQ's: maxTransferBytesOnMessageInMemory is what limits a response."""

    def __post_init__(self) -> None:
        check_ranges(self)
