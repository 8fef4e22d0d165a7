"""The settings of a broker. Names and defaults are RocketMQ's where RocketMQ has them; units come last in a name.

RocketMQ: BrokerConfig, MessageStoreConfig. The command line and broker.conf use the same names in camel case
(`autoCreateTopicEnable=false`).
"""

from dataclasses import field

from staticfire.broker.groups.protection import PROTECTION_MS_MAX
from staticfire.protocol.limits import FRAME_BYTES_MAX, PULL_BYTES_MAX, PULL_MESSAGES_MAX, QUEUES_OF_TOPIC_MAX
from staticfire.runtime.ranges import (
    INT32_MAX,
    INT64_MAX,
    PERCENT,
    PERIOD,
    PERIOD_OR_NONE,
    PORT,
    chars,
    settings_class,
    within,
)
from staticfire.runtime.reach import Reach
from staticfire.runtime.tls.settings import TlsSettings

KIB, MIB = 1024, 1024 * 1024
NAME = chars(1, 255)
PERMISSION = within(0, 7)
PROTECTION = within(0, PROTECTION_MS_MAX)
REPLICAS_MAX = 10


@settings_class
class BrokerSettings(TlsSettings):  # house: one line or two for each setting
    """One broker. Read once, passed down as a value."""

    # Identity
    broker_cluster_name: str = field(default="DefaultCluster", metadata=NAME)
    broker_name: str = field(default="broker-a", metadata=NAME)
    broker_id: int = field(default=0, metadata=within(0, INT64_MAX))
    namesrv_addr: str = ""
    """Addresses of the nameservers, separated by semicolons. Empty: no nameserver; clients need the broker's
    address."""
    broker_role: str = field(default="ASYNC_MASTER", metadata={"choices": ("ASYNC_MASTER", "SYNC_MASTER", "SLAVE")})
    """A slave copies the log of the master that has its name. SYNC_MASTER waits for inSyncReplicas."""

    # Addresses
    listen_host: str = field(default="0.0.0.0", metadata={"also": ("bindAddress",)})
    """0.0.0.0: every address of this machine, including IPv6 if there is any."""
    listen_port: int = field(default=10911, metadata=PORT)
    broker_ip1: str = field(default="", metadata={"rocketmq": "brokerIP1"})
    """The host that clients connect to. Empty: the address at which each client reached the nameserver."""
    advertised_port: int = field(default=0, metadata=PORT)
    """The port that clients connect to, together with brokerIP1. 0: listenPort."""
    external_host: str = ""
    """The host for clients that connect through a port mapping, like that of a container. Empty: no mapping."""
    external_port: int = field(default=0, metadata=PORT)
    """The port outside of the mapping. 0: listenPort."""
    vip_port_enable: bool = True
    """Also serve the port number listenPort - 2, which clients with vipChannelEnabled use."""
    store_path_root_dir: str = ""
    """Folder for the data."""

    # Topics and groups
    auto_create_topic_enable: bool = True
    default_topic_queue_nums: int = field(default=8, metadata=within(1, QUEUES_OF_TOPIC_MAX))
    auto_create_subscription_group: bool = True
    broker_permission: int = field(default=6, metadata=PERMISSION)
    refuse_retries_when_read_only: bool = False
    """Without write permission (brokerPermission=4), also reject sends to retry topics, which consumers try after a
    rejected send-back. RocketMQ accepts them until clients have the new route."""
    broker_topic_enable: bool = True
    cluster_topic_enable: bool = True
    trace_topic_enable: bool = True
    """On here, off in RocketMQ: without it, reading traces fails before the first trace is written."""
    msg_trace_topic_name: str = field(default="RMQ_SYS_TRACE_TOPIC", metadata=chars(1, 127))
    region_id: str = field(default="DefaultRegion", metadata=chars(0, 255))
    trace_on: bool = True
    store_reply_message_enable: bool = True
    """Store replies in <cluster>_REPLY_TOPIC in addition to forwarding them."""
    enable_property_filter: bool = True
    """SQL92 subscriptions. On here, off in RocketMQ, which then rejects them."""
    dlq_perm: int = field(default=6, metadata=PERMISSION)
    """Permission of %DLQ% topics: 6 as in RocketMQ 5, or 2 (write only) as in earlier versions."""

    # Access
    authentication_enabled: bool | None = None
    """Check signatures. Unset: as soon as there is a user. Until then, any access key is accepted, or none."""
    authorization_enabled: bool | None = None
    """Check policies. Unset: from the first policy on."""
    init_authentication_user: str = field(default="", metadata={"secret": True})
    """The first super user, like {"username":"admin","password":"..."}, or a list of users. Each is created
    at the first start that names it. If it is removed later, it doesn't come back."""
    inner_client_authentication_credentials: str = field(default="", metadata={"secret": True})
    """The user of the cluster's own programs, like {"accessKey":"...","secretKey":"..."}. It may do everything."""
    authentication_whitelist: str = ""
    """Codes of requests that need no signature, separated by commas; for gRPC, names like SendMessageRequest."""
    authorization_whitelist: str = ""
    """The same for policies."""
    acl_enable: bool = False
    """Check access as RocketMQ 4 does, by the accounts in plainAclFile. RocketMQ 5.3.3 accepts this setting and ignores
    it."""
    plain_acl_file: str = ""
    """A plain_acl.yml. It is read again when it changes."""
    old_acl_answers: bool = False
    """Refuse with the code and the texts of RocketMQ 4."""

    # Messages
    max_message_size: int = field(default=4 * MIB, metadata=within(1, INT32_MAX))
    reject_transaction_message: bool = False
    """Reject half messages."""
    transaction_time_out: int = field(default=6_000, metadata=within(0, INT32_MAX))
    """Time in ms (message time) after which the broker sends a check for a half message to its producer."""
    transaction_check_max: int = field(default=15, metadata=within(1, 10_000))
    """After this number of checks, a half message is moved to TRANS_CHECK_MAX_TIME_TOPIC."""
    transaction_check_interval: int = field(default=30_000, metadata=PERIOD)
    repeat_ended_commits: bool = False
    """A second commit of a half message stores the message again, as in RocketMQ."""
    timer_wheel_enable: bool = True
    """Messages with their own delivery time; without this they are rejected."""
    timer_max_delay_sec: int = field(default=259_200, metadata=within(1, 10 * 366 * 86_400))
    """The maximum delay of such messages, in seconds."""
    recall_message_enable: bool = True
    """Delayed messages can be recalled. On here, off in RocketMQ."""
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

    # Pulls
    long_polling_enable: bool = True
    short_polling_time_mills: int = field(default=1000, metadata=PERIOD_OR_NONE)
    unfinished_frame_bytes_max: int = field(default=128 * MIB, metadata=within(FRAME_BYTES_MAX, INT64_MAX))
    """Bytes of incomplete frames, of all connections together. Above it, the connections with the oldest are closed."""
    unfinished_frame_ms_max: int = field(default=60_000, metadata=PERIOD)
    """Time from the first byte of a frame to its last. After it, the connection is closed."""
    held_pulls_max: int = field(default=100_000, metadata=within(0, INT32_MAX))
    """Number of pulls that wait for messages, over all queues. One more is answered at once."""
    hold_ms_max: int = field(default=30_000, metadata=PERIOD_OR_NONE)
    lite_pull_message_enable: bool = True
    max_transfer_bytes_on_message_in_memory: int = field(default=PULL_BYTES_MAX, metadata=within(1, INT32_MAX))
    """Maximum size of the response to a pull. It always contains at least one message."""
    max_transfer_count_on_message_in_memory: int = field(default=PULL_MESSAGES_MAX, metadata=within(1, INT32_MAX))
    """Messages in a response to a RocketMQ client. With our own codec it may have 32 times as many."""

    remember_first_offsets: bool = True
    """A new group begins where a queue ended when its member first requested the group's offset. In RocketMQ it begins
    where the queue ends at the member's next request, after what is stored between the two."""
    ignore_late_commits: bool = True
    """Don't store an offset that is lower than the group's, if it comes from a member whose queue now belongs to
    another member. RocketMQ stores it."""

    # POP
    pop_from_retry_probability: int = field(default=20, metadata=PERCENT)
    """Percent of pops that first read returned messages; the others read them if there is room left."""
    enable_retry_topic_v2: bool = False
    """Returned messages go to %RETRY%<group>+<topic> instead of %RETRY%<group>_<topic>."""
    retrieve_message_from_pop_retry_topic_v1: bool = True
    """With enableRetryTopicV2: also read the topic of the other form."""
    pop_response_return_actual_retry_topic: bool = False
    """Deliver returned messages under the name of their retry topic."""
    init_pop_offset_by_check_msg_in_mem: bool = True
    """A new group that starts at the last message starts at the first one in a queue that still has its first
    message."""
    enable_pop_message_threshold: bool = False
    """Don't pop from a queue if the group has more unacknowledged messages than popInflightMessageThreshold."""
    pop_inflight_message_threshold: int = field(default=10_000, metadata=within(0, INT32_MAX))
    pop_polling_size: int = field(default=1_024, metadata=within(0, INT32_MAX))
    """Number of waiting pops of a group for one queue, or for all queues of a topic; one more is allowed."""
    max_pop_polling_size: int = field(default=100_000, metadata=within(0, INT32_MAX))
    """Number of waiting pops in total."""
    server_load_balancer_enable: bool = True
    """Distribute queues among the members that let the broker assign them; without this each member gets all."""
    default_message_request_mode: str = field(default="PULL", metadata={"choices": ("PULL", "POP")})
    """How groups get topics that have no mode of their own."""
    default_pop_share_queue_num: int = field(default=-1, metadata=within(-1, INT32_MAX))
    """The number of following members whose queues a member also pops; below 1: all."""
    wake_pops_of_returning: bool = False
    """A held pop receives a returned message at once. In RocketMQ it waits until its deadline. On in `up`, `run` and
    `Cluster`."""
    pop_dead_letters: bool = False
    """A popped message that was returned retryMaxTimes times becomes a dead letter. RocketMQ's brokers redeliver it
    forever. On in `up`, `run` and `Cluster`."""

    # Clients
    answer_newer_subscription_unfiltered: bool = False
    """If the tag subscription of a pull is newer than the one of all heartbeats, and its client filters messages
    itself, the pull gets all messages instead of SUBSCRIPTION_NOT_LATEST. On in `up`, `run` and `Cluster`."""
    fence_older_subscriptions: bool = False
    """Reject pulls whose subscription is older than the group's and differs, with SUBSCRIPTION_NOT_LATEST. RocketMQ
    rejects the newer ones. Our clients then rebalance and continue."""
    stable_time_ms: int = field(default=0, metadata=PROTECTION)
    """Time after which a client that joined a group of stable members counts as a member; see groups.md. The group's
    attribute with this name has priority."""
    grace_time_ms: int = field(default=0, metadata=PROTECTION)
    """Time for which a member whose connection is lost still counts as a member. The group's attribute with this name
    has priority."""
    channel_expired_timeout_ms: int = field(default=120_000, metadata={**PERIOD, "rocketmq": "channelExpiredTimeout"})
    channel_scan_interval_ms: int = field(default=10_000, metadata=PERIOD)
    notify_consumer_ids_changed_enable: bool = True
    use_server_side_reset_offset: bool = True
    any_pull_takes_resets: bool = False
    """The first pull of a queue ends the reset of a group's offset, as in RocketMQ, even if it comes from a member that
    no longer owns the queue. Without this, the reset ends when the owner continues at its offset."""

    # Disk
    flush_disk_type: str = field(default="ASYNC_FLUSH", metadata={"choices": ("ASYNC_FLUSH", "SYNC_FLUSH")})
    flush_interval_commit_log: int = field(default=500, metadata=PERIOD)
    sync_flush_timeout: int = field(default=5000, metadata=PERIOD)
    mapped_file_size_commit_log: int = field(
        default=64 * MIB, metadata=within(16 * KIB, INT32_MAX, also=("mapedFileSizeCommitLog",))
    )
    """Size of a file of the log. A message with its properties must fit into one. A delayed message that was accepted,
    but is larger when it is delivered, gets a file of its own size."""
    flush_interval_consume_queue: int = field(default=1000, metadata=PERIOD)
    flush_consumer_offset_interval: int = field(default=5000, metadata=PERIOD)
    file_reserved_time: int = field(default=72, metadata=within(0, 1_000_000))
    """Hours of message time. Older messages may be removed, in whole segments."""
    delete_when: str = "04"
    """Hours of the day at which messages are removed, in message time (UTC), separated by semicolons."""
    clean_resource_interval: int = field(default=10_000, metadata=PERIOD)
    disk_max_used_space_ratio: int = field(default=75, metadata=PERCENT)
    """Percent of the disk. Above it, old messages are removed at any hour."""
    disk_space_clean_forcibly_ratio: int = field(default=85, metadata=PERCENT)
    """Percent of the disk. Above it, young messages are also removed."""
    clean_file_forcibly_enable: bool = True
    clean_file_forcibly_keep_bytes: int = field(default=1024 * MIB, metadata=within(0, INT64_MAX))
    """The end of the log that is always kept; it has the size of RocketMQ's last file."""
    scrub_bytes_per_second: int = field(default=4 * MIB, metadata=within(0, INT64_MAX))
    """Bytes of the log per second that are checked in the background. 0: off; damage is found when it is read."""
    salvage: bool = False
    """At the start, move damaged parts of the log to storePathRootDir/damaged, instead of stopping with an error."""
    disk_space_warning_level_ratio: int = field(default=90, metadata=within(1, 100))
    """Percent of the disk. Above it, no message is accepted. 100: messages are accepted until the disk is full."""

    # The journal
    journal_enable: bool = False
    """Keep a journal of events: members, locks, deliveries, send-backs, deaths, resets. On in `up`, `run` and
    `Cluster`."""
    record_requests: bool = False
    """Record the requests of clients. On in `up`, `run` and `Cluster`."""
    journal_events_max: int = field(default=50_000, metadata=within(100, 10_000_000))
    """Number of events in memory; older ones are moved to storePathRootDir/journal."""
    journal_spill_bytes_max: int = field(default=64 * MIB, metadata=within(0, INT64_MAX))
    """Bytes of events in that folder; above it, the oldest are removed. 0: older events aren't stored."""
    recorded_requests_bytes_max: int = field(default=16 * MIB, metadata=within(64 * KIB, INT64_MAX))
    """Bytes of recorded requests; above it, the oldest are dropped."""

    # Replicas
    ha_master_address: str = ""
    """The address of the broker that a slave copies from. Empty: the nameservers know it."""
    slave_read_enable: bool = False
    """A slave answers pulls, and a master may suggest it to consumers that are far behind. On with `--replicas`."""
    offset_check_in_slave: bool = False
    """A slave corrects the offset of a pull that is outside of its queue. Otherwise the consumer tries it again."""
    access_message_in_memory_max_ratio: int = field(default=40, metadata=PERCENT)
    """Percent of the machine's memory. A consumer that is further behind than this reads from the suggested slave."""
    slave_sync_period: int = field(default=60_000, metadata=PERIOD)
    """Time in ms between two copies of topics, groups and offsets by a slave. 1 s with `--replicas`."""
    replication_hold: bool = False
    """The slave copies nothing until this is false again."""
    replication_lag_ms: int = field(default=0, metadata=PERIOD_OR_NONE)
    """The slave stores each message this much later than its master."""
    in_sync_replicas: int = field(default=1, metadata=within(0, REPLICAS_MAX))
    """With brokerRole=SYNC_MASTER: the number of copies, the master's included, that a send waits for."""
    min_in_sync_replicas: int = field(default=1, metadata=within(0, REPLICAS_MAX))
    """With fewer replicas in sync, the master included, sends are refused."""
    all_ack_in_sync_state_set: bool = False
    """A send waits for all replicas that are in sync, if these are more than inSyncReplicas."""
    enable_slave_acting_master: bool = False
    """Without a master, nameservers with supportActingMaster show the lowest slave as a master that can be read."""
    enable_auto_in_sync_replicas: bool = False
    """With enableSlaveActingMaster: sends wait for fewer copies than inSyncReplicas if fewer replicas are in sync."""
    slave_timeout: int = field(default=3_000, metadata=PERIOD)
    """Time in ms that a send waits for copies. After it, the response is FLUSH_SLAVE_TIMEOUT."""
    ha_max_gap_not_in_sync: int = field(
        default=256 * MIB, metadata=within(0, INT64_MAX, also=("haSlaveFallbehindMax",))
    )
    """A slave that is more bytes behind isn't in sync."""
    ha_max_time_slave_not_catchup: int = field(default=15_000, metadata=PERIOD)
    """A slave that didn't reach the end of the master's log for this time, in ms, isn't in sync."""

    # The nameserver
    register_name_server_period: int = field(default=30_000, metadata=PERIOD)
    broker_heartbeat_interval: int = field(default=0, metadata=PERIOD_OR_NONE)
    """Time between two heartbeats to nameservers, in ms. 0: registrations are enough. RocketMQ has this for acting
    masters."""
    broker_heartbeat_timeout_ms: int = field(
        default=120_000,
        metadata={**PERIOD, "rocketmq": "brokerNotActiveTimeoutMillis", "also": ("brokerHeartbeatTimeoutMs",)},
    )
    """Without a heartbeat for this time, the nameserver removes this broker."""


def reach_of(settings: BrokerSettings) -> Reach:
    """Return the addresses at which clients can reach a broker, as far as its settings define them."""
    return Reach(settings.broker_ip1, settings.advertised_port, settings.external_host, settings.external_port)
