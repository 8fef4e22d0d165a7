"""Registration and liveness of brokers. RocketMQ: DefaultRequestProcessor, BrokerHousekeepingService.

Behaviour: routes change before the response is sent, so the next client sees what the broker has as its response. A
broker is removed as soon as its connection is lost. If several brokers registered on that connection, all of them are
removed (RocketMQ removes one of them). Topics that a registration lacks keep their queues, as in RocketMQ, unless
deleteTopicWithBrokerRegistration is set, or the broker has restored a snapshot without them. With
notifyMinBrokerIdChanged the replicas of a broker are notified when the lowest id among them changes.
"""

from staticfire.nameserver.route_table import BrokerEntry, Registered
from staticfire.nameserver.state import NameserverState
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.errors import UsageError
from staticfire.protocol.requests.brokers import (
    BrokerHeartbeat,
    DataVersionAnswer,
    QueryDataVersion,
    RegisterBroker,
    RegistrationAnswer,
    RegistrationBody,
    UnregisterBroker,
)
from staticfire.protocol.requests.clock import ClockReading
from staticfire.protocol.requests.routes import MASTER_ID, ORDER_TOPIC_CONFIG, KVTable
from staticfire.protocol.requests.topics import DataVersion
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Handler
from staticfire.runtime.log import logger

log = logger("nameserver")


class BrokerHandlers:
    """The handlers of requests from brokers."""

    def __init__(self, state: NameserverState) -> None:
        self._state = state

    def by_code(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.REGISTER_BROKER: self.register,
            RequestCode.UNREGISTER_BROKER: self.unregister,
            RequestCode.QUERY_DATA_VERSION: self.query_version,
            RequestCode.BROKER_HEARTBEAT: self.heartbeat,
        }

    def register(self, call: Call) -> Answer:
        request: RegisterBroker = call.request
        state, connection = self._state, call.connection
        body: RegistrationBody = request.body or RegistrationBody()
        reading = ClockReading.parse(request.clock) if request.clock is not None else None
        try:
            entry = self._entry(request, body, connection)
        except UsageError as error:
            return refusal(ResponseCode.SYSTEM_ERROR, str(error))
        topics = body.topic_config_serialize_wrapper
        registered = state.routes.register(
            entry,
            topics.topic_config_table,
            connection,
            state.machine.clock.uptime_ms(),
            state.settings.delete_topic_with_broker_registration or request.has_fewer_topics,
        )
        _log_registration(entry, registered)
        state.notify_replicas()
        if registered is None:
            return refusal(ResponseCode.SYSTEM_ERROR, "register broker failed")
        if not registered.is_outdated and entry.broker_id == MASTER_ID:
            # A restored broker has lost topics: it leads none of their logical queues.
            gone = state.routes.mappings if request.has_fewer_topics else ()
            mapped = {*topics.topic_config_table, *gone}
            state.routes.map_queues(entry.broker_name, mapped, topics.topic_queue_mapping_info_map)
        advertise = state.advertiser(connection)
        return RegistrationAnswer(
            master_addr=registered.master_address and advertise(registered.master_address),
            ha_server_addr=registered.master_ha_address and advertise(registered.master_ha_address),
            clock=self._clock(request, reading, connection),
            body=self._order_topics(),
        )

    def _clock(self, request: RegisterBroker, reading: ClockReading | None, connection: Connection) -> str | None:
        """Add the broker to the clock if it follows one; return the clock reading that it must show."""
        clock = self._state.clock
        if reading is not None and request.broker_id == MASTER_ID:
            return clock.joined(connection, request.broker_name, reading).text()
        clock.left(connection)  # A master that has become a slave delivers nothing any more.
        # A slave gets the time too: it may have to become the master while this nameserver is away.
        return None if reading is None else clock.reading().text()

    def _entry(self, request: RegisterBroker, body: RegistrationBody, connection: Connection) -> BrokerEntry:
        settings = self._state.settings
        expiry_ms = request.heartbeat_timeout_millis
        return BrokerEntry(
            cluster=request.cluster_name,
            broker_name=request.broker_name,
            broker_id=request.broker_id,
            address=self._state.file(connection, request.broker_addr, request.advertised, request.external_addr or ""),
            ha_address=self._state.file(connection, request.ha_server_addr, request.advertised),
            expiry_ms=settings.broker_expiry_ms if expiry_ms is None else expiry_ms,
            version=body.topic_config_serialize_wrapper.data_version,
            enable_acting_master=request.enable_acting_master,
            zone_name=request.zone_name,
            filter_servers=body.filter_server_list,
            auto_create_groups=request.auto_create_groups,
        )

    def _order_topics(self) -> KVTable | None:
        if not self._state.settings.return_order_topic_config_to_broker:
            return None
        table = self._state.kv.table(ORDER_TOPIC_CONFIG)
        return None if table is None else KVTable(table)

    def unregister(self, call: Call) -> Answer:
        request: UnregisterBroker = call.request
        address = self._state.filed_as(call.connection, request.broker_addr)
        if self._state.routes.unregister(request.cluster_name, request.broker_name, address):
            log.info("broker_unregistered", broker=request.broker_name, address=address)
            self._state.notify_replicas()
        return Answer()

    def query_version(self, call: Call) -> Answer:
        request: QueryDataVersion = call.request
        routes = self._state.routes
        key = request.cluster_name, self._state.filed_as(call.connection, request.broker_addr)
        changed = routes.has_changed(*key, request.body or DataVersion())
        if not changed:
            routes.refresh(*key, self._state.machine.clock.uptime_ms())
        return DataVersionAnswer(changed=changed, body=routes.version_of(*key))

    def heartbeat(self, call: Call) -> Answer:
        request: BrokerHeartbeat = call.request
        address = self._state.filed_as(call.connection, request.broker_addr)
        self._state.routes.refresh(request.cluster_name, address, self._state.machine.clock.uptime_ms())
        return Answer()


def _log_registration(entry: BrokerEntry, registered: Registered | None) -> None:
    who = {"broker": entry.broker_name, "broker_id": entry.broker_id, "address": entry.address}
    if registered is None:
        log.warning("registration_refused", **who, reason="one topic of a broker that isn't registered in full yet")
    elif registered.is_outdated:
        log.warning("registration_ignored", **who, reason="another address holds the id with a newer state")
    elif registered.is_new:
        log.info("broker_registered", **who)


def drop_connection(state: NameserverState, connection: Connection) -> None:
    """Remove the brokers that registered on a lost connection."""
    state.forget(connection)
    for live in state.routes.lose(connection):
        log.warning(
            "broker_lost", broker=live.entry.broker_name, address=live.entry.address, reason="connection closed"
        )
    state.notify_replicas()


def drop_silent_brokers(state: NameserverState) -> None:
    """Remove the brokers that were silent for too long, and close their connections."""
    for live in state.routes.expire(state.machine.clock.uptime_ms()):
        entry = live.entry
        log.warning("broker_expired", broker=entry.broker_name, address=entry.address, expiry_ms=entry.expiry_ms)
        if isinstance(live.channel, Connection):
            live.channel.close()
    state.notify_replicas()
