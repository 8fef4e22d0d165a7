"""Connected clients, and requests of administrators to a client through its broker.

RocketMQ: ConsumerConnection, ProducerConnection, ProducerTableInfo, GroupList, CheckClientRequestBody.
"""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Records, Request, request
from staticfire.protocol.numbers import Int32, Int64
from staticfire.protocol.requests.clients import SubscriptionData
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.requests.routes import TopicListAnswer


class ClientConnection(msgspec.Struct, rename="camel", gc=False):
    """One client. RocketMQ: Connection."""

    client_id: str
    client_addr: str
    language: str
    version: Int64


class ConsumerConnections(msgspec.Struct, rename="camel", gc=False):
    """The members of a group, and the group's properties. RocketMQ: ConsumerConnection."""

    connection_set: list[ClientConnection] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


class ConsumerConnectionsAnswer(Answer, rename="camel"):
    """The members of a group."""

    body_type: ClassVar[Any] = ConsumerConnections


@request(RequestCode.GET_CONSUMER_CONNECTION_LIST, answer=ConsumerConnectionsAnswer)
class GetConsumerConnections(Request, rename="camel"):
    """Ask who consumes in a group, and what."""

    consumer_group: str
    bname: str | None = None


class ProducerConnections(msgspec.Struct, rename="camel", gc=False):
    """The clients of a producer group. RocketMQ: ProducerConnection."""

    connection_set: list[ClientConnection] = []


class ProducerConnectionsAnswer(Answer, rename="camel"):
    """The clients of a producer group."""

    body_type: ClassVar[Any] = ProducerConnections


@request(RequestCode.GET_PRODUCER_CONNECTION_LIST, answer=ProducerConnectionsAnswer)
class GetProducerConnections(Request, rename="camel"):
    """Ask who produces in a group."""

    producer_group: str
    bname: str | None = None


class ProducerInfo(msgspec.Struct, rename="camel", gc=False):
    """One producer."""

    client_id: str
    remote_ip: str = msgspec.field(name="remoteIP")
    language: str
    version: Int64
    last_update_timestamp: Int64


class ProducerTable(msgspec.Struct, rename="camel", gc=False):
    """All producers by group. RocketMQ: ProducerTableInfo."""

    data: dict[str, list[ProducerInfo]] = {}


class ProducerTableAnswer(Answer, rename="camel"):
    """All producers."""

    body_type: ClassVar[Any] = ProducerTable


@request(RequestCode.GET_ALL_PRODUCER_INFO, answer=ProducerTableAnswer)
class GetAllProducers(Request, rename="camel"):
    """Ask who produces on this broker."""


class GroupList(msgspec.Struct, rename="camel", gc=False):
    """Consumer groups."""

    group_list: list[str] = []


class GroupListAnswer(Answer, rename="camel"):
    """Consumer groups."""

    body_type: ClassVar[Any] = GroupList


@request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, answer=GroupListAnswer)
class QueryGroupsOfTopic(Request, rename="camel"):
    """Ask which groups consume a topic."""

    topic: str
    bname: str | None = None


@request(RequestCode.QUERY_TOPICS_BY_CONSUMER, answer=TopicListAnswer)
class QueryTopicsOfGroup(Request, rename="camel"):
    """List the topics in which a group has an offset."""

    group: str
    bname: str | None = None


class GroupSubscribed(msgspec.Struct, rename="camel", gc=False):
    """A group's subscription to a topic; no data if the group is offline or has none. RocketMQ: QuerySubscription..."""

    group: str
    topic: str
    subscription_data: SubscriptionData | None = None


class GroupSubscribedAnswer(Answer, rename="camel"):
    """A group's subscription."""

    body_type: ClassVar[Any] = GroupSubscribed


@request(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, answer=GroupSubscribedAnswer)
class QuerySubscription(Request, rename="camel"):
    """Ask what a group subscribes to in a topic."""

    group: str
    topic: str
    bname: str | None = None


