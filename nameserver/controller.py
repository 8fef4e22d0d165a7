"""Masters, slaves and elections, for administrators who use RocketMQ's controller. RocketMQ: ControllerManager.

Nothing about replicas is stored here: each request is answered from what the brokers report now. Their ids are those
of the routes. The set in sync has no epoch of its own: it is shown with the master's. An election is a failover, which
failover/replicas.py carries out; failover/decisions.py decides the epoch.

The requests to brokers have no access key, also if this nameserver has one, because the client whose request causes
them has shown none. Brokers with access control refuse them.
"""

from staticfire.failover.replica import Replica
from staticfire.failover.replicas import ReplicaAdmin
from staticfire.nameserver.advertised_addresses import advertised_address
from staticfire.nameserver.route_table import RouteTable
from staticfire.nameserver.settings import NameserverSettings
from staticfire.nameserver.views import Advertise, member_group
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.errors import BrokerAnswer, ClientError, NetworkError, ProtocolError
from staticfire.protocol.requests.controller import (
    CleanBrokerData,
    Elected,
    ElectMaster,
    ElectMasterAnswer,
    InSync,
    ReplicaIdentity,
    ReplicaInfoAnswer,
    ReplicasInfo,
    ReplicasTable,
    SyncStateAnswer,
)
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.runtime.client_machine import connecting
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine
from staticfire.runtime.pool import ConnectionPool

log = logger("nameserver")

LOOPBACK = "127.0.0.1"
UNKNOWN_REPLICAS = "Broker metadata is not existed"
NOT_REGISTERED = "Broker hasn't been registered"
NOT_ELECTED = "Failed to elect a new master"
NO_KEY = "it has access control, and a nameserver has no access key: use `staticfire replication` and `failover`"


class Controller:
    """The controller of one nameserver."""

    def __init__(self, machine: Machine, settings: NameserverSettings, routes: RouteTable) -> None:
        anonymous = machine._replace(identity=machine.identity._replace(credentials=None))
        self._pool = ConnectionPool(connecting(anonymous, settings))
        self._routes = routes
        self._admin = ReplicaAdmin(self._pool, self._sets)

    async def close(self) -> None:
        """Close the connections to brokers."""
        await self._pool.close()

    async def _sets(self) -> dict[str, dict[int, str]]:
        """Return the addresses at which this nameserver reaches the brokers."""
        return {
            name: {broker_id: advertised_address(filed, LOOPBACK) for broker_id, filed in data.broker_addrs.items()}
            for name, data in self._routes.brokers.items()
        }

    async def _replicas(self, broker: str | None, advertise: Advertise) -> ReplicasInfo | None:
        """Return the replicas of a broker; None if there is no such broker. Raises: BrokerAnswer (no permission)."""
        known = self._routes.brokers.get(broker or "")
        if broker is None or known is None:
            return None
        replicas = await self._admin.all(broker)
        for one in replicas:
            if one.refusal is not None and one.refusal.code == ResponseCode.NO_PERMISSION:
                raise BrokerAnswer(one.refusal.code, f"{one.name} refuses to describe itself: {NO_KEY}")
        addresses = {broker_id: advertise(filed) for broker_id, filed in known.broker_addrs.items()}
        return described([one._replace(address=addresses.get(one.broker_id, one.address)) for one in replicas])

    async def sync_state(self, brokers: list[str], advertise: Advertise) -> Answer:
        """Return the replicas of these brokers."""
        table = {}
        for broker in brokers:
            info = await self._replicas(broker, advertise)
            if info is not None:
                table[broker] = info
        return SyncStateAnswer(body=ReplicasTable(table))

    async def replica_info(self, broker: str | None, advertise: Advertise) -> Answer:
        """Return the master of a broker."""
        info = await self._replicas(broker, advertise)
        if info is None:
            return refusal(ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, UNKNOWN_REPLICAS)
        body = InSync([one.broker_id for one in info.in_sync_replicas], info.sync_state_set_epoch)
        return ReplicaInfoAnswer(info.master_broker_id, info.master_address, info.master_epoch, body=body)

    async def elect(self, request: ElectMaster, advertise: Advertise) -> Answer:
        """Let a slave become the master, if no message is lost by that."""
        broker = request.broker_name or ""
        info = await self._replicas(broker, advertise)
        if info is None:
            return refusal(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, NOT_REGISTERED)
        wanted = request.broker_id if request.designate_elect else None
        if info.master_broker_id is not None and wanted in (None, MASTER_ID):
            remark = f"The old master {MASTER_ID} is still alive, not need to elect new master for broker {broker}"
            return self._elected(broker, info, advertise, ResponseCode.CONTROLLER_MASTER_STILL_EXIST, remark)
        try:
            done = await self._admin.failover(broker, wanted)
        except (ClientError, NetworkError, ProtocolError) as error:
            return refusal(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, f"{NOT_ELECTED}: {error}")
        log.info("master_elected", broker=broker, address=done.master, epoch=done.epoch)
        return self._elected(broker, await self._replicas(broker, advertise) or info, advertise)

    def _elected(
        self, broker: str, info: ReplicasInfo, advertise: Advertise, code: int = 0, remark: str | None = None
    ) -> Answer:
        cluster = self._routes.brokers[broker].cluster if broker in self._routes.brokers else ""
        body = Elected(
            member_group(self._routes, cluster, broker, advertise), [one.broker_id for one in info.in_sync_replicas]
        )
        return ElectMasterAnswer(
            info.master_broker_id, info.master_address, info.master_epoch, info.sync_state_set_epoch,
            code=int(code), remark=remark, body=body,
        )  # fmt: skip

    def clean(self, request: CleanBrokerData) -> Answer:
        """Check that a broker, or some of its replicas, are gone: nothing is stored of them then."""
        broker = request.broker_name or ""
        known = self._routes.brokers.get(broker)
        invalid = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
        if known is None:
            return refusal(invalid, f"Broker {broker} is not existed,clean broker data failure.")
        ids = [part.strip() for part in (request.broker_controller_ids_to_clean or "").split(";") if part.strip()]
        alive = {str(broker_id) for broker_id in known.broker_addrs}
        if not ids:
            return refusal(invalid, f"Broker {broker} is still alive, clean up failure")
        for one in ids:
            if one in alive:
                return refusal(invalid, f"Broker [{broker},  {one}] is still alive, clean up failure")
        return Answer()


def described(replicas: list[Replica]) -> ReplicasInfo:
    """Return the replicas of one broker, those in sync first."""
    info = ReplicasInfo()
    in_sync: set[int] = set()
    master = next((one for one in replicas if one.broker_id == MASTER_ID), None)
    if master is not None and master.state is not None:
        epochs = master.state.epochs
        info.master_broker_id, info.master_address = MASTER_ID, master.address
        info.master_epoch = info.sync_state_set_epoch = epochs[-1].epoch if epochs else 0
        in_sync = {MASTER_ID, *(one.broker_id for one in master.state.followers if one.in_sync)}
    for one in replicas:
        identity = ReplicaIdentity(one.broker_name, one.broker_id, one.address, one.state is not None)
        (info.in_sync_replicas if one.broker_id in in_sync else info.not_in_sync_replicas).append(identity)
    return info
