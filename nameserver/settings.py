"""The settings of a nameserver. Names and defaults are RocketMQ's if RocketMQ has them; units are at the end of names.

RocketMQ: NamesrvConfig. On the command line and in configuration files, the same names are written in camel case
(`needWaitForService=true`).
"""

from dataclasses import field

from staticfire.protocol.limits import FRAME_BYTES_MAX
from staticfire.runtime.ranges import INT64_MAX, PERIOD, PORT, settings_class, within
from staticfire.runtime.tls.settings import TlsSettings


@settings_class
class NameserverSettings(TlsSettings):
    """One nameserver. Read once, passed down as a value; UPDATE_NAMESRV_CONFIG puts another in its place."""

    # Where it listens
    listen_host: str = field(default="0.0.0.0", metadata={"also": ("bindAddress",)})
    """0.0.0.0: every address of this machine, including IPv6 if there is any."""
    listen_port: int = field(default=9876, metadata=PORT)
    """0: any free port."""
    unfinished_frame_bytes_max: int = field(default=128 * 1024 * 1024, metadata=within(FRAME_BYTES_MAX, INT64_MAX))
    """Bytes of incomplete frames, of all connections together. Above it, the connections with the oldest are closed."""
    unfinished_frame_ms_max: int = field(default=60_000, metadata=PERIOD)
    """Time from the first byte of a frame to its last. After it, the connection is closed."""
    folder: str = ""
    """Folder of kvConfig.json. Empty: the key-value configuration is only in memory and is lost at the end of the
    process."""

    # Brokers
    broker_expiry_ms: int = field(default=120_000, metadata=PERIOD)
    """Time after its last heartbeat for which a broker counts as alive, unless the broker sets another time."""
    scan_not_active_broker_interval: int = field(default=5_000, metadata=PERIOD)
    """Time in ms between two checks for expired brokers."""
    delete_topic_with_broker_registration: bool = False
    """Remove a topic from a broker's routes when the broker's registration no longer contains it."""
    support_acting_master: bool = False
    """Return the lowest slave as master if the master is gone and the broker allows that."""
    notify_min_broker_id_changed: bool = False
    """Notify a broker's replicas when the lowest id among them changes."""

    # Answers
    need_wait_for_service: bool = False
    """Reject requests for routes for a while after the start, until brokers had time to register."""
    wait_seconds_for_service: int = field(default=45, metadata=within(0, 86_400))
    order_message_enable: bool = False
    """Return the order configuration of a topic with its route."""
    return_order_topic_config_to_broker: bool = True
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
