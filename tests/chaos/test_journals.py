"""The journals of a run are read completely and once, by several readers, across restarts."""

import asyncio
from types import SimpleNamespace
from typing import Any

from staticfire.chaos.injection import FaultInjection
from staticfire.chaos.journals import EVENTS, JournalTails
from staticfire.chaos.planned_fault import Begin, PlannedFault, numbered
from staticfire.protocol.requests.journal import GetJournal, JournalAnswer, JournalPage, JournalRecord

PAGE = 2


class OneBroker:
    """The journal of broker-a, in pages of two records. It is the pool of its readers, and the cluster."""

    def __init__(self) -> None:
        self.records: list[JournalRecord] = []
        self.answers_until = 1_000
        """Later requests get no response."""
        self.is_silent = asyncio.Event()
        self.tails = JournalTails(self, {"broker-a": "10.0.0.1:10911"})  # type: ignore[arg-type]
        self.faults: Any = self
        self.pids = {"broker-a": 1}

    def record(self, count: int, real_ms: int) -> None:
        for _ in range(count):
            self.records.append(JournalRecord(len(self.records) + 1, "broker-a", "delivered", 0, real_ms))

    async def ask(self, address: str, request: GetJournal, timeout_ms: int) -> JournalAnswer:
        await asyncio.sleep(0)  # Another reader gets its turn.
        self.answers_until -= 1
        if self.answers_until < 0:
            self.is_silent.set()
            await asyncio.Event().wait()
        if request.kinds != EVENTS:
            return JournalAnswer(body=JournalPage())
        found = self.records[request.first_number - 1 :][:PAGE]
        next_number = request.first_number + len(found)
        return JournalAnswer(body=JournalPage(found, next_number, next_number > len(self.records)))

    async def add(self, **_: object) -> Any:
        """Kill the broker while another task reads its journal. Its next process begins a new one."""
        await self.tails.read_events()
        self.records = []
        return SimpleNamespace(number=1)

    async def all(self) -> list[Any]:
        return []

    def numbers(self) -> list[tuple[int, int]]:
        return [(one.real_ms, one.number) for one in self.tails.events]


async def test_readers_at_the_same_time_read_each_record_once() -> None:
    broker = OneBroker()
    broker.record(5, real_ms=1)
    await asyncio.gather(broker.tails.read_events(), broker.tails.read(), broker.tails.read_events())
    assert broker.numbers() == [(1, number) for number in range(1, 6)]


async def test_read_that_is_cancelled_loses_no_record() -> None:
    broker = OneBroker()
    broker.record(5, real_ms=1)
    broker.answers_until = 2
    reading = asyncio.create_task(broker.tails.read_events())
    await asyncio.wait_for(broker.is_silent.wait(), 60)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    broker.answers_until = 1_000
    await broker.tails.read_events()
    assert broker.numbers() == [(1, number) for number in range(1, 6)]


async def test_killed_broker_is_read_to_its_end_and_its_next_process_from_the_beginning() -> None:
    broker = OneBroker()
    broker.record(5, real_ms=1)
    kill = PlannedFault("kill", (("broker", "broker-a"), ("kill", "1s")), Begin(-1))
    injection = FaultInjection(broker, broker.tails, numbered([kill]))  # type: ignore[arg-type]
    await injection.watch()
    async with asyncio.timeout(60):
        while not injection.injected[0].until_ms:  # noqa: ASYNC110
            await asyncio.sleep(0)
    broker.record(7, real_ms=2)
    await broker.tails.read_events()
    assert broker.numbers() == [(1, number) for number in range(1, 6)] + [(2, number) for number in range(1, 8)]
    assert broker.tails.gaps == {"broker-a"}
