"""The rules of a run: their numbers, and what is left of them at its end."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from staticfire.chaos.injection import FaultInjection
from staticfire.chaos.journals import JournalTails
from staticfire.chaos.planned_fault import Begin, PlannedFault, numbered
from staticfire.launch.process_faults import FaultNotUndone
from staticfire.protocol.errors import UsageError
from staticfire.runtime.live import live_machine
from staticfire.runtime.pool import ConnectionPool


class RulesWithoutNameserver:
    """A cluster whose nameserver is frozen: each rule gets the number after the highest that the brokers have."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    async def add(self, **_: object) -> Any:
        number = len(self.numbers) + 1
        await asyncio.sleep(0)  # The brokers respond.
        if number in self.numbers:
            raise UsageError(f"rule {number} already exists")
        self.numbers.append(number)
        return SimpleNamespace(number=number)


async def test_faults_that_begin_at_the_same_moment_get_different_numbers() -> None:
    rules = RulesWithoutNameserver()
    cluster: Any = SimpleNamespace(faults=rules)
    machine = live_machine()
    pool = ConnectionPool(machine)
    faults = numbered([PlannedFault("slow", (("code", "SEND_MESSAGE"),), Begin(-1)) for _ in range(3)])
    injection = FaultInjection(cluster, JournalTails(pool, {}), faults)
    await injection.watch()
    async with asyncio.timeout(60):
        while not all(one.until_ms for one in injection.injected):  # noqa: ASYNC110
            await asyncio.sleep(0)
    await pool.close()
    await machine.workers.close()
    assert [one.problem for one in injection.injected] == ["", "", ""]
    assert sorted(rules.numbers) == [1, 2, 3]


class KilledForGood:
    """A cluster with a killed broker that can't be restarted. Other rules are removed."""

    def __init__(self) -> None:
        self.removed: list[int] = []

    async def add(self, **words: object) -> Any:
        return SimpleNamespace(number=1 if "kill" in words else 2)

    async def all(self) -> list[Any]:
        return []

    async def clear(self) -> int:
        raise FaultNotUndone("rule 1 isn't undone: broker-a: another program listens on its port")

    async def remove(self, number: int) -> None:
        if number == 1:
            await self.clear()
        self.removed.append(number)


async def test_killed_broker_that_cannot_be_restarted_is_an_error_of_the_run() -> None:
    """What its brokers saw proves nothing: the messages of one of them can't be read."""
    rules = KilledForGood()
    cluster: Any = SimpleNamespace(faults=rules)
    machine = live_machine()
    pool = ConnectionPool(machine)
    kill = PlannedFault("kill", (("broker", "broker-a"), ("kill", True)))
    injection = FaultInjection(
        cluster, JournalTails(pool, {}), numbered([kill, PlannedFault("slow", (("code", "SEND_MESSAGE"),))])
    )
    await injection.prepare()
    with pytest.raises(FaultNotUndone, match="another program listens on its port"):
        await injection.finish()
    await pool.close()
    await machine.workers.close()
    assert rules.removed == [2]
