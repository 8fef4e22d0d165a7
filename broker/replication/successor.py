"""Find the broker that has become the master while this one was dead or frozen, or that has more of the log."""

import msgspec

from staticfire.broker.registration import Registration
from staticfire.broker.replication.epochs import common_end, rank
from staticfire.broker.replication.lineage import Lineage, waits_for_copies
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.errors import NetworkError, ProtocolError, StorageError
from staticfire.protocol.numbers import INT64_MAX
from staticfire.protocol.requests.brokers import GetMemberGroup, MemberGroupAnswer
from staticfire.protocol.requests.replication import SLAVE, Epoch, GetReplication, ReplicationAnswer, ReplicationState
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.runtime.log import logger
from staticfire.runtime.pool import ConnectionPool

log = logger("replication")

TIMEOUT_MS = 1_000
# For a nameserver that accepts connections and is still about to start.
FIRST_TIMEOUT_MS = 10_000


class Successor(msgspec.Struct, frozen=True):
    """The new master, and the id that this broker gets as its slave."""

    address: str
    epochs: list[Epoch]
    broker_id: int


async def members_of(settings: BrokerSettings, registration: Registration, pool: ConnectionPool) -> dict[int, str]:
    """Return the addresses of a set by id, from the first nameserver that answers; empty if none does."""
    return await known_members(settings, registration, pool) or {}


async def first_known_members(
    settings: BrokerSettings, registration: Registration, pool: ConnectionPool
) -> dict[int, str] | None:
    """Return what `known_members` returns, and wait longer for nameservers that are silent, but not for dead ones."""
    members = await known_members(settings, registration, pool)
    return await known_members(settings, registration, pool, FIRST_TIMEOUT_MS) if members is None else members


async def known_members(
    settings: BrokerSettings, registration: Registration, pool: ConnectionPool, timeout_ms: int = TIMEOUT_MS
) -> dict[int, str] | None:
    """Return the addresses of a set by id, from the first nameserver that answers; None if none does."""
    for nameserver in registration.nameservers:
        try:
            request = GetMemberGroup(settings.broker_cluster_name, settings.broker_name)
            answer = await pool.ask(nameserver, request, timeout_ms)
        except (NetworkError, ProtocolError):
            continue
        if isinstance(answer, MemberGroupAnswer) and answer.body and answer.body.broker_member_group:
            return dict(answer.body.broker_member_group.broker_addrs)
    return None


async def find_successor(
    settings: BrokerSettings, lineage: Lineage, registration: Registration, pool: ConnectionPool
) -> Successor | None:
    """Return the broker that is the master of this set in a newer epoch; None if there is none.

    A broker without a lineage, whose log is empty, may belong to any set of its name.
    """
    members = await members_of(settings, registration, pool)
    if members and MASTER_ID not in members:
        # A master that was restarted during the failover took this one's place, and has become a slave since.
        _register_again(registration)
    for address, its in await _states_of(members, registration, pool):
        is_newer = rank(its.epochs) > rank(lineage.epochs)
        is_of_this_set = its.set_id and lineage.set_id in ("", its.set_id)
        if its.role != SLAVE and is_of_this_set and is_newer:
            return Successor(address, its.epochs, free_id(members, registration.address))
        is_older = its.set_id in ("", lineage.set_id) and rank(its.epochs) < rank(lineage.epochs)
        if its.role != SLAVE and is_older:
            # It was restarted during the failover, and has taken the route back. It looks who has it, too.
            _register_again(registration)
    return None


def _register_again(registration: Registration) -> None:
    for nameserver in registration.nameservers:
        registration.lost(nameserver)


