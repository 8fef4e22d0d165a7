"""The masters and slaves of a run: which machine of a broker serves, and which have lost data since they were in sync.

For checkers a broker with slaves is one broker: its process ends when its master is gone, and begins when a machine
serves as the master again. What follows the position where the new master begins may be gone.
"""

import asyncio
import hashlib
from typing import TYPE_CHECKING, NamedTuple

from staticfire.broker.replication.epochs import newest
from staticfire.broker.server import Broker
from staticfire.failover.replicas import ReplicaAdmin
from staticfire.failover.watch import FailoverWatch
from staticfire.protocol.requests.replication import SLAVE, ReplicationState
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.checkers.events import (
    FaultBegan,
    FaultEnded,
    MasterSeen,
    ProcessBegan,
    ProcessEnded,
    ReplicaLog,
    ReplicasSeen,
    TopicsSeen,
)
from staticfire.simulation.checkers.losses import FAILED_OVER, GONE, LOST_MORE
from staticfire.simulation.workload.description import Brokers
from staticfire.simulation.world.world import SimulatedWorld

if TYPE_CHECKING:
    from staticfire.simulation.runs.record import RunRecord

LOOK_MS = 100
UNWELL = "replication"
"""The fault of a broker without a master, or one of whose slaves isn't in sync."""
ALL_LOST = "all copies of a message may be lost"
"""Counted when all machines of a broker that had it lost data. They may have lost its topics and groups, too."""
WINDOW_BYTES = 1024 * 1024
# A slave has what its master wrote a moment ago, also the notes that a broker writes at rest.
EQUAL_WITHIN_MS = 20_000


class Serving(NamedTuple):
    """A machine that serves as the master, in one of its lives."""

    machine: str
    life: int
    epoch: int


