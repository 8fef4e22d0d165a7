"""Carries out the faults of a plan while a program runs, and counts those that hit.

Rules are sent to the servers before the program starts; a server counts requests until it reaches the rule's position.
The other faults begin here, when the brokers' journals show enough deliveries or sends. A fault counts as hit if the
servers have counted a hit of its rule, or if its member has joined the group.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from staticfire.chaos.journals import JournalTails
from staticfire.chaos.member import CLIENT_ID, as_member, from_events, joined
from staticfire.chaos.planned_fault import CLIENT, CLIENT_PLACE, MEMBER, Begin, PlannedFault
from staticfire.chaos.usage import SENDS
from staticfire.launch.process_faults import FaultNotUndone
from staticfire.protocol.durations import parse_duration
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.requests import journal as kinds
from staticfire.runtime.live import live_machine
from staticfire.runtime.service import pause_between_looks

if TYPE_CHECKING:
    from staticfire.client import ClientSettings
    from staticfire.cluster.async_cluster import AsyncCluster

LOOK_MS = 30
PROCESS_WORDS = ("freeze", "kill")


@dataclass
class InjectedFault:
    """A planned fault, and what it did in this run."""

    fault: PlannedFault
    hits: int = 0
    at_ms: int = 0
    """When it began, by this machine's clock; 0 for a rule, which hits whenever its request comes."""
    until_ms: int = 0
    problem: str = ""
    """Why it couldn't be carried out."""
    client: str = ""
    """The client that a partition separated from a broker."""
    numbers: list[int] = field(default_factory=list)
    """The numbers of its rule; a restarted broker gets the rule again."""
    rules: set[int] = field(default_factory=set)
    """All numbers that its rule has had, including removed ones: the journal names them."""