async def reason_to_wait(
    settings: BrokerSettings, lineage: Lineage, end_position: int, registration: Registration, pool: ConnectionPool
) -> StorageError | None:
    """Return why a master must not begin again; None if it may.

    Its sends wait for slaves, and a slave of its epoch has more of the log: the master lost the end, or a part before
    it, which may have been acknowledged. Or it has no messages at all, and a slave has.
    """
    members = await members_of(settings, registration, pool)
    for address, its in await _states_of(members, registration, pool):
        words = _what_it_has(its, address, settings, lineage, end_position)
        if words:
            advice = f"let it take over with `staticfire failover {settings.broker_name}`"
            log.error("log_end_lost", end=end_position, slave_end=its.end_position, reason=f"{words}: {advice}")
            return StorageError(f"{words}: send again when it has taken over")
    return None


async def none_has_more(
    settings: BrokerSettings, lineage: Lineage, end_position: int, registration: Registration, pool: ConnectionPool
) -> bool:
    """Return whether a master waits for a failover in vain: all others are slaves that answer, and none has more.

    The one that had more has lost its disk, too. One that doesn't answer may still have it.
    """
    members = await members_of(settings, registration, pool)
    others = [address for address in members.values() if address != registration.address]
    states = await _states_of(members, registration, pool)
    return 0 < len(others) == len(states) and all(
        its.role == SLAVE and not _what_it_has(its, address, settings, lineage, end_position) for address, its in states
    )


def _what_it_has(
    its: ReplicationState, address: str, settings: BrokerSettings, lineage: Lineage, end_position: int
) -> str:
    """Return what a master lost and a slave has; empty if that is nothing."""
    is_of_this_epoch = its.set_id == lineage.set_id and rank(its.epochs) == rank(lineage.epochs)
    common = common_end(lineage.epochs, end_position, its.epochs, its.end_position)
    if its.role != SLAVE or its.end_position <= common or not its.set_id:
        return ""
    if lineage.set_id and is_of_this_epoch and waits_for_copies(settings):
        lost = "the end" if common == end_position else "a part"
        return f"this master lost {lost} of its log, which {address} has"
    # A failover may have removed all messages on request: then this log has never had what the slave has.
    has_had = not lineage.set_id or common_end(lineage.epochs, INT64_MAX, its.epochs, its.end_position) > 0
    if not end_position and lineage.set_id in ("", its.set_id) and has_had:
        return f"this master has lost all its messages, and {address} has them"
    return ""


async def other_id(
    settings: BrokerSettings, own_instance: str, registration: Registration, pool: ConnectionPool
) -> int | None:
    """Return an id for a slave whose own id another broker has meanwhile; None if it can keep its id.

    A failover gives the old master the id of the slave that has taken over. A slave that lost its disk, and with it its
    id of then, has that of its settings.
    """
    members = await members_of(settings, registration, pool)
    address = members.get(settings.broker_id, registration.address)
    if address == registration.address:
        return None
    for _, its in await _states_of({settings.broker_id: address}, registration, pool):
        if its.broker_id == settings.broker_id and its.instance != own_instance:
            return free_id(members, registration.address)
    return None


async def _states_of(
    members: dict[int, str], registration: Registration, pool: ConnectionPool
) -> list[tuple[str, ReplicationState]]:
    """Return the address and state of each other member that answers."""
    states = []
    for address in members.values():
        if address == registration.address:
            continue
        try:
            answer = await pool.ask(address, GetReplication(), TIMEOUT_MS)
        except (NetworkError, ProtocolError):
            continue
        if isinstance(answer, ReplicationAnswer) and answer.body is not None:
            states.append((address, answer.body))
    return states


def another_id(members: dict[int, str], own_id: int) -> int:
    """Return the lowest id above 0 that no member has, nor this broker."""
    return _lowest_free({*members, own_id})


def free_id(members: dict[int, str], own_address: str) -> int:
    """Return the lowest id above 0 that no other member has."""
    return _lowest_free({broker_id for broker_id, address in members.items() if address != own_address})


def _lowest_free(taken: set[int]) -> int:
    return next(number for number in range(MASTER_ID + 1, len(taken) + 2) if number not in taken)
