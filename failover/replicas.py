"""Masters and slaves of a cluster: what they report, how their copies are controlled, how a slave takes over.

A failover is carried out here, request by request; `decisions.py` decides. The old master, if it answers, refuses
messages; the slave catches up; the old master becomes a slave; then the slave becomes the master of a new epoch. So at
most one broker of a set accepts messages at any time, if both answer. A master that doesn't answer becomes a slave when
it is back: it finds the newer epoch (broker/replication/successor.py).
"""

import asyncio
from collections.abc import Iterable, Mapping

import msgspec

from staticfire.failover.decisions import (
    has_copied,
    lacks_deletions,
    new_master,
    next_epoch,
    not_copied,
    not_joined,
    require_known,
    require_whole,
    stored_position,
    those_in_sync,
    why_not_yet,
)
from staticfire.failover.replica import Replica
from staticfire.failover.routes import ReadSets, Sets, sets_at
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS, Request
from staticfire.protocol.errors import (
    AnswerTimeout,
    BrokerAnswer,
    ClientError,
    NetworkError,
    ProtocolError,
    UsageError,
    broker_answer,
)
from staticfire.protocol.numbers import INT64_MAX
from staticfire.protocol.requests.replication import (
    SLAVE,
    ChangeRole,
    ControlReplication,
    GetReplication,
    ReplicationAnswer,
    ReplicationState,
    RoleAnswer,
)
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.runtime.pool import ConnectionPool

TIMEOUT_MS = 2_000
# A change of roles rebuilds the queues if it cuts the log.
ROLE_TIMEOUT_MS = 120_000
# How long a slave may take to copy the rest after its master has stopped to accept messages.
CATCH_UP_MS = 3_000
FENCE_MS = 15_000
POLL_MS = 20
ROUTE_WAIT_MS = 5_000


class Failover(msgspec.Struct, rename="camel"):
    """The result of a failover."""

    broker: str
    master: str
    """The address of the new master."""
    epoch: int
    lost: int
    """The messages that the new master doesn't have; -1: unknown, because the old master doesn't answer."""
    old_master: str
    """The address of the old one; empty: it didn't answer."""