class ReplicaSets:
    """The brokers with slaves of a run."""

    def __init__(
        self, world: SimulatedWorld, brokers: Brokers, running: dict[str, Broker], lives: dict[str, int],
        up: set[str], record: "RunRecord",
    ) -> None:  # fmt: skip
        """`running`, `lives`, `up`: by machine; the lives of brokers are counted there, too."""
        self._world = world
        self._brokers = brokers
        self._running = running
        self._lives = lives
        self._up = up
        self._record = record
        self._serving: dict[str, Serving] = {}
        self._last: dict[str, Serving] = {}
        self._spoiled: dict[str, set[str]] = {name: set() for name in brokers.names}
        """Machines that have lost data, and didn't get it back yet."""
        self._outdated: dict[str, dict[str, tuple[int, int]]] = {}
        """Machines of a broker that take themselves for its master although another one serves: in which epoch, and
        where their logs ended at first. One that has lost the end of its log begins before the others' place."""
        self._is_losing: set[str] = set()
        """Brokers that an administrator lets lose messages."""
        self._unwell: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._pool: ConnectionPool | None = None

    def begin(self, namesrv: str, watcher: str) -> ReplicaAdmin:
        """Begin to watch; `watcher` is the machine of the program that lets slaves take over."""
        machine = self._world.machine(watcher)
        self._pool = ConnectionPool(machine)
        admin = ReplicaAdmin.at_nameservers(self._pool, namesrv)
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._look_loop(), name="roles"))
        if self._brokers.fails_over:
            watch = FailoverWatch(admin, lambda: self._world.uptime_ms, self._world.run_for)
            self._tasks.append(loop.create_task(watch.loop(), name="failover watch"))
        return admin

    async def end(self) -> None:
        """End all of it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self._pool is not None:
            await self._pool.close()

    # -- who serves ----------------------------------------------------------------------------------------------

    def serving(self, name: str) -> str:
        """Return the machine that serves as the master of a broker; empty if none does."""
        found = self._serving.get(name)
        return "" if found is None else found.machine

    def has_outdated_master(self, name: str) -> bool:
        """Return whether a machine of a broker doesn't know yet that another one has become the master."""
        return bool(self._outdated.get(name))

    def slaves(self, name: str) -> list[str]:
        """Return the machines of a broker that run as slaves."""
        return [machine for machine in self._brokers.machines_of(name) if self.is_slave(machine)]

    def is_slave(self, machine: str) -> bool:
        """Return whether a machine runs as a slave."""
        return machine in self._up and self._running[machine].state.settings.broker_role == SLAVE

    async def _look_loop(self) -> None:
        while True:
            await self._world.run_for(LOOK_MS)
            self.look()

    def look(self) -> None:
        """Note which machines serve, and whether all slaves are in sync."""
        for name in self._brokers.names:
            states = self._states(name)
            masters = {machine: state for machine, state in states.items() if state.is_serving}
            for machine, state in masters.items():
                now_ms, epoch = self._world.uptime_ms, newest(state.epochs)
                self._record.note(MasterSeen(now_ms, name, machine, epoch, state.set_id, state.end_position))
            self._note_serving(name, masters)
            self._note_health(name, states, masters)

    def _states(self, name: str) -> dict[str, ReplicationState]:
        return {
            machine: self._running[machine].replication_state()
            for machine in self._brokers.machines_of(name)
            if machine in self._up
        }

    def _note_serving(self, name: str, masters: dict[str, ReplicationState]) -> None:
        now_ms, before = self._world.uptime_ms, self._serving.get(name)
        machine = max(masters, key=lambda one: newest(masters[one].epochs), default="")
        if not machine:
            if before is not None:
                del self._serving[name]
                self._record.note(ProcessEnded(now_ms, name, GONE))
            return
        known = self._outdated.get(name, {})
        outdated = {
            one: known.get(one) or (newest(state.epochs), state.end_position)
            for one, state in masters.items()
            if one != machine
        }
        ended = [place for one, place in known.items() if one not in outdated]
        self._outdated[name] = outdated
        found = Serving(machine, self._lives[machine], newest(masters[machine].epochs))
        if before == found and ended:  # What it has acknowledged since it was replaced is gone.
            kept = _first_position_after(masters[machine], min(epoch for epoch, _ in ended))
            self._begins(name, FAILED_OVER, min(kept, *(end for _, end in ended)))
            return
        if before is not None and (before == found or (before.epoch == 0 and before[:2] == found[:2])):
            self._serving[name] = self._last[name] = found
            return
        last = self._last.get(name)
        if last is not None:
            state = masters[machine]
            is_same = last.epoch == found.epoch or not state.epochs
            kept = state.end_position if is_same else state.epochs[-1].start_position
            how = LOST_MORE if name in self._is_losing else FAILED_OVER
            self._is_losing.discard(name)
            self._record.states["another master" if last.machine != machine else "the same master again"] += 1
            self._serving[name] = self._last[name] = found
            self._begins(name, how, kept)
            return
        self._serving[name] = self._last[name] = found
        self._begins(name)

    def _begins(self, name: str, how: str = "", kept: int = 0) -> None:
        """Note that a broker has another master; `how`: the end of the one before."""
        now_ms = self._world.uptime_ms
        if how:
            self._record.note(ProcessEnded(now_ms, name, how, kept))
        self._lives[name] = self._lives.get(name, 0) + 1
        self._record.note(ProcessBegan(now_ms, name))

    def _note_health(
        self, name: str, states: dict[str, ReplicationState], masters: dict[str, ReplicationState]
    ) -> None:
        now_ms = self._world.uptime_ms
        is_well = not self.unrest_of(name)
        if is_well:
            self._spoiled[name].clear()
        for state in masters.values() if len(masters) == 1 else ():
            in_sync = {one.broker_id for one in state.followers if one.in_sync and not one.behind_bytes}
            self._spoiled[name] -= {machine for machine, one in states.items() if one.broker_id in in_sync}
        if is_well == (name in self._unwell):
            self._record.note((FaultEnded if is_well else FaultBegan)(now_ms, UNWELL, name))
            (self._unwell.discard if is_well else self._unwell.add)(name)

    def unrest_of(self, name: str) -> list[str]:
        """Return why a broker isn't a master with all its slaves; empty if it is."""
        states = self._states(name)
        reasons = [f"{one} is down" for one in self._brokers.machines_of(name) if one not in states]
        masters = [machine for machine, state in states.items() if state.is_serving]
        if len(masters) != 1:
            return [*reasons, f"the masters of {name} are {' and '.join(masters) or 'none'}"]
        followers = [one for one in states[masters[0]].followers if one.in_sync]
        if len(followers) != self._brokers.replicas:
            reasons.append(f"{masters[0]} has {len(followers)} slaves in sync")
        return reasons + [f"{one} doesn't copy: {state.problem}" for one, state in states.items() if state.problem]

    # -- losses --------------------------------------------------------------------------------------------------

    def lost_data(self, machine: str) -> None:
        """Note that a machine has lost data: its disk, or what wasn't synced."""
        name = self._brokers.set_of(machine)
        spoiled = self._spoiled[name]
        spoiled.add(machine)
        if len(spoiled) >= self._brokers.copies_awaited:
            self.lost_more(name, 0)

    def lost_more(self, name: str, kept: int) -> None:
        """Note that messages of a broker from a position on may be gone: no machine has them, or one that gives way."""
        self._record.note(ProcessEnded(self._world.uptime_ms, name, LOST_MORE, kept))
        self._record.states[ALL_LOST] += 1

    def same_until(self, name: str) -> int:
        """Return where the first record begins that not all machines of a broker that are up have."""
        stores = [self._running[one].state.store for one in self._brokers.machines_of(name) if one in self._up]
        begin = max(store.min_position for store in stores)
        same = min(int(store.max_position) for store in stores)
        for at_one_place in zip(*(store.records_from(begin) for store in stores), strict=False):
            if len(set(at_one_place)) > 1:
                return min(same, *(int(position) for position, _ in at_one_place))
        return same

    def disputing(self, name: str) -> list[str]:
        """Return the machines that refuse to copy the one that serves as their master."""
        return [one for one, state in self._states(name).items() if state.problem] if self.serving(name) else []

    def lets_lose(self, name: str, is_losing: bool) -> None:
        """Note that an administrator lets a slave take over that hasn't all, or doesn't any more."""
        (self._is_losing.add if is_losing else self._is_losing.discard)(name)

    # -- at the end ----------------------------------------------------------------------------------------------

    async def note_logs(self) -> None:
        """Record the logs of all machines, when they are equal, or after a while."""
        for name in self._brokers.names:
            logs: dict[str, ReplicaLog] = {}
            for _ in range(EQUAL_WITHIN_MS // LOOK_MS):
                logs = self._logs(name)
                if len(logs) == 1 + self._brokers.replicas and len({log.end for log in logs.values()}) == 1:
                    break
                await self._world.run_for(LOOK_MS)
            self._record.note(ReplicasSeen(self._world.uptime_ms, name, logs))

    def note_topics(self, prefix: str) -> None:
        """Record the topics whose names begin so, as the masters have them."""
        for name in self._brokers.names:
            if machine := self.serving(name):
                topics = self._running[machine].tables.topics.topics
                queues = {one: topic.write_queue_nums for one, topic in topics.items() if one.startswith(prefix)}
                self._record.note(TopicsSeen(self._world.uptime_ms, name, queues))

    def _logs(self, name: str) -> dict[str, ReplicaLog]:
        states = self._states(name)
        begin = max((state.min_position for state in states.values()), default=0)
        return {
            machine: ReplicaLog(
                state.role, newest(state.epochs), state.end_position, self._digest(machine, begin), state.problem
            )
            for machine, state in states.items()
        }

    def _digest(self, machine: str, position: int) -> str:
        store, digest = self._running[machine].state.store, hashlib.sha1(usedforsecurity=False)
        while position < store.max_position:
            window = store.log_window(position, WINDOW_BYTES)
            digest.update(window)
            position += len(window)
        return digest.hexdigest()


def _first_position_after(state: ReplicationState, epoch: int) -> int:
    """Return where the log continues that of a master of an older epoch."""
    return min((one.start_position for one in state.epochs if one.epoch > epoch), default=state.end_position)
