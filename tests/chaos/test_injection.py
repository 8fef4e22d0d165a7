"""The numbers of rules that are added while no nameserver responds to a request for the next one."""

import asyncio
from types import SimpleNamespace
from typing import Any

from staticfire.chaos.injection import FaultInjection
from staticfire.chaos.journals import JournalTails
from staticfire.chaos.planned_fault import Begin, PlannedFault, numbered
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
