"""List the connected clients, and pass requests on to one of them. RocketMQ: AdminBrokerProcessor, Broker2Client.

Behaviour
- A request is passed on over the client's own connection, in the codec of that connection. Code, remark and body of the
  client's response are returned unchanged. A client that isn't registered here may be connected to a gRPC endpoint,
  so the request is then passed to these endpoints.
- A group's topics are those in which it has an offset. The groups of a topic are those with an offset in it and the
  online groups that subscribe to it.

Different from RocketMQ
- The groups of a topic are listed under their own names (5.3.3 lists an online group under the topic's name).

Not done
- Subscriptions of pulls without a heartbeat aren't kept.
"""

from collections.abc import Callable

from staticfire.broker.groups.consumers import ConsumerManager, Member
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.pulls.choosing import make_choice
from staticfire.broker.state import BrokerState
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.codes import LanguageCode, RequestCode, ResponseCode
from staticfire.protocol.command import Answer, Request, refusal
from staticfire.protocol.errors import AnswerTimeout, BrokerAnswer, ConnectionLost, ProtocolError, StorageError
from staticfire.protocol.hosts import host_text
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.names import GRPC_ENDPOINTS_GROUP
from staticfire.protocol.remarks import no_property_filter
from staticfire.protocol.requests.connections import (
    CheckClientConfig,
    ClientConnection,
    ConsumedDirectlyAnswer,
    ConsumeDirectly,
    ConsumerConnections,
    ConsumerConnectionsAnswer,
    GetConsumerConnections,
    GetConsumerRunningInfo,
    GetProducerConnections,
    GroupList,
    GroupListAnswer,
    GroupSubscribed,
    GroupSubscribedAnswer,
    ProducerConnections,
    ProducerConnectionsAnswer,
    ProducerInfo,
    ProducerTable,
    ProducerTableAnswer,
    QueryGroupsOfTopic,
    QuerySubscription,
    QueryTopicsOfGroup,
    RunningInfoAnswer,
)
from staticfire.protocol.requests.routes import TopicList, TopicListAnswer
from staticfire.protocol.rocketmq_record import record_for
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher

CLIENT_TIMEOUT_MS = 10_000
VERSION_3_1_8 = 62
_LANGUAGES = {int(language): language.name for language in LanguageCode}


