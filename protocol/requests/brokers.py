"""Registration of brokers with nameservers. RocketMQ: RegisterBrokerRequestHeader, RegisterBrokerBody."""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.checksums import crc32
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import TABLE_BYTES_MAX
from staticfire.protocol.numbers import Int64
from staticfire.protocol.requests.routes import KVTable
from staticfire.protocol.requests.static_topics import MappingInfo
from staticfire.protocol.requests.topics import DataVersion, TopicConfig


class TopicConfigTable(msgspec.Struct, rename="camel", gc=False):
    """All topics of a broker, and the logical queues that it leads. RocketMQ: TopicConfigAndMappingSerializeWrapper."""

    topic_config_table: dict[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()
    topic_queue_mapping_info_map: dict[str, MappingInfo] = {}


class RegistrationBody(msgspec.Struct, rename="camel", gc=False):
    """The content of a broker's registration. RocketMQ: RegisterBrokerBody."""

    topic_config_serialize_wrapper: TopicConfigTable = msgspec.field(
        name="topicConfigSerializeWrapper", default_factory=TopicConfigTable
    )
    filter_server_list: list[str] = []


class RegistrationAnswer(Answer, rename="camel"):
    """The master's addresses, for a slave; the ordered topics as the body."""

    ha_server_addr: str | None = None
    master_addr: str | None = None
    clock: str | None = None
    body_type: ClassVar[Any] = KVTable


@request(RequestCode.REGISTER_BROKER, answer=RegistrationAnswer)
class RegisterBroker(Request, rename="camel"):
    """Say that a broker is there, every 30 s, with all its topics.

    `advertised` is staticfire's own. If it is False, the address is only where the broker listens, so the nameserver
    gives each client the address at which that client can reach the broker. `auto_create_groups` is our own, too: the
    broker creates unknown groups, with their %RETRY% topics. `clock` is the broker's message time; a broker without it
    doesn't follow the nameserver's clock. `external_addr` is the address for clients that come through a port mapping.
    `has_fewer_topics`: topics that the broker registered before are gone, because an older state was restored.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int64 = 0
    zone_name: str | None = msgspec.field(name="__ZONE_NAME", default=None)
    advertised: bool = True
    clock: str | None = None
    auto_create_groups: bool = msgspec.field(name="autoCreateSubscriptionGroup", default=False)
    external_addr: str | None = None
    has_fewer_topics: bool = False
    body_type: ClassVar[Any] = RegistrationBody
    body_bytes_max: ClassVar[int | None] = TABLE_BYTES_MAX

    def check_body(self, body: bytes) -> None:
        """Compare the body's CRC with the header's, if there is one: a flipped bit must not change routes."""
        if self.body_crc32 and crc32(body) & 0x7FFFFFFF != self.body_crc32:
            raise ProtocolError("crc32 not match: the body was damaged on its way")


@request(RequestCode.UNREGISTER_BROKER)
class UnregisterBroker(Request, rename="camel"):
    """Take a broker and its routes out."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class DataVersionAnswer(Answer, rename="camel"):
    """Whether the nameserver's version differs, and the nameserver's version."""

    changed: bool = False
    body_type: ClassVar[Any] = DataVersion


@request(RequestCode.QUERY_DATA_VERSION, answer=DataVersionAnswer)
class QueryDataVersion(Request, rename="camel"):
    """Ask whether the nameserver knows this version of a broker's topics; counts as a sign of life when it does."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64
    body_type: ClassVar[Any] = DataVersion


@request(RequestCode.BROKER_HEARTBEAT)
class BrokerHeartbeat(Request, rename="camel"):
    """A broker's sign of life between registrations."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None


@request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE)
class NotifyMinBrokerIdChange(Request, rename="camel"):
    """Tell a replica which replica of its broker has the lowest id now. Sent one-way by nameservers."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class MemberGroup(msgspec.Struct, rename="camel", gc=False):
    """A broker and its replicas. RocketMQ: BrokerMemberGroup."""

    cluster: str
    broker_name: str
    broker_addrs: dict[int, str] = {}


class MemberGroupBody(msgspec.Struct, rename="camel", gc=False):
    """The body that contains a member group. RocketMQ: GetBrokerMemberGroupResponseBody."""

    broker_member_group: MemberGroup | None = None


class MemberGroupAnswer(Answer, rename="camel"):
    """A broker and its replicas."""

    body_type: ClassVar[Any] = MemberGroupBody


@request(RequestCode.GET_BROKER_MEMBER_GROUP, answer=MemberGroupAnswer)
class GetMemberGroup(Request, rename="camel"):
    """Ask for the addresses of a broker and its replicas."""

    cluster_name: str
    broker_name: str
