"""The settings of a nameserver. Names and defaults are RocketMQ's if RocketMQ has them; units are at the end of names.

RocketMQ: NamesrvConfig. On the command line and in configuration files, the same names are written in camel case
(`needWaitForService=true`).
"""

from dataclasses import dataclass, field

from staticfire.protocol.limits import FRAME_BYTES_MAX
from staticfire.runtime.ranges import INT64_MAX, PERIOD, PORT, SettingsValue, within


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NameserverSettings(SettingsValue):
    """One nameserver. Read once, passed down as a value; UPDATE_NAMESRV_CONFIG puts another in its place."""

    # Where it listens
    listen_host: str = field(default="0.0.0.0", metadata={"also": ("bindAddress",)})
    """0.0.0.0: every address of this machine, those of IPv6 included where there are any."""
    listen_port: int = field(default=9876, metadata=PORT)
    """0: any free port."""
    unfinished_frame_bytes_max: int = field(default=128 * 1024 * 1024, metadata=within(FRAME_BYTES_MAX, INT64_MAX))
    """Of frames that have begun and aren't whole, on all connections together. Above it the oldest go."""
    unfinished_frame_ms_max: int = field(default=60_000, metadata=PERIOD)
    """From a frame's first byte to its last; then its connection is closed."""
    folder: str = ""
    """Where kvConfig.json is kept. Empty: key-value configuration lives in memory and is gone with the process."""

    # Brokers
    broker_expiry_ms: int = field(default=120_000, metadata=PERIOD)
    """How long a broker that says nothing about it counts as alive after its last sign of life."""
    scan_not_active_broker_interval: int = field(default=5_000, metadata=PERIOD)
    """Milliseconds between two looks for brokers that expired."""
    delete_topic_with_broker_registration: bool = False
    """A topic that a broker's registration doesn't list any more leaves that broker's routes."""
    support_acting_master: bool = False
    """Tell clients the lowest slave as master where the master is gone and the broker allows that."""

    # Answers
    need_wait_for_service: bool = False
    """Refuse routes for a while after the start, until brokers had time to register."""
    wait_seconds_for_service: int = field(default=45, metadata=within(0, 86_400))
    order_message_enable: bool = False
    """Tell the order configuration of a topic with its route."""
    return_order_topic_config_to_broker: bool = True
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