class ConnectionHandlers:
    """Lists clients, and passes requests on to them."""

    def __init__(self, state: BrokerState, groups: GroupTables) -> None:
        self._state = state
        self._groups = groups
        self._consumers = groups.consumers.consumer_table

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.GET_CONSUMER_CONNECTION_LIST, self.consumers)
        dispatcher.handle(RequestCode.GET_PRODUCER_CONNECTION_LIST, self.producers)
        dispatcher.handle(RequestCode.GET_ALL_PRODUCER_INFO, self.all_producers)
        dispatcher.handle(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, self.groups_of_topic)
        dispatcher.handle(RequestCode.QUERY_TOPICS_BY_CONSUMER, self.topics_of_group)
        dispatcher.handle(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, self.subscription)
        dispatcher.handle(RequestCode.GET_CONSUMER_RUNNING_INFO, self.running_info)
        dispatcher.handle(RequestCode.CONSUME_MESSAGE_DIRECTLY, self.consume_directly)
        dispatcher.handle(RequestCode.CHECK_CLIENT_CONFIG, self.check_config)

    # -- clients -----------------------------------------------------------------------------------------------------

    def consumers(self, call: Call) -> Answer:
        """Return the members of a group."""
        request: GetConsumerConnections = call.request
        group = self._consumers.get(request.consumer_group)
        if group is None:
            words = f"the consumer group[{request.consumer_group}] not online"
            return refusal(ResponseCode.CONSUMER_NOT_ONLINE, words)
        members = [_shown(member.client_id, member.connection) for member in group.channel_info_table.values()]
        return ConsumerConnectionsAnswer(
            body=ConsumerConnections(
                members, group.subscriptions, group.consume_type, group.message_model, group.consume_from_where
            )
        )

    def producers(self, call: Call) -> Answer:
        """Return the clients of a producer group."""
        request: GetProducerConnections = call.request
        clients = self._groups.producers.producer_table.get(request.producer_group)
        if not clients:
            return refusal(ResponseCode.SYSTEM_ERROR, f"the producer group[{request.producer_group}] not exist")
        shown = [_shown(client.client_id, client.connection) for client in clients.values()]
        return ProducerConnectionsAnswer(body=ProducerConnections(shown))

    def all_producers(self, call: Call) -> Answer:
        """Return all producers."""
        clock = self._state.machine.clock
        wall_before_ms = clock.wall_ms() - clock.uptime_ms()
        table: dict[str, list[ProducerInfo]] = {}
        for group, clients in self._groups.producers.producer_table.items():
            table[group] = []
            for client in clients.values():
                peer = client.connection.peer
                seen_ms = wall_before_ms + client.last_seen_ms
                language = _LANGUAGES.get(peer.language, "OTHER")
                table[group].append(ProducerInfo(client.client_id, peer.address, language, peer.version, seen_ms))
        return ProducerTableAnswer(body=ProducerTable(table))

    def groups_of_topic(self, call: Call) -> Answer:
        """Return the groups that consume a topic."""
        request: QueryGroupsOfTopic = call.request
        stored = self._groups.offsets.groups_of(request.topic)
        online = [group.name for group in self._consumers.values() if request.topic in group.subscriptions]
        return GroupListAnswer(body=GroupList(sorted({*stored, *online})))

    def topics_of_group(self, call: Call) -> Answer:
        """Return the topics that a group consumes."""
        request: QueryTopicsOfGroup = call.request
        topics = self._groups.offsets.topics_of(request.group)
        return TopicListAnswer(body=TopicList(topics, host_text(call.connection.store_host)))

    def subscription(self, call: Call) -> Answer:
        """Return a group's subscription to a topic."""
        request: QuerySubscription = call.request
        group = self._consumers.get(request.group)
        subscription = None if group is None else group.subscriptions.get(request.topic)
        return GroupSubscribedAnswer(body=GroupSubscribed(request.group, request.topic, subscription))

    def check_config(self, call: Call) -> Answer:
        """Check whether the broker can filter by a subscription."""
        request: CheckClientConfig = call.request
        wanted = None if request.body is None else request.body.subscription_data
        if wanted is None or wanted.expression_type in ("", "TAG"):
            return Answer()
        if not self._state.settings.enable_property_filter:
            return refusal(ResponseCode.SYSTEM_ERROR, no_property_filter(wanted.expression_type))
        choice = make_choice(wanted.sub_string, wanted.expression_type)
        return refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, choice) if isinstance(choice, str) else Answer()

    # -- requests to clients -----------------------------------------------------------------------------------------

    async def running_info(self, call: Call) -> Answer:
        """Return a consumer's own report of what it is doing."""
        request: GetConsumerRunningInfo = call.request
        passed_on = GetConsumerRunningInfo(request.consumer_group, request.client_id, request.jstack_enable)
        answer = await self._ask(request.consumer_group, request.client_id, lambda _: passed_on)
        return RunningInfoAnswer(code=answer.code, remark=answer.remark, body=answer.body)

    async def consume_directly(self, call: Call) -> Answer:
        """Make a consumer consume a message now."""
        request: ConsumeDirectly = call.request

        def passed_on(connection: Connection) -> Request:
            return ConsumeDirectly(
                request.consumer_group, request.client_id, request.msg_id, self._state.settings.broker_name,
                request.topic, request.topic_sys_flag, request.group_sys_flag,
                body=record_for(self._record(request), connection.codec.number == NATIVE, connection.store_host),
            )  # fmt: skip

        answer = await self._ask(request.consumer_group, request.client_id or "", passed_on)
        return ConsumedDirectlyAnswer(code=answer.code, remark=answer.remark, body=answer.body)

    async def _ask(self, group: str, client_id: str, passed_on: Callable[[Connection], Request]) -> Answer:
        """Send a request to a group's member, or to its gRPC endpoint. Raises: BrokerAnswer (not online)."""
        if self._groups.consumers.find_member(group, client_id) is None:
            for connection in self._groups.producers.connections_of(GRPC_ENDPOINTS_GROUP):
                answer = await ask_client(connection, client_id, group, passed_on(connection))
                if answer.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    return answer
        member = find_member(self._groups.consumers, group, client_id)
        return await ask_member(member, group, passed_on(member.connection))

    def _record(self, request: ConsumeDirectly) -> bytes:
        """Return the message with the id in the request. Raises: BrokerAnswer."""
        try:
            record = self._state.store.record_at(parse_offset_id(request.msg_id or "")[1])
        except (ProtocolError, StorageError, OSError):
            record = None
        if record is None:
            words = f"this broker has no message {request.msg_id}: use an offset message id"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
        return record


async def ask_member(member: Member, group: str, request: Request) -> Answer:
    """Send a request to a member and return its response. Raises: BrokerAnswer."""
    return await ask_client(member.connection, member.client_id, group, request)


async def ask_client(connection: Connection, client_id: str, group: str, request: Request) -> Answer:
    """Send a request over a client's or endpoint's connection and return the response. Raises: BrokerAnswer."""
    try:
        return await connection.ask(request, CLIENT_TIMEOUT_MS)
    except AnswerTimeout as error:
        words = f"consumer <{group}> <{client_id}> Timeout: {error}"
        raise BrokerAnswer(ResponseCode.CONSUME_MSG_TIMEOUT, words) from None
    except (ConnectionLost, ProtocolError) as error:
        words = f"invoke consumer <{group}> <{client_id}> Exception: {error}"
        raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words) from None


def find_member(consumers: ConsumerManager, group: str, client_id: str) -> Member:
    """Return a member of a group that can receive requests. Raises: BrokerAnswer (not online, or too old)."""
    member = consumers.find_member(group, client_id)
    if member is None:
        raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
    if member.connection.peer.version < VERSION_3_1_8:
        words = f"The Consumer <{client_id}> Version too low to finish, please upgrade it to V3_1_8_SNAPSHOT"
        raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
    return member


def _shown(client_id: str, connection: Connection) -> ClientConnection:
    peer = connection.peer
    return ClientConnection(client_id, peer.address, _LANGUAGES.get(peer.language, "OTHER"), peer.version)
