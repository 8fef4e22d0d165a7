"""`staticfire mqadmin`: masters and slaves. RocketMQ: HAStatus-, GetSyncStateSet- and ReElectMasterSubCommand.

In RocketMQ a controller responds to the last two. Here the brokers do, so that `-a` has no effect. The ids are those of
the routes: 0 is the master. Changes of the set in sync aren't counted: SyncStateSetEpoch is the master's epoch.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from staticfire.cli.mqadmin.frame import AdminSession, addresses, ask, command, option, target_flags
from staticfire.cli.mqadmin.java_text import lines_of, moment_ms, object_text
from staticfire.cli.mqadmin.output import show
from staticfire.cli.mqadmin.servers import at_each, repeat
from staticfire.cli.options import Whole
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.protocol.requests.upkeep import CopyRuntime, GetHighAvailability, HighAvailability

if TYPE_CHECKING:
    from staticfire.client import Admin
    from staticfire.failover.replica import Replica

SLAVES = "%-32s  %-16s %16s %16s %16s %16s"
SLAVE_HEADINGS = ("#SlaveAddr", "#SlaveAckOffset", "#Diff", "#TransferSpeed(KB/s)", "#Status", "#TransferFromWhere")
KIB = 1024
controller_flag = option(
    "-a", "--controllerAddress", "controller", metavar="HOST:PORT", help="Accepted for compatibility; has no effect."
)


@command("haStatus")
@option("-i", "--interval", "interval_s", type=Whole(1), metavar="SECONDS", help="Repeat until Ctrl-C.")
@target_flags
def ha_status(session: AdminSession, interval_s: int | None, cluster: str | None, broker: str | None) -> None:
    """Show how far the slaves of brokers are."""

    async def work(admin: "Admin") -> None:
        await repeat(admin, interval_s, lambda: _show(admin, cluster, broker))

    session.run(work)


async def _show(admin: "Admin", cluster: str | None, broker: str | None) -> None:
    async def show_one(address: str) -> None:
        state: HighAvailability = (await ask(admin, address, GetHighAvailability())).body
        show(master_text(address, state) if state.master else slave_text(state.ha_client_runtime_info))

    await at_each(await addresses(admin, cluster, broker), show_one)


@command("getSyncStateSet")
@controller_flag
@option("-b", "--brokerName", "broker", metavar="NAME", help="Only this broker.")
@option("-c", "--clusterName", "cluster", metavar="CLUSTER", help="The brokers of this cluster.")
@option("-i", "--interval", "interval_s", type=Whole(1), metavar="SECONDS", help="Repeat until Ctrl-C.")
def get_sync_state_set(
    session: AdminSession, broker: str | None, cluster: str | None, interval_s: int | None, controller: str | None
) -> None:
    """Show the replicas of brokers that are in sync."""

    async def work(admin: "Admin") -> None:
        if broker is None and cluster is None:
            raise UsageError("mqadmin getSyncStateSet: give -b NAME or -c CLUSTER")

        async def show_one(name: str) -> None:
            show(sync_text(name, await _replicas(admin, name)))

        async def show_all() -> None:
            await at_each([broker] if broker else sorted(await admin.readers(cluster)), show_one)

        await repeat(admin, interval_s, show_all)

    session.run(work)


@command("electMaster")
@controller_flag
@option("-b", "--brokerId", "broker_id", required=True, type=Whole(0), metavar="ID", help="The slave that takes over.")
@option("-bn", "--brokerName", "broker", required=True, metavar="NAME", help="The broker.")
@option("-c", "--clusterName", "cluster", required=True, metavar="CLUSTER", help="Its cluster.")
def elect_master(session: AdminSession, broker_id: int, broker: str, cluster: str, controller: str | None) -> None:
    """Let a slave of a broker become the master.

    Refused if messages would be lost: see `staticfire failover --losing`.
    """

    async def work(admin: "Admin") -> None:
        from staticfire.failover.replicas import ReplicaAdmin

        if broker not in await admin.readers(cluster):
            raise ClientError(f"mqadmin electMaster: cluster {cluster} has no broker {broker}")
        if broker_id:
            nameservers = ";".join(admin.client.nameservers.addresses)
            await ReplicaAdmin.at_nameservers(admin.client.pool, nameservers).failover(broker, broker_id)
        show(elected_text(cluster, broker, await _replicas(admin, broker)))

    session.run(work)


async def _replicas(admin: "Admin", broker: str) -> "list[Replica]":
    from staticfire.failover.replicas import ReplicaAdmin

    return await ReplicaAdmin.at_nameservers(admin.client.pool, ";".join(admin.client.nameservers.addresses)).all(
        broker
    )


def sync_text(broker: str, replicas: "list[Replica]") -> str:
    """Return a broker's replicas, those in sync first."""
    master, epoch, in_sync = _master_of(replicas)
    head = {
        "brokerName": broker,
        "MasterBrokerId": master.broker_id if master else "null",
        "MasterAddr": master.address if master else "null",
        "MasterEpoch": epoch,
        "SyncStateSetEpoch": epoch,
        "SyncStateSetNums": len(in_sync),
    }
    lines = [f"\nInSyncReplica:\t{_identity(one)}" for one in replicas if one.broker_id in in_sync]
    lines += [f"\nNotInSyncReplica:\t{_identity(one)}" for one in replicas if one.broker_id not in in_sync]
    return "\n".join([_pairs(head), *lines])


