"""Which replica of each broker an administrator's request goes to. Pure.

Changes go to masters. What is only read comes from the slave with the lowest id while a broker has no master.
"""

from collections.abc import Mapping

from staticfire.client.admin.group_view import GroupWarning
from staticfire.client.cluster.routes import without_master
from staticfire.protocol.requests.routes import MASTER_ID, ClusterInfo

Replicas = Mapping[str, Mapping[int, str]]
"""Addresses by broker name and id, both sorted."""


def replicas_of(info: ClusterInfo, cluster: str | None = None, broker_name: str | None = None) -> Replicas:
    """Return the replicas of the brokers of a cluster, of one broker, or of all."""
    table = info.broker_addr_table
    names = sorted(table) if cluster is None else sorted(info.cluster_addr_table.get(cluster, ()))
    return {
        name: dict(sorted(table[name].broker_addrs.items()))
        for name in names
        if name in table and broker_name in (None, name)
    }


def masters_among(replicas: Replicas) -> dict[str, str]:
    """Return the masters' addresses by broker name."""
    return {name: addresses[MASTER_ID] for name, addresses in replicas.items() if MASTER_ID in addresses}


def reader_of(addresses: Mapping[int, str]) -> str:
    """Return the address to read from among the replicas of one broker."""
    return addresses[min(addresses)]


def readers_among(replicas: Replicas) -> dict[str, str]:
    """Return the addresses to read from: the master's; without one, that of the slave with the lowest id."""
    return {name: reader_of(addresses) for name, addresses in replicas.items() if addresses}


def slaves_among(replicas: Replicas) -> dict[str, dict[int, str]]:
    """Return the slaves' addresses by broker name and id; without the brokers that have none."""
    found = {
        name: {broker_id: address for broker_id, address in addresses.items() if broker_id != MASTER_ID}
        for name, addresses in replicas.items()
    }
    return {name: addresses for name, addresses in found.items() if addresses}


def warnings_without_master(replicas: Replicas) -> list[GroupWarning]:
    """Return a warning for each broker of which only slaves are left."""
    lost = {name: addresses for name, addresses in replicas.items() if addresses and MASTER_ID not in addresses}
    return [GroupWarning("BROKER_WITHOUT_MASTER", without_master(name, lost[name])) for name in lost]


def none_found(info: ClusterInfo, cluster: str | None, broker_name: str | None, nameserver: str) -> str:
    """Describe that no master was found, and which brokers there are."""
    wanted = f"broker {broker_name}" if broker_name else f"cluster {cluster}" if cluster else "any cluster"
    clusters = [f"{name} ({', '.join(sorted(members))})" for name, members in info.cluster_addr_table.items()]
    known = f"registered: {', '.join(sorted(clusters))}" if clusters else "no broker is registered there"
    left = ", ".join(slaves_among(replicas_of(info, cluster, broker_name)))
    only = f"; only slaves are left of {left}: these can be read, and accept no changes" if left else ""
    return f"no master of {wanted} at nameserver {nameserver}; {known}{only}"
