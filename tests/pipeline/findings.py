"""What a look into consumption found, made by hand, for tests of the page."""

from staticfire.pipeline.consumption.findings import (
    Cause,
    ConsumptionFindings,
    DelayLevel,
    LagMoment,
    MemberShare,
    Overlap,
    Pair,
    QueueHolding,
    QueueShare,
    Rebalance,
    Stuck,
)
from tests.pipeline.answers import ANSWERS

QUEUE = "orders broker-a 0"
FINDINGS = ConsumptionFindings(
    told_by="traces",
    has_journal=True,
    began="2026-01-01T00:00:00.000Z",
    ended_ms=9_000,
    pairs=(
        Pair("billing", "orders", 100, 98, 2, 1, 97, 10.0, 20.0, 30.0, 40.0),
        Pair("mailing", "orders", 100, 0, 0, 0, 0, None, None, None, None),
    ),
    answers={("billing", "orders"): ANSWERS, ("mailing", "orders"): ANSWERS},
    holdings=(
        QueueHolding("billing", QUEUE, "one", 0, 4_000),
        QueueHolding("billing", QUEUE, "two<b>%{x}", 5_000, None),
        QueueHolding("mailing", QUEUE, "three", 0, None),
    ),
    holdings_left_out=7,
    rebalances=(Rebalance("billing", 5_000, 1, 1, 12, "one left (connection lost)"),),
    delays=(DelayLevel(3, 10_000, 2, 0, 1.0, 2.0, 2.0),),
    lag=tuple(LagMoment("billing", "orders", 100 * at, 10, 9, at) for at in range(5)),
    members=(MemberShare("billing", "one", 60, 58, 2, 0, 60.0, 4),),
    queues=(QueueShare("billing", QUEUE, 50, 49, 50.0, 30.0),),
    stuck=(Stuck("mailing", "orders", "waits", 100, "2026-01-01 00:00:00.000", "m1 m2"),),
    causes=(Cause("billing", "orders", "the queue changed its owner", 1),),
    overlaps=(Overlap("billing", QUEUE, 2, 11),),
)
