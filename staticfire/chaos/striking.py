"""Carries the faults of a plan out while a program runs, and counts those that hit.

Rules are sent to the servers before the program starts; their position says where they hit. The other faults wait for
their moment here. A fault is counted only if it hit: a rule by the servers' counts, a member when it was in the group.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from staticfire.chaos.journals import JournalTails
from staticfire.chaos.member import CLIENT_ID, as_member, from_events, joined
from staticfire.chaos.strikes import CLIENT, CLIENT_PLACE, MEMBER, Begin, PlannedFault
from staticfire.chaos.usage import SENDS
from staticfire.protocol.durations import parse_duration
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.requests import journal as kinds
from staticfire.runtime.live import live_machine
from staticfire.runtime.service import pause_between_looks

if TYPE_CHECKING:
    from staticfire.cluster.async_cluster import AsyncCluster

LOOK_MS = 30
PROCESS_WORDS = ("freeze", "kill")


@dataclass
class Struck:
    """What came of one planned fault."""

    strike: PlannedFault
    hits: int = 0
    at_ms: int = 0
    """When it began, by this machine's clock; 0 for a rule, which hits whenever its request comes."""
    until_ms: int = 0
    problem: str = ""
    """Why it couldn't be carried out."""
    client: str = ""
    """The client that was cut off."""
    numbers: list[int] = field(default_factory=list)
    """The numbers of its rule; a restarted broker gets the rule again."""
    rules: set[int] = field(default_factory=set)
    """All numbers that its rule has had, also after it was removed."""


