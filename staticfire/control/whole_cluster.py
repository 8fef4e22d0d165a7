"""The brokers that a change of a whole cluster concerns: a reset, a snapshot. Fault rules don't affect it.

A rule may hide brokers, drop requests or hold a slave, so a reset and a restore begin with `undisturbed`.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from staticfire.failover.replicas import ReplicaAdmin
from staticfire.protocol.command import Request
from staticfire.protocol.errors import ConnectFailed, NetworkError
from staticfire.protocol.requests.faults import RemoveFault
from staticfire.protocol.requests.replication import ControlReplication
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.runtime.addresses import each_address
from staticfire.runtime.pool import ConnectionPool

TIMEOUT_MS = 10_000
# A slave that doesn't respond, because it is frozen, say, isn't waited for.
SLAVE_TIMEOUT_MS = 1_000


class KnownBrokers(NamedTuple):
    """What is known of the brokers without a request."""

    addresses: Mapping[str, str] = {}
    """The address of each broker by its name: that of its master when the cluster was started."""
    may_change: bool = True
    """Whether the masters may be others now. Then nameservers have them."""


async def masters_of(pool: ConnectionPool, namesrv: str, known: KnownBrokers) -> dict[str, str]:
    """Return the addresses of the brokers that accept changes, by name. Raises: ClientError, NetworkError."""
    if not known.may_change:
        return dict(known.addresses)
    return await ReplicaAdmin.at_nameservers(pool, namesrv).masters(known.addresses)


class Undisturbed(NamedTuple):
    """The servers of a cluster that has no fault rules now."""

    nameservers: list[str]
    """Their addresses, without those of nameservers that have ended."""
    masters: dict[str, str]
    """As `masters_of` returns them."""
    slaves: list[str]
    """Their addresses."""


async def undisturbed(pool: ConnectionPool, namesrv: str, known: KnownBrokers) -> Undisturbed:
    """Remove all fault rules, let all slaves copy without a lag, and return the servers.

    Raises: ClientError (a broker has no master), NetworkError.
    """
    # First at nameservers: a rule there may keep the brokers from being found.
    nameservers = await _nameservers_without_rules(pool, namesrv)
    sets: Mapping[str, Mapping[int, str]]
    if known.may_change:
        sets = await ReplicaAdmin.at_nameservers(pool, ";".join(nameservers)).sets(known.addresses)
    else:
        sets = {name: {MASTER_ID: address} for name, address in known.addresses.items()}
    masters = {name: members[MASTER_ID] for name, members in sets.items()}
    slaves = [address for members in sets.values() for number, address in members.items() if number != MASTER_ID]
    await asyncio.gather(
        *(pool.ask(address, RemoveFault(), TIMEOUT_MS) for address in masters.values()),
        *(tell_slave(pool, address, RemoveFault(), ControlReplication(hold=False, lag_ms=0)) for address in slaves),
    )
    return Undisturbed(nameservers, masters, slaves)


async def _nameservers_without_rules(pool: ConnectionPool, namesrv: str) -> list[str]:
    """Remove the rules of all nameservers, and return their addresses without those that have ended.

    They have forgotten their routes, too. Only the first one must be there: it has the message time of the cluster.
    """
    addresses = each_address(namesrv)

    async def remove_from(address: str) -> list[str]:
        try:
            await pool.ask(address, RemoveFault(), TIMEOUT_MS)
        except ConnectFailed:
            if address == addresses[0]:
                raise
            return []
        return [address]

    return [one for found in await asyncio.gather(*map(remove_from, addresses)) for one in found]


async def tell_slave(pool: ConnectionPool, address: str, *requests: Request) -> None:
    """Send requests to a slave one after the other. One that doesn't answer is left as it is."""
    with suppress(NetworkError):
        for request in requests:
            await pool.ask(address, request, SLAVE_TIMEOUT_MS)
