"""What administrators ask a controller: who is the master, who is in sync, elect another. RocketMQ: ControllerManager.

Broker ids are those of the routes: 0 is the master. RocketMQ's controller has ids of its own, which begin with 1.
"""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.limits import CONFIG_BYTES_MAX, TABLE_BYTES_MAX
from staticfire.protocol.numbers import Int64
from staticfire.protocol.requests.brokers import MemberGroup
from staticfire.protocol.requests.routes import NameserverConfigAnswer


class ControllerMetadataAnswer(Answer, rename="camel"):
    """The leader of the controllers, and all of them. RocketMQ: GetMetaDataResponseHeader."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = msgspec.field(name="isLeader", default=False)
    peers: str | None = None


@request(RequestCode.CONTROLLER_GET_METADATA_INFO, answer=ControllerMetadataAnswer)
class GetControllerMetadata(Request, rename="camel"):
    """Ask which controller is the leader. RocketMQ's tools do it before any other request."""


class InSync(msgspec.Struct, rename="camel", gc=False):
    """The ids of the replicas that are in sync, the master's included. RocketMQ: SyncStateSet."""

    sync_state_set: list[int] = []
    sync_state_set_epoch: Int64 = 0


class ReplicaInfoAnswer(Answer, rename="camel"):
    """The master of a broker. RocketMQ: GetReplicaInfoResponseHeader."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int64 | None = None
    body_type: ClassVar[Any] = InSync


@request(RequestCode.CONTROLLER_GET_REPLICA_INFO, answer=ReplicaInfoAnswer)
class GetReplicaInfo(Request, rename="camel"):
    """Ask for the master of a broker."""

    broker_name: str | None = None


class ReplicaIdentity(msgspec.Struct, rename="camel", gc=False):
    """One replica. RocketMQ: BrokerReplicasInfo.ReplicaIdentity."""

    broker_name: str
    broker_id: int
    broker_address: str
    alive: bool = False


class ReplicasInfo(msgspec.Struct, rename="camel", gc=False):
    """The replicas of one broker. RocketMQ: BrokerReplicasInfo.ReplicasInfo."""

    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: Int64 = 0
    sync_state_set_epoch: Int64 = 0
    in_sync_replicas: list[ReplicaIdentity] = []
    not_in_sync_replicas: list[ReplicaIdentity] = []


class ReplicasTable(msgspec.Struct, rename="camel", gc=False):
    """The replicas of each broker. RocketMQ: BrokerReplicasInfo."""

    replicas_info_table: dict[str, ReplicasInfo] = {}


class SyncStateAnswer(Answer, rename="camel"):
    """The replicas of the wanted brokers. Brokers that aren't known are left out."""

    body_type: ClassVar[Any] = ReplicasTable
    body_bytes_max: ClassVar[int | None] = TABLE_BYTES_MAX


@request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, answer=SyncStateAnswer)
class GetSyncState(Request, rename="camel"):
    """Ask for the replicas of brokers. The body: their names."""

    body_type: ClassVar[Any] = list[str]


class Elected(msgspec.Struct, rename="camel", gc=False):
    """The replicas after an election. RocketMQ: ElectMasterResponseBody."""

    broker_member_group: MemberGroup | None = None
    sync_state_set: list[int] = []


class ElectMasterAnswer(Answer, rename="camel"):
    """The new master; or the living one, if it is still there."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int64 | None = None
    sync_state_set_epoch: Int64 | None = None
    body_type: ClassVar[Any] = Elected


@request(RequestCode.CONTROLLER_ELECT_MASTER, answer=ElectMasterAnswer)
class ElectMaster(Request, rename="camel"):
    """Let a slave become the master. `designate_elect`: the slave with this id. Else a dead one is replaced."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: Int64 | None = None
    designate_elect: bool = False
    invoke_time: Int64 | None = None


@request(RequestCode.CLEAN_BROKER_DATA)
class CleanBrokerData(Request, rename="camel"):
    """Remove what is stored of brokers that are gone. Ids are separated by semicolons; none: the whole broker."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = msgspec.field(name="isCleanLivingBroker", default=False)
    invoke_time: Int64 | None = None


@request(RequestCode.GET_CONTROLLER_CONFIG, answer=NameserverConfigAnswer)
class GetControllerConfig(Request, rename="camel"):
    """Ask for all settings of the controller."""


@request(RequestCode.UPDATE_CONTROLLER_CONFIG)
class UpdateControllerConfig(Request, rename="camel"):
    """Change settings of the controller; the body is a java.util.Properties text."""

    body_bytes_max: ClassVar[int | None] = CONFIG_BYTES_MAX


class EpochEntry(msgspec.Struct, rename="camel", gc=False):
    """The part of a log that one master wrote. RocketMQ: EpochEntry."""

    epoch: Int64
    start_offset: Int64
    end_offset: Int64


class EpochCache(msgspec.Struct, rename="camel", gc=False):
    """The epochs of one broker's log, and where it ends. RocketMQ: EpochEntryCache."""

    cluster_name: str
    broker_name: str
    broker_id: int
    epoch_list: list[EpochEntry] = []
    max_offset: Int64 = 0


class EpochCacheAnswer(Answer, rename="camel"):
    """The epochs of one broker's log."""

    body_type: ClassVar[Any] = EpochCache


@request(RequestCode.GET_BROKER_EPOCH_CACHE, answer=EpochCacheAnswer)
class GetEpochCache(Request, rename="camel"):
    """Ask a broker for the epochs of its log."""
