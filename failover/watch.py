"""Failover without a person: when a master is gone, the slave with most of the log takes over.

RocketMQ: the controller. A master is gone if the nameserver has had no route to it for GONE_MS after its connection
broke, and it accepts no other; or if it doesn't answer for SILENT_MS, because it is frozen or unreachable. During a
failover by a person nothing is done: a broker that changes its role answers late, and then as a master.

Each broker has a task of its own. So a frozen machine, or a long change of roles, delays no failover of another broker.

A nameserver that was restarted, or frozen, has no route to a living master for a while. So the last known master, or
the one that a slave copies, gets a request before a slave takes over.

If sends wait for copies, a slave takes over only if one of those that answer must have each acknowledged message: of n
machines, k of which have each message, at least n - k + 1. A slave counts if it had everything at some time since its
start; its disk may be a new one, or have lost the end. Otherwise the watch waits for the master, or for a person.

If all in sync must acknowledge (allAckInSyncStateSet), one that the master last reported as in sync must take over, and
must have had everything, too. If none was in sync, only the master has the last messages.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from staticfire.failover.replica import Replica
from staticfire.failover.replicas import ReplicaAdmin
from staticfire.protocol.errors import ClientError, StaticfireError
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logger

log = logger("replication")

POLL_MS = 100
# A master that restarts, or hands over to a slave, has no route for less than this.
GONE_MS = 200
SILENT_MS = 10_000
# A reason that changes is logged after this at the earliest: one that alternates with another would fill the log.
REPORT_MS = 10_000


class _Set:
    """What is known of one master and its slaves."""

    def __init__(self) -> None:
        self.gone_since: UptimeMs | None = None
        self.master = ""
        """The address of the last master that answered."""
        self.machines = 0
        """How many machines there were at most."""
        self.copies = 1
        """How many of them have an acknowledged message."""
        self.in_sync: dict[int, str] | None = None
        """Ids and addresses of the slaves that have each acknowledged message; None: a number of copies decides."""

    def note(self, members: list[Replica]) -> bool:
        """Note what the members are; return whether one of them is the master."""
        self.machines = max(self.machines, len({one.address for one in members}))
        for one in members:
            if one.state is not None and one.state.is_serving:
                self.master, self.copies = one.address, one.state.copies
                followers = one.state.followers
                # A silent slave remains in sync until the next message, which is acknowledged without it.
                heard = [slave for slave in followers if slave.in_sync and slave.silent_ms < SILENT_MS]
                slaves = {slave.broker_id: slave.address for slave in heard}
                self.in_sync = slaves if one.state.all_in_sync_acknowledge and self.copies == 1 else None
                self.gone_since = None
                return True
        return False

    def whole_needed(self) -> int:
        """Return how many slaves must answer that had everything; 0: any slave may take over."""
        return self.machines - self.copies + 1 if self.copies > 1 else 0


class FailoverWatch:
    """Watches the masters of one cluster."""

    def __init__(
        self, admin: ReplicaAdmin, uptime_ms: Callable[[], UptimeMs], pause: Callable[[int], Awaitable[None]]
    ) -> None:
        self._admin = admin
        self._uptime_ms = uptime_ms
        self._pause = pause
        self._sets: dict[str, _Set] = {}
        self._looks: dict[str, asyncio.Task[None]] = {}
        """The looks that haven't ended, by broker."""
        self._reasons: dict[str, tuple[str, UptimeMs]] = {}
        """Why no slave of a broker takes over, and when that was logged; of no broker: why it isn't known which there
        are."""

    async def loop(self) -> None:
        """Let a slave take over whenever a master is gone."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    await self._begin_looks(group)
                except StaticfireError as error:
                    self._report("", str(error))
                await self._pause(POLL_MS)

    async def _begin_looks(self, group: asyncio.TaskGroup) -> None:
        """Begin to look at each broker for which the last look has ended: none waits for another one's machines."""
        sets = await self._admin.registered()
        self._reasons.pop("", None)
        for name in sorted(sets):
            if name not in self._looks:
                self._looks[name] = look = group.create_task(self._look(name, sets[name]), name=f"failover of {name}")
                look.add_done_callback(partial(self._ended, name))

    def _ended(self, name: str, _: object) -> None:
        del self._looks[name]

    async def _look(self, name: str, members: Mapping[int, str]) -> None:
        try:
            await self._look_at(name, await self._admin.of(name, members))
        except StaticfireError as error:
            self._report(name, str(error))

    def _report(self, broker: str, reason: str) -> None:
        before, now = self._reasons.get(broker), self._uptime_ms()
        if before is None or (before[0] != reason and now - before[1] >= REPORT_MS):
            self._reasons[broker] = reason, now
            log.warning("failover_not_possible", broker=broker, reason=reason)

    async def _look_at(self, name: str, members: list[Replica]) -> None:
        known = self._sets.setdefault(name, _Set())
        if known.note(members) or await self._answers(name, known, members):
            self._reasons.pop(name, None)
            return
        if not self._is_due(known, members):
            return
        known.gone_since = None
        needed, in_sync = known.whole_needed(), known.in_sync
        done = await self._admin.failover(name, accepts_loss=True, whole_needed=needed, in_sync=in_sync)
        log.warning("failed_over", broker=name, master=done.master, epoch=done.epoch)

    async def _answers(self, name: str, known: _Set, members: list[Replica]) -> bool:
        """Return whether a master to which the nameserver has no route is still the master. Append it to `members`."""
        master = known.master or next((one.state.master_address for one in members if one.state is not None), "")
        if not master or any(one.address == master for one in members):
            return False
        members.append(await self._admin.at(name, master, GONE_MS))
        return known.note(members[-1:])

    def _is_due(self, known: _Set, members: list[Replica]) -> bool:
        """Return whether a slave must take over now, if the last master doesn't answer. Raises: ClientError."""
        slaves = [one for one in members if one.broker_id != MASTER_ID and one.state is not None]
        if not any(one.state is not None and one.state.set_id for one in slaves):
            known.gone_since = None
            if known.master:
                who = "none that answers has ever copied its master" if slaves else "none answers, nor does its master"
                raise ClientError(
                    f"no slave of {members[0].broker_name} takes over: {who} at {known.master}; "
                    "start that again, or the other slaves"
                )
            return False
        if known.gone_since is None:
            known.gone_since = self._uptime_ms()
        is_silent = any(one.broker_id == MASTER_ID and (one.is_registered or one.is_slow) for one in members)
        return self._uptime_ms() - known.gone_since >= (SILENT_MS if is_silent else GONE_MS)