class Striking:
    """The faults of one run."""

    def __init__(self, cluster: "AsyncCluster", journals: JournalTails, strikes: Sequence[PlannedFault]) -> None:
        self._cluster = cluster
        self._journals = journals
        self.struck = [Struck(strike) for strike in strikes]
        self._tasks: set[asyncio.Task[None]] = set()
        # Two rules that are added at once would get the same number.
        self._one_at_a_time = asyncio.Lock()
        self._clock = live_machine().clock

    async def prepare(self) -> None:
        """Send the rules that need no moment."""
        for struck in self.struck:
            if struck.strike.begin is None:
                await self._add(struck, struck.strike.words)

    async def watch(self) -> None:
        """Carry out the other faults, each at its moment. Ends when none is left."""
        waiting = [struck for struck in self.struck if struck.strike.begin is not None]
        needs_sends = any(one.strike.begin is not None and one.strike.begin.topic for one in waiting)
        while waiting:
            await (self._journals.read() if needs_sends else self._journals.read_events())
            for struck in [one for one in waiting if self._has_come(one.strike.begin)]:
                waiting.remove(struck)
                task = asyncio.create_task(self._strike(struck))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            await pause_between_looks(LOOK_MS)

    async def finish(self) -> None:
        """End all faults, and count the hits."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._count()
        try:
            await self._cluster.faults.clear()
        except StaticfireError:
            pass  # A server that doesn't answer has nothing left to break.
        for struck in self.struck:
            await self._remove(struck)

    # -- one fault -----------------------------------------------------------------------------------------------

    def _has_come(self, begin: Begin | None) -> bool:
        if begin is None:
            return True
        if not begin.topic:
            deliveries = [one for one in self._journals.events if one.kind == kinds.DELIVERED]
            found = sum(not begin.group or one.group == begin.group for one in deliveries)
        else:
            found = sum(one.code in SENDS and one.topic == begin.topic for one in self._journals.requests)
        return found > begin.count

    async def _strike(self, struck: Struck) -> None:
        strike = struck.strike
        struck.at_ms = self._clock.wall_ms()
        if strike.how == MEMBER:
            await self._join(struck)
        elif strike.how == CLIENT:
            await self._cut_off(struck)
        else:
            words = dict(strike.words)
            if "kill" in words:
                await self._kill(struck, str(words["broker"]))
            else:
                await self._add_for_its_time(struck, strike.words)
        struck.until_ms = max(struck.until_ms, self._clock.wall_ms())

    async def _add_for_its_time(self, struck: Struck, words: Sequence[tuple[str, object]]) -> None:
        """Add a rule, and remove it at its end. A server that removed it itself would forget its hits."""
        said = dict(words)
        lifetime = said.pop("lifetime", None)
        await self._add(struck, tuple(said.items()))
        if "freeze" in said:
            struck.until_ms = struck.at_ms + parse_duration(str(said["freeze"]))
        if lifetime is None or struck.problem:
            return
        await pause_between_looks(parse_duration(str(lifetime)))
        await self._count()
        await self._remove(struck)

    def _group_of(self, strike: PlannedFault) -> str:
        """Return the group of a fault: the one that joined first, if its name is a new one in each run."""
        joined_groups = [one.group for one in self._journals.events if one.kind == kinds.JOINED]
        return strike.group or (joined_groups[0] if joined_groups else "")

    async def _join(self, struck: Struck) -> None:
        strike = struck.strike
        await self._journals.read_heartbeats()
        name = self._group_of(strike)
        consumer = as_member(self._journals.heartbeats, name) or from_events(self._journals.events, name)
        if consumer is None:
            struck.problem = f"no member of {name or 'any group'} was seen"
            return
        if strike.words:
            await self._add(struck, strike.words)
        try:
            async with joined(self._cluster.addresses, consumer, CLIENT_ID):
                struck.hits = 1
                await pause_between_looks(strike.stay_ms)
        except StaticfireError as error:
            struck.problem = str(error)

    async def _cut_off(self, struck: Struck) -> None:
        name = self._group_of(struck.strike)
        group = [one.client for one in self._journals.events if one.kind == kinds.JOINED and one.group == name]
        if not group:
            struck.problem = f"no member of {name or 'any group'} was seen"
            return
        struck.client = group[0]
        words = [(name, str(value).replace(CLIENT_PLACE, group[0])) for name, value in struck.strike.words]
        await self._add_for_its_time(struck, words)

    async def _kill(self, struck: Struck, broker: str) -> None:
        """Kill a broker. When it is back, give it the rules that haven't hit."""
        await self._journals.read()
        await self._count()
        words = struck.strike.words
        self._journals.restarted(broker)
        await self._add(struck, words)
        if struck.problem:
            return
        struck.hits = 1
        while broker not in self._cluster.pids:
            await pause_between_looks(LOOK_MS)
        for other in self.struck:
            if other.numbers and not other.hits and other.strike.begin is None:
                await self._remove(other)
                await self._add(other, other.strike.words)

    # -- rules ---------------------------------------------------------------------------------------------------

    async def _add(self, struck: Struck, words: Sequence[tuple[str, object]]) -> None:
        try:
            async with self._one_at_a_time:
                added = await self._cluster.faults.add(**{**dict(words), **self._how(words)})
        except StaticfireError as error:
            struck.problem = str(error)
            return
        struck.numbers.append(added.number)
        struck.rules.add(added.number)

    @staticmethod
    def _how(words: Sequence[tuple[str, object]]) -> dict[str, object]:
        """Return what keeps a rule when the program resets its cluster, as test frameworks do between tests."""
        is_of_server = any(word in dict(words) for word in PROCESS_WORDS)
        return {} if is_of_server else {"stays": True}

    async def _remove(self, struck: Struck) -> None:
        for number in struck.numbers:
            try:
                await self._cluster.faults.remove(number)
            except StaticfireError:
                pass  # The restarted broker doesn't have it, and there is no other one.
        struck.numbers.clear()

    async def _count(self) -> None:
        """Note the hits of all rules so far."""
        try:
            views = {view.number: view.hit for view in await self._cluster.faults.all()}
        except StaticfireError as error:
            for struck in self.struck:
                struck.problem = struck.problem or f"its hits couldn't be read: {error}"
            return
        for struck in self.struck:
            if struck.strike.how == MEMBER:
                continue
            hits = sum(views.get(number, 0) for number in struck.numbers)
            is_switch = any(word in dict(struck.strike.words) for word in (*PROCESS_WORDS, "disk_full"))
            struck.hits = max(struck.hits, hits, int(is_switch and bool(struck.numbers)))
