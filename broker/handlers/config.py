"""Read and change the settings while the broker runs, and control message time with any admin client.

RocketMQ: AdminBrokerProcessor.getBrokerConfig, updateBrokerConfig.

Behaviour
- All settings have RocketMQ's names; those in LIVE can be changed at once. If one setting of a request is unknown, out
  of its range or can't be changed, the whole request is refused. RocketMQ returns success.
- `staticfireClock` reads as the state of message time. A write changes message time (`+2h`, `freeze`, `run`, `skip`,
  `60x`, `now`) by a request to the first nameserver. The response is sent when that is done; a refusal is passed on.
- A change of what routes depend on (permission, auto-created groups) is answered when the nameservers have it.
- A change is lost when the process ends: it isn't written to the configuration file.
"""

import asyncio

import msgspec

from staticfire.broker.registration import Registration
from staticfire.broker.retention import parse_hours
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.state import BrokerState
from staticfire.broker.topics import TopicTable
from staticfire.protocol.clock_words import clock_text, parse_clock_words
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import SUCCESS, Answer, refusal
from staticfire.protocol.errors import BrokerAnswer, NetworkError, UsageError
from staticfire.protocol.java_properties import read_properties, write_properties
from staticfire.protocol.requests.clock import ADVANCE_TIMEOUT_MS, Clock
from staticfire.protocol.requests.config import BrokerConfigAnswer
from staticfire.protocol.requests.topics import DataVersion
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.live_settings import Change, as_properties, change_settings
from staticfire.runtime.log import logger
from staticfire.runtime.pool import ConnectionPool

log = logger("broker")

CLOCK_PROPERTY = "staticfireClock"
BLACK_LIST = frozenset({"brokerConfigPath", "rocketmqHome", "configBlackList"})
# How long to wait for the nameservers. One that isn't available gets the change when it is back.
REGISTRATION_WAIT_MS_MAX = 3_000

LIVE = frozenset(
    {
        "access_message_in_memory_max_ratio",
        "all_ack_in_sync_state_set",
        "answer_newer_subscription_unfiltered",
        "authentication_enabled",
        "authentication_whitelist",
        "authorization_enabled",
        "authorization_whitelist",
        "auto_create_subscription_group",
        "auto_create_topic_enable",
        "broker_heartbeat_interval",
        "broker_heartbeat_timeout_ms",
        "broker_permission",
        "channel_expired_timeout_ms",
        "channel_scan_interval_ms",
        "clean_file_forcibly_enable",
        "clean_file_forcibly_keep_bytes",
        "clean_resource_interval",
        "default_message_request_mode",
        "default_pop_share_queue_num",
        "delete_when",
        "disk_max_used_space_ratio",
        "disk_space_clean_forcibly_ratio",
        "disk_space_warning_level_ratio",
        "dlq_perm",
        "enable_auto_in_sync_replicas",
        "enable_pop_message_threshold",
        "enable_property_filter",
        "enable_retry_topic_v2",
        "enable_slave_acting_master",
        "fence_older_subscriptions",
        "file_reserved_time",
        "flush_consumer_offset_interval",
        "grace_time_ms",
        "ha_max_gap_not_in_sync",
        "ha_max_time_slave_not_catchup",
        "hold_ms_max",
        "in_sync_replicas",
        "init_pop_offset_by_check_msg_in_mem",
        "lite_pull_message_enable",
        "long_polling_enable",
        "max_message_size",
        "max_pop_polling_size",
        "max_transfer_bytes_on_message_in_memory",
        "max_transfer_count_on_message_in_memory",
        "min_in_sync_replicas",
        "notify_consumer_ids_changed_enable",
        "offset_check_in_slave",
        "old_acl_answers",
        "pop_dead_letters",
        "pop_from_retry_probability",
        "pop_inflight_message_threshold",
        "pop_polling_size",
        "pop_response_return_actual_retry_topic",
        "recall_message_enable",
        "refuse_retries_when_read_only",
        "region_id",
        "register_name_server_period",
        "reject_transaction_message",
        "repeat_ended_commits",
        "replication_hold",
        "replication_lag_ms",
        "retrieve_message_from_pop_retry_topic_v1",
        "server_load_balancer_enable",
        "short_polling_time_mills",
        "slave_read_enable",
        "slave_sync_period",
        "slave_timeout",
        "stable_time_ms",
        "timer_max_delay_sec",
        "trace_on",
        "transaction_check_interval",
        "transaction_check_max",
        "transaction_time_out",
        "use_server_side_reset_offset",
        "wake_pops_of_returning",
    }
)
"""Settings that can change while the broker runs: the code reads them from `state.settings` each time, or is notified
by `on_settings`. All others are read once, at the start."""
IN_ROUTES = frozenset({"auto_create_topic_enable", "auto_create_subscription_group", "broker_permission"})