def elected_text(cluster: str, broker: str, replicas: "list[Replica]") -> str:
    """Return the result of an election."""
    master, epoch, _ = _master_of(replicas)
    head = {
        "ClusterName": cluster,
        "BrokerName": broker,
        "BrokerMasterAddr": master.address if master else "null",
        "MasterEpoch": epoch,
        "SyncStateSetEpoch": epoch,
    }
    return "\n".join([_pairs(head), *(f"\t#Broker\t{one.broker_id}\t{one.address}" for one in replicas)])


def _master_of(replicas: "list[Replica]") -> "tuple[Replica | None, int, list[int]]":
    """Return the master, its epoch, and the ids that are in sync, itself included."""
    master = next((one for one in replicas if one.broker_id == 0 and one.state is not None), None)
    if master is None or master.state is None:
        return None, 0, []
    epoch = master.state.epochs[-1].epoch if master.state.epochs else 0
    return master, epoch, [0, *(one.broker_id for one in master.state.followers if one.in_sync)]


def _identity(replica: "Replica") -> str:
    fields = {
        "brokerName": f"'{replica.broker_name}'",
        "brokerId": replica.broker_id,
        "brokerAddress": f"'{replica.address}'",
        "alive": replica.state is not None,
    }
    return object_text("ReplicaIdentity", fields)


def master_text(address: str, state: HighAvailability) -> str:
    """Return a master's view of its slaves."""
    slaves = state.ha_connection_info
    rows = [
        (
            one.addr,
            one.slave_ack_offset,
            one.diff,
            f"{one.transferred_byte_in_second / KIB:.2f}",
            "OK" if one.in_sync else "Fall Behind",
            one.transfer_from_where,
        )
        for one in slaves
    ]
    head = {
        "MasterAddr": address,
        "MasterCommitLogMaxOffset": state.master_commit_log_max_offset,
        "SlaveNum": len(slaves),
        "InSyncSlaveNum": state.in_sync_slave_nums,
    }
    return f"{_pairs(head)}\n{lines_of(SLAVES, SLAVE_HEADINGS, *rows)}"


def slave_text(state: CopyRuntime) -> str:
    """Return a slave's view of its copy."""
    return _pairs(
        {
            "MasterAddr": state.master_addr or "null",
            "CommitLogMaxOffset": state.max_offset,
            "TransferSpeed(KB/s)": f"{state.transferred_byte_in_second / KIB:.2f}",
            "LastReadTime": moment_ms(state.last_read_timestamp),
            "LastWriteTime": moment_ms(state.last_write_timestamp),
            "MasterFlushOffset": state.master_flush_offset,
        }
    )


def _pairs(values: Mapping[str, object]) -> str:
    return "\n" + "\n".join(f"#{name}\t{value}" for name, value in values.items())
