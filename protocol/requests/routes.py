"""Routes and cluster layout: requests of clients to a nameserver. RocketMQ: TopicRouteData, ClusterInfo, KVTable."""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.limits import CONFIG_BYTES_MAX
from staticfire.protocol.numbers import Int32, Int64
from staticfire.protocol.requests.static_topics import MappingInfo

MASTER_ID = 0
"""The id of a master among the addresses of its broker. Slaves have higher ones."""


class QueueData(msgspec.Struct, rename="camel", gc=False):
    """How many queues of a topic a broker has, and their permissions."""

    broker_name: str
    read_queue_nums: Int32 = 0
    write_queue_nums: Int32 = 0
    perm: Int32 = 0
    topic_sys_flag: Int32 = 0


class BrokerData(msgspec.Struct, rename="camel", gc=False):
    """The addresses of a broker and its replicas, by id."""

    cluster: str
    broker_name: str
    broker_addrs: dict[Int64, str]
    enable_acting_master: bool = False
    zone_name: str | None = None


ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""The namespace of the key-value configuration for the queues of ordered topics: `broker:queues;broker:queues`."""


class TopicRouteData(msgspec.Struct, rename="camel", gc=False):
    """Which brokers have which queues of a topic."""

    queue_datas: list[QueueData] = []
    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    order_topic_conf: str | None = None
    topic_queue_mapping_by_broker: dict[str, MappingInfo] | None = None
    """Only for a static topic, whose queues are logical ones that move between brokers."""


class RouteAnswer(Answer, rename="camel"):
    """A topic's route."""

    body_type: ClassVar[Any] = TopicRouteData


@request(RequestCode.GET_ROUTEINFO_BY_TOPIC, answer=RouteAnswer)
class GetRoute(Request, rename="camel"):
    """Ask for a topic's route."""

    topic: str
    accept_standard_json_only: bool | None = None


class ClusterInfo(msgspec.Struct, rename="camel", gc=False):
    """All brokers, and the cluster of each."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class ClusterInfoAnswer(Answer, rename="camel"):
    """The cluster."""

    body_type: ClassVar[Any] = ClusterInfo


@request(RequestCode.GET_BROKER_CLUSTER_INFO, answer=ClusterInfoAnswer)
class GetClusterInfo(Request, rename="camel"):
    """Ask for all brokers."""


class TopicList(msgspec.Struct, rename="camel", gc=False):
    """Topic names."""

    topic_list: list[str] = []
    broker_addr: str | None = None


class TopicListAnswer(Answer, rename="camel"):
    """Topic names."""

    body_type: ClassVar[Any] = TopicList


@request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, answer=TopicListAnswer)
class GetAllTopics(Request, rename="camel"):
    """Ask for the names of all topics."""


@request(RequestCode.GET_TOPICS_BY_CLUSTER, answer=TopicListAnswer)
class GetTopicsByCluster(Request, rename="camel"):
    """Ask for the names of a cluster's topics."""

    cluster: str


@request(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, answer=TopicListAnswer)
class GetSystemTopicsOfNameserver(Request, rename="camel"):
    """Ask for the topics named like a cluster or a broker."""


@request(RequestCode.DELETE_TOPIC_IN_NAMESRV)
class DeleteTopicInNameserver(Request, rename="camel"):
    """Forget a topic's route, of one cluster or of all."""

    topic: str
    cluster_name: str | None = None


@request(RequestCode.REGISTER_TOPIC_IN_NAMESRV)
class RegisterTopicInNameserver(Request, rename="camel"):
    """Add queues of known brokers to a topic's route; nothing happens when one of the brokers is unknown."""

    topic: str
    body_type: ClassVar[Any] = TopicRouteData


@request(RequestCode.GET_UNIT_TOPIC_LIST, answer=TopicListAnswer)
class GetUnitTopics(Request, rename="camel"):
    """Ask for the names of topics with the unit flag."""


@request(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, answer=TopicListAnswer)
class GetUnitSubscribedTopics(Request, rename="camel"):
    """Ask for the names of topics with the unit-subscribed flag."""


@request(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, answer=TopicListAnswer)
class GetUnitSubscribedOnlyTopics(Request, rename="camel"):
    """Ask for the names of topics with the unit-subscribed flag and without the unit flag."""


@request(RequestCode.UPDATE_NAMESRV_CONFIG)
class UpdateNameserverConfig(Request, rename="camel"):
    """Change settings while it runs; the body is a java.util.Properties text."""

    body_bytes_max: ClassVar[int | None] = CONFIG_BYTES_MAX


class NameserverConfigAnswer(Answer, rename="camel"):
    """All settings as a java.util.Properties text."""


@request(RequestCode.GET_NAMESRV_CONFIG, answer=NameserverConfigAnswer)
class GetNameserverConfig(Request, rename="camel"):
    """Ask for all settings."""


class KVTable(msgspec.Struct, rename="camel", gc=False):
    """Names and values of a key-value namespace."""

    table: dict[str, str] = {}


@request(RequestCode.PUT_KV_CONFIG)
class PutKVConfig(Request, rename="camel"):
    """Store a value."""

    namespace: str | None = None
    key: str | None = None
    value: str | None = None


class KVAnswer(Answer, rename="camel"):
    """A value."""

    value: str | None = None


@request(RequestCode.GET_KV_CONFIG, answer=KVAnswer)
class GetKVConfig(Request, rename="camel"):
    """Ask for a value."""

    namespace: str
    key: str


@request(RequestCode.DELETE_KV_CONFIG)
class DeleteKVConfig(Request, rename="camel"):
    """Remove a value."""

    namespace: str
    key: str


class KVTableAnswer(Answer, rename="camel"):
    """All values of a namespace."""

    body_type: ClassVar[Any] = KVTable


@request(RequestCode.GET_KVLIST_BY_NAMESPACE, answer=KVTableAnswer)
class GetKVList(Request, rename="camel"):
    """Ask for all values of a namespace."""

    namespace: str


class WipeAnswer(Answer, rename="camel"):
    """The number of topics that lost the write permission."""

    wipe_topic_count: Int64 = 0


@request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, answer=WipeAnswer)
class WipeWritePerm(Request, rename="camel"):
    """Take a broker's topics out of what producers see."""

    broker_name: str


class AddPermAnswer(Answer, rename="camel"):
    """The number of topics that got the write permission back."""

    add_topic_count: Int64 = 0


@request(RequestCode.ADD_WRITE_PERM_OF_BROKER, answer=AddPermAnswer)
class AddWritePerm(Request, rename="camel"):
    """Bring a broker's topics back."""

    broker_name: str
