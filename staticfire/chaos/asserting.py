"""`--each` as an assertion, for the tests that `staticfire chaos` writes."""

from typing import TYPE_CHECKING

from staticfire.chaos.each import check_each, no_match, parse_each
from staticfire.chaos.evidence import Evidence
from staticfire.chaos.journals import JournalTails
from staticfire.chaos.stored import read_stored
from staticfire.runtime.live import live_machine
from staticfire.runtime.loop_thread import LoopThread
from staticfire.runtime.pool import ConnectionPool

if TYPE_CHECKING:
    from staticfire.cluster.cluster import Cluster


def assert_each(cluster: "Cluster", condition: str) -> None:
    """Check a condition like `orders -> invoices by key` on a cluster. See docs/chaos.md.

    Raises: AssertionError, UsageError (the condition isn't understood), NetworkError.
    """
    each = parse_each(condition)
    thread = LoopThread("assert_each")
    try:
        evidence = thread.call(_observed(cluster.namesrv, cluster.addresses))
    finally:
        thread.close()
    why = no_match(each, evidence)
    problems = [why] if why else [line for one in check_each(each, evidence) for line in (one.words, *one.evidence)]
    if problems:
        raise AssertionError("\n".join([condition, *problems]))


async def _observed(namesrv: str, addresses: dict[str, str]) -> Evidence:
    machine = live_machine()
    pool = ConnectionPool(machine)
    try:
        tails = JournalTails(pool, addresses)
        await tails.read()
        return Evidence(*tails.in_order(), await read_stored(namesrv), 0)
    finally:
        await pool.close()
        await machine.workers.close()
