"""The settings of a broker. Names and defaults are RocketMQ's where RocketMQ has them; units come last in a name.

RocketMQ: BrokerConfig, MessageStoreConfig. The command line and broker.conf use the same names in camel case
(`autoCreateTopicEnable=false`).
"""

from dataclasses import dataclass, field

from staticfire.broker.groups.protection import PROTECTION_MS_MAX
from staticfire.protocol.limits import FRAME_BYTES_MAX, PULL_BYTES_MAX, PULL_MESSAGES_MAX, QUEUES_OF_TOPIC_MAX
from staticfire.runtime.ranges import (
    INT32_MAX,
    INT64_MAX,
    PERCENT,
    PERIOD,
    PERIOD_OR_NONE,
    PORT,
    SettingsValue,
    chars,
    within,
)
from staticfire.runtime.reach import Reach

KIB, MIB = 1024, 1024 * 1024
NAME = chars(1, 255)
PERMISSION = within(0, 7)
PROTECTION = within(0, PROTECTION_MS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BrokerSettings(SettingsValue):
    """One broker. Read once, passed down as a value."""

    # Identity
    broker_cluster_name: str = field(default="DefaultCluster", metadata=NAME)
    broker_name: str = field(default="broker-a", metadata=NAME)
    broker_id: int = field(default=0, metadata=within(0, INT64_MAX))
    namesrv_addr: str = ""
    """Nameservers, separated by semicolons. Empty: none, the broker is reached by its address only."""

    # Addresses
    listen_host: str = field(default="0.0.0.0", metadata={"also": ("bindAddress",)})
    """0.0.0.0: every address of this machine, those of IPv6 included where there are any."""
    listen_port: int = field(default=10911, metadata=PORT)
    broker_ip1: str = field(default="", metadata={"rocketmq": "brokerIP1"})
    """The host to tell clients. Empty: the address under which each client reached the nameserver."""
    advertised_port: int = field(default=0, metadata=PORT)
    """The port to tell them beside brokerIP1. 0: listenPort."""
    external_host: str = ""
    """The host to tell clients that come through a port mapping, as into a container. Empty: there is none."""
    external_port: int = field(default=0, metadata=PORT)
    """The port outside of the mapping. 0: listenPort."""
    vip_port_enable: bool = True
    """Serve the port two below, too, which clients with vipChannelEnabled use."""
    store_path_root_dir: str = ""
    """Where data is kept."""

    # Topics and groups
    auto_create_topic_enable: bool = True
    default_topic_queue_nums: int = field(default=8, metadata=within(1, QUEUES_OF_TOPIC_MAX))
    auto_create_subscription_group: bool = True
    broker_permission: int = field(default=6, metadata=PERMISSION)
    refuse_retries_when_read_only: bool = False
    """Without write permission (brokerPermission=4) refuse sends to retry topics, too: consumers whose send-back was
    refused try that. RocketMQ takes them until clients have seen the new route."""
    broker_topic_enable: bool = True
    cluster_topic_enable: bool = True
    trace_topic_enable: bool = True
    """On here, off in RocketMQ: without it a first look at traces fails."""
    msg_trace_topic_name: str = field(default="RMQ_SYS_TRACE_TOPIC", metadata=chars(1, 127))
    region_id: str = field(default="DefaultRegion", metadata=chars(0, 255))
    trace_on: bool = True
    store_reply_message_enable: bool = True
    """Replies are kept in <cluster>_REPLY_TOPIC as well as passed on."""
    enable_property_filter: bool = True
    """SQL92 subscriptions. On here, off in RocketMQ, which refuses them without this."""
    dlq_perm: int = field(default=6, metadata=PERMISSION)
    """Permission of %DLQ% topics: 6 as in RocketMQ 5, or 2, write only, as before."""

    # Messages
    max_message_size: int = field(default=4 * MIB, metadata=within(1, INT32_MAX))
    reject_transaction_message: bool = False
    """Half messages are refused."""
    transaction_time_out: int = field(default=6_000, metadata=within(0, INT32_MAX))
    """Milliseconds of message time after which the producer of a half message is asked about it."""
    transaction_check_max: int = field(default=15, metadata=within(1, 10_000))
    """After so many questions it is set aside, in TRANS_CHECK_MAX_TIME_TOPIC."""
    transaction_check_interval: int = field(default=30_000, metadata=PERIOD)
    repeat_ended_commits: bool = False
    """A second commit of a half message stores the message again, as in RocketMQ."""
    timer_wheel_enable: bool = True
    """Messages with a delivery time of their own; without this they are refused."""
    timer_max_delay_sec: int = field(default=259_200, metadata=within(1, 10 * 366 * 86_400))
    """How far away such a time may be, in seconds."""
    recall_message_enable: bool = True
    """Messages that wait for it can be called back. On here, off in RocketMQ."""
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

    # Pulls
    long_polling_enable: bool = True
    short_polling_time_mills: int = field(default=1000, metadata=PERIOD_OR_NONE)
    unfinished_frame_bytes_max: int = field(default=128 * MIB, metadata=within(FRAME_BYTES_MAX, INT64_MAX))
    """Of frames that have begun and aren't whole, on all connections together. Above it the oldest go."""
    unfinished_frame_ms_max: int = field(default=60_000, metadata=PERIOD)
    """From a frame's first byte to its last; then its connection is closed."""
    held_pulls_max: int = field(default=100_000, metadata=within(0, INT32_MAX))
    """Pulls that wait for messages, over all queues; one more is answered at once."""
    hold_ms_max: int = field(default=30_000, metadata=PERIOD_OR_NONE)
    lite_pull_message_enable: bool = True
    max_transfer_bytes_on_message_in_memory: int = field(default=PULL_BYTES_MAX, metadata=within(1, INT32_MAX))
    """What an answer to a pull has at most, but one message always."""
    max_transfer_count_on_message_in_memory: int = field(default=PULL_MESSAGES_MAX, metadata=within(1, INT32_MAX))
    """Messages of an answer to a RocketMQ client; over our own codec it may have 32 times as many."""

    remember_first_offsets: bool = True
    """A new group begins where a queue ended when its member first requested the group's offset. In RocketMQ it begins
    where the queue ends at the member's next request, after what is stored between the two."""
    ignore_late_commits: bool = True
    """Don't store an offset that is lower than the group's, from a member whose queue another member has by now.
    RocketMQ stores it."""

    # POP
    pop_from_retry_probability: int = field(default=20, metadata=PERCENT)
    """Percent of the pops that look first at what has come back; the others do when there is room left."""
    enable_retry_topic_v2: bool = False
    """What comes back goes to %RETRY%<group>+<topic>, and not to %RETRY%<group>_<topic>."""
    retrieve_message_from_pop_retry_topic_v1: bool = True
    """With that: look at the others, too."""
    pop_response_return_actual_retry_topic: bool = False
    """What has come back is handed out under the name of its retry topic."""
    init_pop_offset_by_check_msg_in_mem: bool = True
    """A new group that begins with the last message begins with the first one of a queue that still has it."""
    enable_pop_message_threshold: bool = False
    """Pop nothing of a queue of which a group has more unacknowledged messages than the next setting says."""
    pop_inflight_message_threshold: int = field(default=10_000, metadata=within(0, INT32_MAX))
    pop_polling_size: int = field(default=1_024, metadata=within(0, INT32_MAX))
    """Pops that wait, of one group for one queue or for all of a topic; one more is let in."""
    max_pop_polling_size: int = field(default=100_000, metadata=within(0, INT32_MAX))
    """Pops that wait, all together."""
    server_load_balancer_enable: bool = True
    """Queues are shared among a group's members that ask the broker for theirs; without this each gets all."""
    default_message_request_mode: str = field(default="PULL", metadata={"choices": ("PULL", "POP")})
    """How groups get topics for which nothing else was set."""
    default_pop_share_queue_num: int = field(default=-1, metadata=within(-1, INT32_MAX))
    """Of how many next members one pops the queues, too; below 1: all."""
    wake_pops_of_returning: bool = False
    """A held pop gets a message that has come back at once; in RocketMQ it waits for its deadline. On in `up`, `run`
    and `Cluster`."""
    pop_dead_letters: bool = False
    """A popped message that has come back retryMaxTimes goes to the dead letters; RocketMQ's brokers hand it out for
    ever. On there, too."""

    # Clients
    answer_newer_subscription_unfiltered: bool = False
    """A pull whose tag subscription is newer than any heartbeat has told gets all messages, if its client filters them
    itself, and isn't refused as SUBSCRIPTION_NOT_LATEST. On in `up`, `run` and `Cluster`."""
    fence_older_subscriptions: bool = False
    """Refuse pulls whose subscription is older than the group's and differs, as SUBSCRIPTION_NOT_LATEST, instead of
    those that are newer, as RocketMQ does. A client of ours shares queues anew then, and goes on."""
    stable_time_ms: int = field(default=0, metadata=PROTECTION)
    """A client that joins a group of stable members counts as one of them after so long; see groups.md. A group's
    attribute of that name comes first."""
    grace_time_ms: int = field(default=0, metadata=PROTECTION)
    """A member whose connection is lost counts on for so long. A group's attribute of that name comes first."""
    channel_expired_timeout_ms: int = field(default=120_000, metadata={**PERIOD, "rocketmq": "channelExpiredTimeout"})
    channel_scan_interval_ms: int = field(default=10_000, metadata=PERIOD)
    notify_consumer_ids_changed_enable: bool = True
    use_server_side_reset_offset: bool = True
    any_pull_takes_resets: bool = False
    """A reset of a group's offset is over with the first pull of its queue, as in RocketMQ, even if that comes from a
    member that no longer owns the queue. Without this it waits until the owner goes on at its offset."""

    # Disk
    flush_disk_type: str = field(default="ASYNC_FLUSH", metadata={"choices": ("ASYNC_FLUSH", "SYNC_FLUSH")})
    flush_interval_commit_log: int = field(default=500, metadata=PERIOD)
    sync_flush_timeout: int = field(default=5000, metadata=PERIOD)
    mapped_file_size_commit_log: int = field(
        default=64 * MIB, metadata=within(16 * KIB, INT32_MAX, also=("mapedFileSizeCommitLog",))
    )
    """A message has to fit into one of these, with its properties."""
    flush_interval_consume_queue: int = field(default=1000, metadata=PERIOD)
    flush_consumer_offset_interval: int = field(default=5000, metadata=PERIOD)
    file_reserved_time: int = field(default=72, metadata=within(0, 1_000_000))
    """Hours of message time; older messages may be removed, by whole segments."""
    delete_when: str = "04"
    """Hours of the day in which they are, of message time in UTC, separated by semicolons."""
    clean_resource_interval: int = field(default=10_000, metadata=PERIOD)
    disk_max_used_space_ratio: int = field(default=75, metadata=PERCENT)
    """Percent of the disk; above it old messages are removed at any hour."""
    disk_space_clean_forcibly_ratio: int = field(default=85, metadata=PERCENT)
    """Percent of the disk; above it young messages are removed, too."""
    clean_file_forcibly_enable: bool = True
    clean_file_forcibly_keep_bytes: int = field(default=1024 * MIB, metadata=within(0, INT64_MAX))
    """The end of the log that stays all the same: RocketMQ's last file is that large."""
    scrub_bytes_per_second: int = field(default=4 * MIB, metadata=within(0, INT64_MAX))
    """So much of the log at most is read and checked in the background. 0: nothing; damage is found by who reads it."""
    salvage: bool = False
    """Move damaged parts of the log aside at start, to storePathRootDir/damaged, instead of refusing to start."""
    disk_space_warning_level_ratio: int = field(default=90, metadata=within(1, 100))
    """Percent of the disk; above it no message is taken. 100: they are taken until it is full."""

    # The journal
    journal_enable: bool = False
    """Keep what happens: members, locks, deliveries, send-backs, deaths, resets. On in `up`, `run` and `Cluster`."""
    record_requests: bool = False
    """Keep what clients ask. On there, too."""
    journal_events_max: int = field(default=50_000, metadata=within(100, 10_000_000))
    """Of events in memory; older ones go to storePathRootDir/journal."""
    journal_spill_bytes_max: int = field(default=64 * MIB, metadata=within(0, INT64_MAX))
    """Of events there; above it the oldest are gone. 0: nothing goes there."""
    recorded_requests_bytes_max: int = field(default=16 * MIB, metadata=within(64 * KIB, INT64_MAX))
    """Of requests, as they came; above it the oldest are gone."""

    # The nameserver
    register_name_server_period: int = field(default=30_000, metadata=PERIOD)
    broker_heartbeat_interval: int = field(default=0, metadata=PERIOD_OR_NONE)
    """A sign of life that often, in milliseconds. 0: registrations are enough. RocketMQ has this for acting masters."""
    broker_heartbeat_timeout_ms: int = field(
        default=120_000,
        metadata={**PERIOD, "rocketmq": "brokerNotActiveTimeoutMillis", "also": ("brokerHeartbeatTimeoutMs",)},
    )
    """After so much silence the nameserver takes this broker for gone."""


def reach_of(settings: BrokerSettings) -> Reach:
    """Return the addresses at which clients can reach a broker, as far as its settings define them."""
    return Reach(settings.broker_ip1, settings.advertised_port, settings.external_host, settings.external_port)