class FaultInjection:
    """Carries out the faults of one run."""

    def __init__(
        self,
        cluster: "AsyncCluster",
        journals: JournalTails,
        faults: Sequence[PlannedFault],
        settings: "ClientSettings | None" = None,
    ) -> None:
        """`settings`: of the member that joins and leaves."""
        self._cluster = cluster
        self._settings = settings
        self._journals = journals
        self.injected = [InjectedFault(fault) for fault in faults]
        self._tasks: set[asyncio.Task[None]] = set()
        # Two rules that are added at once would get the same number.
        self._adding = asyncio.Lock()
        self._clock = live_machine().clock

    async def prepare(self) -> None:
        """Add the rules of all faults that begin with the program."""
        for injected in self.injected:
            if injected.fault.begin is None:
                await self._add(injected, injected.fault.words)

    def start(self) -> None:
        """Begin to watch for the moments of the other faults, until `finish` or `stop`."""
        self._own(self.watch())

    async def watch(self) -> None:
        """Carry out the other faults, each when its beginning is reached. Return when all were started."""
        waiting = [injected for injected in self.injected if injected.fault.begin is not None]
        needs_sends = any(one.fault.begin is not None and one.fault.begin.topic for one in waiting)
        while waiting:
            await (self._journals.read() if needs_sends else self._journals.read_events())
            for injected in [one for one in waiting if self._has_begun(one.fault.begin)]:
                waiting.remove(injected)
                self._own(self._carry_out(injected))
            await pause_between_looks(LOOK_MS)

    async def finish(self) -> None:
        """End all faults, and count the hits; none begins later.

        Raises: FaultNotUndone (a killed process can't be restarted).
        """
        await self.stop()
        await self._count()
        left: FaultNotUndone | None = None
        try:
            await self._cluster.faults.clear()
        except FaultNotUndone as error:
            left = error
        except StaticfireError:
            pass  # A server that doesn't answer applies no rule either.
        for injected in self.injected:
            await self._remove(injected)
        if left is not None:
            raise left

    async def stop(self) -> None:
        """Begin no further fault, and wait for none that has begun. Rules stay."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _own(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- one fault -----------------------------------------------------------------------------------------------

    def _has_begun(self, begin: Begin | None) -> bool:
        if begin is None:
            return True
        if not begin.topic:
            deliveries = [one for one in self._journals.events if one.kind == kinds.DELIVERED]
            found = sum(not begin.group or one.group == begin.group for one in deliveries)
        else:
            found = sum(one.code in SENDS and one.topic == begin.topic for one in self._journals.requests)
        return found > begin.count

    async def _carry_out(self, injected: InjectedFault) -> None:
        fault = injected.fault
        injected.at_ms = self._clock.wall_ms()
        if fault.how == MEMBER:
            await self._join(injected)
        elif fault.how == CLIENT:
            await self._cut_off(injected)
        else:
            words = dict(fault.words)
            if "kill" in words:
                await self._kill(injected, str(words["broker"]))
            else:
                await self._add_for_lifetime(injected, fault.words)
        injected.until_ms = max(injected.until_ms, self._clock.wall_ms())

    async def _add_for_lifetime(self, injected: InjectedFault, words: Sequence[tuple[str, object]]) -> None:
        """Add a rule, and remove it at its end. If the server removed it by itself, its hits would be lost."""
        rule = dict(words)
        lifetime = rule.pop("lifetime", None)
        await self._add(injected, tuple(rule.items()))
        if "freeze" in rule:
            injected.until_ms = injected.at_ms + parse_duration(str(rule["freeze"]))
        if lifetime is None or injected.problem:
            return
        await pause_between_looks(parse_duration(str(lifetime)))
        await self._count()
        await self._remove(injected)

    def _group_of(self, fault: PlannedFault) -> str:
        """Return the group of a fault; if its name differs from run to run, the group that got a member first."""
        joined_groups = [one.group for one in self._journals.events if one.kind == kinds.JOINED]
        return fault.group or (joined_groups[0] if joined_groups else "")

    async def _join(self, injected: InjectedFault) -> None:
        fault = injected.fault
        await self._journals.read_heartbeats()
        name = self._group_of(fault)
        consumer = as_member(self._journals.heartbeats, name) or from_events(self._journals.events, name)
        if consumer is None:
            injected.problem = f"no member of {name or 'any group'} was seen"
            return
        if fault.words:
            await self._add(injected, fault.words)
        try:
            async with joined(self._cluster.addresses, consumer, CLIENT_ID, self._settings):
                injected.hits = 1
                await pause_between_looks(fault.stay_ms)
        except StaticfireError as error:
            injected.problem = str(error)

    async def _cut_off(self, injected: InjectedFault) -> None:
        name = self._group_of(injected.fault)
        group = [one.client for one in self._journals.events if one.kind == kinds.JOINED and one.group == name]
        if not group:
            injected.problem = f"no member of {name or 'any group'} was seen"
            return
        injected.client = group[0]
        words = [(name, str(value).replace(CLIENT_PLACE, group[0])) for name, value in injected.fault.words]
        await self._add_for_lifetime(injected, words)

    async def _kill(self, injected: InjectedFault, broker: str) -> None:
        """Kill a broker. When it is back, give it the rules that haven't hit."""
        await self._journals.read()
        await self._count()
        # What it records from here on may be lost, whether or not this task still runs when it is killed.
        self._journals.gaps.add(broker)
        await self._add(injected, injected.fault.words)
        if injected.problem:
            return
        await self._journals.restarted(broker)
        injected.hits = 1
        while broker not in self._cluster.pids:
            await pause_between_looks(LOOK_MS)
        for other in self.injected:
            if other.numbers and not other.hits and other.fault.begin is None:
                await self._remove(other)
                await self._add(other, other.fault.words)

    # -- rules ---------------------------------------------------------------------------------------------------

    async def _add(self, injected: InjectedFault, words: Sequence[tuple[str, object]]) -> None:
        try:
            async with self._adding:
                added = await self._cluster.faults.add(**{**dict(words), **self._survives_reset(words)})
        except StaticfireError as error:
            injected.problem = str(error)
            return
        injected.numbers.append(added.number)
        injected.rules.add(added.number)

    @staticmethod
    def _survives_reset(words: Sequence[tuple[str, object]]) -> dict[str, object]:
        """Return the words with which a rule survives a reset of the cluster, as test frameworks do between tests."""
        is_of_server = any(word in dict(words) for word in PROCESS_WORDS)
        return {} if is_of_server else {"stays": True}

    async def _remove(self, injected: InjectedFault) -> None:
        for number in injected.numbers:
            try:
                await self._cluster.faults.remove(number)
            except StaticfireError:
                pass  # The restarted broker doesn't have it, and there is no other one.
        injected.numbers.clear()

    async def _count(self) -> None:
        """Note the hits of all rules so far."""
        try:
            views = {view.number: view.hit for view in await self._cluster.faults.all()}
        except StaticfireError as error:
            for injected in self.injected:
                injected.problem = injected.problem or f"its hits couldn't be read: {error}"
            return
        for injected in self.injected:
            if injected.fault.how == MEMBER:
                continue
            hits = sum(views.get(number, 0) for number in injected.numbers)
            is_switch = any(word in dict(injected.fault.words) for word in (*PROCESS_WORDS, "disk_full"))
            injected.hits = max(injected.hits, hits, int(is_switch and bool(injected.numbers)))