class ConfigHandlers:
    """Handles requests about the broker's settings."""

    def __init__(
        self, state: BrokerState, topics: TopicTable, registration: Registration, pool: ConnectionPool
    ) -> None:
        self._state = state
        self._topics = topics
        self._registration = registration
        self._pool = pool
        self._version = DataVersion()

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.GET_BROKER_CONFIG, self.get)
        dispatcher.handle(RequestCode.UPDATE_BROKER_CONFIG, self.update)

    def get(self, _: Call) -> Answer:
        """Return all settings, and the state of message time."""
        properties = as_properties(self._state.settings)
        properties[CLOCK_PROPERTY] = clock_text(self._state.clock.reading())
        version = msgspec.json.encode(self._version).decode()
        return BrokerConfigAnswer(version, body=write_properties(properties).encode())

    async def update(self, call: Call) -> Answer:
        """Change settings, then message time."""
        properties = read_properties((call.request.body or b"").decode("utf-8", "replace"))
        if BLACK_LIST & properties.keys():
            return refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        words = properties.pop(CLOCK_PROPERTY, None)
        try:
            move = None if words is None else parse_clock_words(words)
        except UsageError as error:
            return refusal(ResponseCode.INVALID_PARAMETER, f"{CLOCK_PROPERTY}: {error}")
        try:
            change = change_settings(self._state.settings, properties, LIVE)
            parse_hours(change.settings.delete_when)
        except UsageError as error:
            log.warning("settings_refused", reason=str(error))
            return refusal(ResponseCode.INVALID_PARAMETER, str(error))
        if properties:
            await self._apply(change)
        if move is not None:
            await self._move_clock(move)
        return Answer()

    async def forget(self) -> None:
        """Restore the settings of the start."""
        state = self._state
        if state.settings is not state.at_start:
            await self._apply(change_settings(state.settings, as_properties(state.at_start)))

    async def _apply(self, change: Change[BrokerSettings]) -> None:
        """Use other settings, and let the nameservers know if routes depend on them."""
        state = self._state
        self._version = DataVersion(0, state.clock.message_ms(), self._version.counter + 1)
        state.use(change.settings)
        if not change.changed:
            return
        log.info("settings_updated", settings=change.changed)
        if IN_ROUTES & change.changed.keys():
            self._topics.touch()
            try:
                async with asyncio.timeout(REGISTRATION_WAIT_MS_MAX / 1_000):
                    await self._registration.registered()
            except TimeoutError:
                log.warning("registration_awaited_in_vain", waited_ms=REGISTRATION_WAIT_MS_MAX)

    async def _move_clock(self, move: Clock) -> None:
        """Request a change of message time from the nameserver that controls it. Raises: BrokerAnswer."""
        nameservers = self._registration.nameservers
        if not nameservers:
            words = "message time is controlled by a nameserver, but this broker has none (namesrvAddr)"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"{CLOCK_PROPERTY}: {words}")
        try:
            answer = await self._pool.ask(nameservers[0], move, ADVANCE_TIMEOUT_MS)
        except NetworkError as error:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"{CLOCK_PROPERTY}: {error}") from None
        if answer.code != SUCCESS:
            raise BrokerAnswer(answer.code, f"{CLOCK_PROPERTY}: {answer.remark} [nameserver {nameservers[0]}]")
