"""Sends whose status isn't SEND_OK, although the message is stored: programs that misread it."""

from collections import Counter

from staticfire import AsyncCluster, Cluster, Message, Producer, SendStatus
from staticfire.chaos.each import check_each, parse_each
from staticfire.chaos.evidence import Evidence
from staticfire.chaos.injection import FaultInjection
from staticfire.chaos.journals import JournalTails
from staticfire.chaos.kinds import ROUGH, STATUSES
from staticfire.chaos.planned_fault import PlannedFault, rule
from staticfire.chaos.stored import read_stored
from staticfire.chaos.usage import Usage
from staticfire.chaos.weather import plan
from staticfire.runtime.live import live_machine
from staticfire.runtime.pool import ConnectionPool

STATUS = rule(
    "status", code="SEND_MESSAGE", topic="invoices", answer="FLUSH_DISK_TIMEOUT", direction="answer", after=1, times=1
)
EACH = parse_each("orders -> invoices by property order")


def test_each_status_is_drawn_and_never_for_a_half_message() -> None:
    usage = Usage(Counter({"orders": 9, "steps": 9}), {}, 3, {"steps"}, ("broker-a",))
    faults = [one for seed in range(200) for one in plan(seed, usage, ROUGH) if one.kind == "status"]
    words = [dict(one.words) for one in faults]
    assert {one["answer"] for one in words} == set(STATUSES)
    assert {one["topic"] for one in words} == {"orders"}


async def invoices(cluster: AsyncCluster, is_fixed: bool) -> None:
    """Send an invoice for each order. The wrong program makes a new one if the status isn't SEND_OK."""
    async with Producer("shop", cluster.namesrv) as shop:
        for number in range(3):
            named = {"order": f"order-{number}"}
            await shop.send(Message("orders", b"1 book", properties=named))
            result = await shop.send(Message("invoices", b"please pay", keys=f"invoice-{number}", properties=named))
            if result.status is not SendStatus.SEND_OK and not is_fixed:
                await shop.send(Message("invoices", b"please pay", keys=f"new-{number}", properties=named))


async def doubled(faults: list[PlannedFault], is_fixed: bool) -> list[str]:
    async with Cluster() as cluster:
        machine = live_machine()
        pool = ConnectionPool(machine)
        tails = JournalTails(pool, cluster.addresses)
        injection = FaultInjection(cluster, tails, faults)
        await injection.prepare()
        await invoices(cluster, is_fixed)
        await injection.finish()
        await tails.read()
        await pool.close()
        await machine.workers.close()
        assert [one.hits for one in injection.injected] == [1 for _ in faults]
        evidence = Evidence(*tails.in_order(), await read_stored(cluster.namesrv), 0, injected=injection.injected)
        return [line for one in check_each(EACH, evidence) for line in one.evidence]


async def test_program_that_takes_a_stored_message_for_a_failed_one_is_found() -> None:
    (line,) = await doubled([STATUS], is_fixed=False)
    assert line.startswith("order-1: 2 messages")
    assert await doubled([], is_fixed=False) == []
    assert await doubled([STATUS], is_fixed=True) == []