class ProcessQueueInfo(msgspec.Struct, rename="camel", gc=False):
    """What a consumer has buffered of a queue. `droped` is RocketMQ's spelling."""

    commit_offset: Int64 = 0
    cached_msg_min_offset: Int64 = 0
    cached_msg_max_offset: Int64 = 0
    cached_msg_count: Int64 = 0
    cached_msg_size_in_mi_b: Int64 = msgspec.field(name="cachedMsgSizeInMiB", default=0)
    transaction_msg_min_offset: Int64 = 0
    transaction_msg_max_offset: Int64 = 0
    transaction_msg_count: Int64 = 0
    locked: bool = False
    try_unlock_times: Int64 = 0
    last_lock_timestamp: Int64 = 0
    droped: bool = False
    last_pull_timestamp: Int64 = 0
    last_consume_timestamp: Int64 = 0
    read_at: Int64 | msgspec.UnsetType = msgspec.UNSET
    """Staticfire's own: the id of the slave that the queue is pulled from; unset for the master."""


class PopQueueInfo(msgspec.Struct, rename="camel", gc=False):
    """What a POP consumer has buffered of a queue. RocketMQ: PopProcessQueueInfo."""

    wait_ack_count: Int64 = 0
    droped: bool = False
    last_pop_timestamp: Int64 = 0


class TopicConsumption(msgspec.Struct, rename="camel", gc=False):
    """How fast a consumer is in a topic, in milliseconds and messages per second."""

    pull_rt: float = msgspec.field(name="pullRT", default=0.0)
    pull_tps: float = msgspec.field(name="pullTPS", default=0.0)
    consume_rt: float = msgspec.field(name="consumeRT", default=0.0)
    consume_ok_tps: float = msgspec.field(name="consumeOKTPS", default=0.0)
    consume_failed_tps: float = msgspec.field(name="consumeFailedTPS", default=0.0)
    consume_failed_msgs: Int64 = 0


# Properties of a running info. LAST_POLL is staticfire's own: when a lite pull program last called poll.
CONSUME_TYPE = "PROP_CONSUME_TYPE"
LAST_POLL = "lastPollTimestamp"


class ConsumerRunningInfo(msgspec.Struct, rename="camel", gc=False):
    """The state of a consumer."""

    properties: dict[str, str] = {}
    subscription_set: list[SubscriptionData] = []
    mq_table: dict[MessageQueue, ProcessQueueInfo] = {}
    mq_pop_table: dict[MessageQueue, PopQueueInfo] = {}
    status_table: dict[str, TopicConsumption] = {}
    user_consumer_info: dict[str, str] = {}
    jstack: str | None = None


class RunningInfoAnswer(Answer, rename="camel"):
    """The state of a consumer."""

    body_type: ClassVar[Any] = ConsumerRunningInfo


@request(RequestCode.GET_CONSUMER_RUNNING_INFO, answer=RunningInfoAnswer)
class GetConsumerRunningInfo(Request, rename="camel"):
    """Ask a consumer what it is doing: at the broker, which passes it on."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False
    bname: str | None = None


class ConsumedDirectly(msgspec.Struct, rename="camel", gc=False):
    """The result of one message. `consume_result`: CR_SUCCESS, ... RocketMQ: ConsumeMessageDirectlyResult."""

    order: bool = False
    auto_commit: bool = True
    consume_result: str | None = None
    remark: str | None = None
    spent_time_mills: Int64 = 0


class ConsumedDirectlyAnswer(Answer, rename="camel"):
    """The result of consuming one message."""

    body_type: ClassVar[Any] = ConsumedDirectly


@request(RequestCode.CONSUME_MESSAGE_DIRECTLY, answer=ConsumedDirectlyAnswer)
class ConsumeDirectly(Request, rename="camel"):
    """Let a consumer consume one message now: at the broker, which passes it on with the message as the body."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    bname: str | None = None
    body_type: ClassVar[Any] = Records


class ClientConfig(msgspec.Struct, rename="camel", gc=False):
    """A subscription that a client wants to use. RocketMQ: CheckClientRequestBody."""

    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None


@request(RequestCode.CHECK_CLIENT_CONFIG)
class CheckClientConfig(Request, rename="camel"):
    """Ask whether the broker can filter by a subscription."""

    bname: str | None = None
    body_type: ClassVar[Any] = ClientConfig
