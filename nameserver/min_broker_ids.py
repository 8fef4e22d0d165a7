"""When the lowest id among a broker's replicas changes, and which replicas must know it. Pure.
RocketMQ: RouteInfoManager.chooseBrokerAddrsToNotify.

The replica with the lowest id may act for a lost master. When the lowest id is lost, all others must know; when a lower
one arrives, those that were there before.
"""

import msgspec

from staticfire.protocol.requests.routes import BrokerData


class MinIdChange(msgspec.Struct, frozen=True):
    """A change of the lowest id among a broker's replicas. Addresses are filed ones."""

    broker_name: str
    min_id: int
    min_address: str
    recipients: list[str]
    """The replicas to notify."""
    offline_address: str | None = None
    """The replica that is lost."""
    ha_address: str | None = None
    """Where a replica that has arrived serves copies of its log."""


def after_loss(broker: BrokerData, offline_address: str) -> MinIdChange:
    """Return the change after the replica with the lowest id was lost. Others must be left."""
    replicas = broker.broker_addrs
    min_id = min(replicas)
    return MinIdChange(broker.broker_name, min_id, replicas[min_id], list(replicas.values()), offline_address)


def after_arrival(broker: BrokerData, ha_address: str) -> MinIdChange:
    """Return the change after a replica with a new lowest id has arrived."""
    replicas = broker.broker_addrs
    min_id = min(replicas)
    # RocketMQ notifies also a replica that has changed its id and is alone.
    others = [address for broker_id, address in replicas.items() if broker_id != min_id or len(replicas) == 1]
    return MinIdChange(broker.broker_name, min_id, replicas[min_id], others, ha_address=ha_address)
