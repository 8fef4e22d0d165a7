"""`--each` as an assertion, for the tests that `staticfire chaos` writes."""

from typing import TYPE_CHECKING

from staticfire.chaos.connections import connections
from staticfire.chaos.each import check_each, no_match, parse_each
from staticfire.chaos.evidence import Evidence
from staticfire.chaos.journals import JournalTails
from staticfire.chaos.stored import read_stored
from staticfire.client import ClientSettings
from staticfire.runtime.loop_thread import LoopThread

if TYPE_CHECKING:
    from staticfire.cluster.cluster import Cluster


def assert_each(cluster: "Cluster", condition: str) -> None:
    """Check a condition like `orders -> invoices by key` on a cluster. See docs/chaos.md.

    Raises: AssertionError, UsageError (the condition isn't understood), NetworkError.
    """
    each = parse_each(condition)
    thread = LoopThread("assert_each")
    try:
        evidence = thread.call(_observed(cluster, cluster._thread_and_object()[1].client_settings))
    finally:
        thread.close()
    why = no_match(each, evidence)
    problems = [why] if why else [line for one in check_each(each, evidence) for line in (one.words, *one.evidence)]
    if problems:
        raise AssertionError("\n".join([condition, *problems]))


async def _observed(cluster: "Cluster", settings: ClientSettings) -> Evidence:
    async with connections(settings) as pool:
        tails = JournalTails(pool, cluster.addresses)
        await tails.read()
        return Evidence(*tails.in_order(), await read_stored(cluster.namesrv, settings), 0)