class ReplicaAdmin:
    """The masters and slaves of one cluster."""

    def __init__(self, pool: ConnectionPool, sets: ReadSets) -> None:
        """`sets`: reads which brokers there are."""
        self._pool = pool
        self.registered = sets
        """Returns the addresses of all brokers by name and id, as the nameserver has them. Raises: as `sets_at`."""

    @classmethod
    def at_nameservers(cls, pool: ConnectionPool, namesrv: str) -> "ReplicaAdmin":
        """Return an administrator that reads from nameservers which brokers there are."""
        return cls(pool, sets_at(pool, namesrv))

    # -- what there is -------------------------------------------------------------------------------------------

    async def all(self, broker: str | None = None) -> list[Replica]:
        """Return the masters and slaves of a broker, or of all, by name and id. Raises: ClientError, NetworkError."""
        sets = await self.registered()
        if broker is not None and broker not in sets:
            raise ClientError(f"there is no broker {broker}; there are {', '.join(sorted(sets)) or 'none'}")
        names = sorted(sets) if broker is None else [broker]
        found = await asyncio.gather(*(self.of(name, sets[name]) for name in names))
        return [one for members in found for one in members]

    async def of(self, broker: str, members: Mapping[int, str]) -> list[Replica]:
        """Return the master and the slaves of a broker by id. `members`: their addresses by id."""
        requests = (self._replica(broker, broker_id, address) for broker_id, address in sorted(members.items()))
        return list(await asyncio.gather(*requests))

    async def at(self, broker: str, address: str, timeout_ms: int = TIMEOUT_MS) -> Replica:
        """Return the broker at an address that the nameserver doesn't have."""
        found = await self._replica(broker, MASTER_ID, address, timeout_ms)
        return found._replace(is_registered=False)

    async def masters(self, names: Iterable[str] = ()) -> dict[str, str]:
        """Return the addresses of the current masters by name. Raises: as `sets`."""
        return {name: members[MASTER_ID] for name, members in (await self.sets(names)).items()}

    async def sets(self, names: Iterable[str] = ()) -> Sets:
        """Return the addresses of all brokers by name and id. `names`: brokers that there must be.

        Raises: ClientError (there is none, or one has no master), NetworkError.
        """
        sets = await self.registered()
        for name in sorted({*sets, *names}):
            if MASTER_ID not in sets.get(name, {}):
                advice = f"let a slave take over with `staticfire failover {name}`, or start its master again"
                raise ClientError(f"{name} has no master now: {advice}")
        if not sets:
            raise ClientError("no broker is registered at the nameserver")
        return {name: sets[name] for name in sorted(sets)}

    async def _replica(self, broker_name: str, broker_id: int, address: str, timeout_ms: int = TIMEOUT_MS) -> Replica:
        try:
            state = await self._request(address, GetReplication(), timeout_ms)
        except (NetworkError, ProtocolError, BrokerAnswer) as error:
            refusal = error if isinstance(error, BrokerAnswer) else None
            is_slow = isinstance(error, AnswerTimeout)
            return Replica(broker_name, broker_id, address, None, str(error), refusal=refusal, is_slow=is_slow)
        return Replica(broker_name, broker_id, address, state)

    async def _state(self, address: str, count_from: int = -1) -> ReplicationState:
        return await self._request(address, GetReplication(count_from), TIMEOUT_MS)

    async def _request(self, address: str, request: Request, timeout_ms: int) -> ReplicationState:
        answer = await self._pool.ask(address, request, timeout_ms)
        if answer.code != SUCCESS or not isinstance(answer, ReplicationAnswer) or answer.body is None:
            raise broker_answer(answer.code, answer.remark, f"replication of {address}")
        state: ReplicationState = answer.body
        return state

    # -- one copy ------------------------------------------------------------------------------------------------

    async def control(self, name: str, request: ControlReplication) -> Replica:
        """Hold, release or delay the copy of a slave; `name`: broker-a-1. Raises: ClientError, BrokerAnswer."""
        replica = await self._slave(name)
        return replica._replace(state=await self.control_at(replica.address, request))

    async def control_at(self, address: str, request: ControlReplication) -> ReplicationState:
        """Hold, release or delay the copy of the slave at an address. Raises: BrokerAnswer, NetworkError."""
        return await self._request(address, request, TIMEOUT_MS)

    async def _slave(self, name: str) -> Replica:
        replicas = await self.all()
        slaves = [one for one in replicas if one.broker_id != MASTER_ID]
        found = next((one for one in slaves if one.name == name), None)
        if found is None:
            known = (
                f"there are {', '.join(one.name for one in slaves)}" if slaves else "start the cluster with --replicas"
            )
            is_master = any(one.name == name for one in replicas)
            words = f"{name} is a master, and only slaves copy" if is_master else f"there is no slave {name}"
            raise ClientError(f"{words}; {known}")
        return found

    # -- failover ------------------------------------------------------------------------------------------------

    async def failover(
        self,
        broker: str,
        to: int | None = None,
        losing: int | None = None,
        accepts_loss: bool = False,
        whole_needed: int = 0,
        in_sync: dict[int, str] | None = None,
    ) -> Failover:
        """Make a slave the master. `to`: its id; default: the one with most of the log.

        `losing`: the new master doesn't have the last messages, this many. Without it, a failover that would lose
        messages is refused.
        `accepts_loss`: the master doesn't answer, and what the slave hasn't copied may be lost.
        `whole_needed`: the number of slaves that must answer and have had everything at some time since their start.
        `in_sync`: ids and addresses of the slaves one of which must take over, if the master doesn't answer; None: any.
        Raises: ClientError (there is no such slave, or it lacks messages), BrokerAnswer, NetworkError.
        """
        if losing is not None and losing < 0:
            raise UsageError(f"losing={losing}: the number of lost messages can't be below 0")
        if losing is not None and losing > INT64_MAX:
            raise UsageError(f"losing={losing}: the number of lost messages can't be above {INT64_MAX}")
        replicas = await self.all(broker)
        master = next((one for one in replicas if one.broker_id == MASTER_ID), None)
        fence = self._pool.random_name()
        if master is not None and master.state is not None and not master.state.waits_for_failover:
            target = new_master(broker, replicas, to)
            try:
                stopped, missing = await self._handed_over(master, target, losing, fence)
                removes = 0 if missing < 0 else max(0, (losing or 0) - missing)
                return await self._carried_out(replicas, stopped, target, missing, removes, fence)
            except BaseException:  # Whatever ended it: a master that remains one accepts messages again.
                await self._fence([master], 0, fence)
                raise
        slaves = [one for one in replicas if one.broker_id != MASTER_ID and one.state is not None]
        epoch = -1
        try:
            # The master may only be slow: no slave may confirm anything to it any more.
            await self._fence(slaves, FENCE_MS, fence)
            now = await asyncio.gather(*(self._replica(broker, one.broker_id, one.address) for one in slaves))
            replicas = [*(one for one in replicas if one not in slaves), *now]
            require_whole(broker, now, whole_needed)
            target = new_master(broker, those_in_sync(broker, replicas, in_sync), to)
            require_known(target, losing, accepts_loss, master is None or master.state is None)
            removes = (losing or 0) if has_copied(target) else 0
            done = await self._carried_out(replicas, None, target, -1, removes, fence)
            epoch = done.epoch
        finally:
            await self._fence(slaves, 0, fence, epoch)
        return done

    async def _fence(self, replicas: list[Replica], fence_ms: int, fence: str, epoch: int = -1) -> None:
        """Let slaves copy nothing for a time, and a master accept nothing; with 0, let them continue.

        A slave that doesn't answer copies nothing either. Raises: BrokerAnswer (another failover is running).
        """
        request = ControlReplication(fence_ms=fence_ms, fence=fence, least_epoch=epoch)
        requests = (self._pool.ask(one.address, request, TIMEOUT_MS) for one in replicas)
        for answer in await asyncio.gather(*requests, return_exceptions=True):
            if isinstance(answer, BaseException):
                if not isinstance(answer, NetworkError | ProtocolError):
                    raise answer
            elif answer.code == ResponseCode.SYSTEM_BUSY:
                raise broker_answer(answer.code, answer.remark, "failover")

    async def _carried_out(
        self,
        replicas: list[Replica],
        alive: Replica | None,
        target: Replica,
        missing: int,
        removes: int,
        fence: str,
    ) -> Failover:
        """Exchange the roles.

        `alive`: the old master as it was when it stopped to accept messages for `fence`, if it answers.
        `missing`: the number of its messages that the target doesn't have, -1 if that is unknown.
        `removes`: the number of messages that the target loses in addition, as requested.
        """
        broker = target.broker_name
        epoch = next_epoch([one.state for one in replicas if one.state is not None])
        if alive is not None and alive.state is not None:
            change = ChangeRole(SLAVE, target.broker_id, epoch, fence=fence, end_position=alive.state.end_position)
            await self._take_role(alive.address, change)
        try:
            removed = await self._take_role(target.address, ChangeRole("", MASTER_ID, epoch, removes))
        except BaseException:
            if alive is not None:  # The set must not remain without a master.
                await self._take_role(alive.address, ChangeRole("", MASTER_ID, epoch + 1))
            raise
        await self._registered(broker, target.address)
        lost = -1 if missing < 0 else missing + removed
        return Failover(broker, target.address, epoch, lost, alive.address if alive else "")

    async def _handed_over(
        self, master: Replica, target: Replica, losing: int | None, fence: str
    ) -> tuple[Replica, int]:
        """Stop the master and let the slave catch up; return the stopped master and how many messages the slave lacks.

        Raises: ClientError (these are too many), BrokerAnswer (another failover is running), NetworkError.
        """
        stop = ControlReplication(fence_ms=FENCE_MS, fence=fence)
        fenced = await self._request(master.address, stop, TIMEOUT_MS)
        stopped = master._replace(state=fenced)
        state = await self._state(target.address)
        is_moving = not state.is_held and not state.lag_ms
        now, waited_ms = fenced, 0
        # The slave's own end doesn't count: its log may end with records that the master doesn't have.
        while (stored := stored_position(now, target)) < fenced.end_position or lacks_deletions(now, target):
            if waited_ms >= CATCH_UP_MS or not (is_moving or stored < 0):
                break
            await asyncio.sleep(POLL_MS / 1000)  # house: polls brokers that can't report it
            waited_ms += POLL_MS
            now = await self._state(master.address)
        if stored >= fenced.end_position:
            has_all = await self.copy_state(target.address) and not lacks_deletions(now, target)
            if has_all or losing is not None:
                return stopped, 0
            missing, words = -1, not_copied(target)
        elif stored < 0:
            missing, words = -1, not_joined(target, await self._state(target.address))
        else:
            missing = (await self._state(master.address, stored)).records_after
            words = why_not_yet(target, missing, "messages", state)
        if losing is None or not 0 <= missing <= losing:
            raise ClientError(words)
        return stopped, missing

    async def copy_state(self, address: str) -> bool:
        """Let a slave copy topics, groups and offsets now; return whether it has done so within a short time."""
        await self._request(address, ControlReplication(copy_state=True), TIMEOUT_MS)
        for _ in range(POLL_MS, CATCH_UP_MS, POLL_MS):
            await asyncio.sleep(POLL_MS / 1000)  # house: polls brokers that can't report it
            if not (await self._state(address)).lacks_state:
                return True
        return False

    async def _take_role(self, address: str, request: ChangeRole) -> int:
        answer = await self._pool.ask(address, request, ROLE_TIMEOUT_MS)
        if answer.code != SUCCESS or not isinstance(answer, RoleAnswer):
            raise broker_answer(answer.code, answer.remark, f"role of {address}")
        return answer.removed_records

    async def _registered(self, broker: str, address: str) -> None:
        """Wait until the nameserver has the new master. Raises: NetworkError."""
        for _ in range(ROUTE_WAIT_MS // POLL_MS):
            members: Mapping[int, str] = (await self.registered()).get(broker, {})
            if members.get(MASTER_ID) == address:
                return
            await asyncio.sleep(POLL_MS / 1000)  # house: polls brokers that can't report it
        raise ClientError(f"{address} is the master of {broker} now, but the nameserver doesn't have its route yet")
