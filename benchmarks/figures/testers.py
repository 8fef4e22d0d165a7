"""Waiting times of testers: imports, help, the fixture's first use and each test, an explanation of a large cluster.

Each is measured as testers use it: in its own process, or with a cluster in a thread, as in the fixture.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TypeVar

from benchmarks.figures import Stand, Values
from benchmarks.servers import ROOT, environment
from staticfire.client import Admin, Message, Producer
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.explain.explainer import explain_group
from staticfire.cluster.cluster import Cluster

T = TypeVar("T")

RUNS = 7
TESTS = 20
TOPICS, QUEUES, GROUPS, TOPICS_OF_GROUP = 1_000, 10, 200, 5
AT_ONCE = 50

FIRST_USE = """
import time
began = time.perf_counter()
from staticfire.testing.target import target_of
target = target_of({})
target.start()
first = target.begin_test()
print((time.perf_counter() - began) * 1000)
"""


class Imports:
    """import_ms: `import staticfire` without Python's own start; help_ms: `staticfire --help`, all of it."""

    name = "imports"
    keys = ("import_ms", "help_ms")

    def measure(self, stand: Stand) -> Values:
        bare, imported, helped = [], [], []
        for _ in range(RUNS):
            bare.append(_took_ms("-c", "pass"))
            imported.append(_took_ms("-c", "import staticfire"))
            helped.append(_took_ms("-m", "staticfire", "--help"))
        return {"import_ms": median(imported) - median(bare), "help_ms": median(helped)}


class Fixture:
    """fixture_first_ms: until the first test of a process has its cluster; fixture_test_ms: for each later test."""

    name = "fixture"
    keys = ("fixture_first_ms", "fixture_test_ms")

    def measure(self, stand: Stand) -> Values:
        first = subprocess.run(
            [sys.executable, "-c", FIRST_USE], cwd=ROOT, env=environment(), capture_output=True, text=True, check=True
        )
        return {"fixture_first_ms": float(first.stdout), "fixture_test_ms": _each_test_ms()}


class BigExplain:
    """explain_ms: explain a group of a cluster with 1,000 topics, 10,000 queues and 200 groups."""

    name = "big_explain"
    keys = ("explain_ms",)

    def measure(self, stand: Stand) -> Values:
        with Cluster() as cluster:
            return {"explain_ms": asyncio.run(_explain_ms(cluster.namesrv))}


def _took_ms(*arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - began) * 1000


def _each_test_ms() -> float:
    from staticfire.testing.target import StandTarget

    target = StandTarget({})
    target.start()
    took = []
    try:
        for _ in range(TESTS):
            began = time.perf_counter()
            cluster = target.begin_test()
            took.append((time.perf_counter() - began) * 1000)
            cluster.send("orders", b"for the next one to forget")
            cluster.close()
    finally:
        target.stop()
    return median(took[1:])


async def _explain_ms(namesrv: str) -> float:
    async with Admin(namesrv) as admin, Producer("shop", client=admin.client) as producer:
        names = [f"topic-{number}" for number in range(TOPICS)]
        for some in _in_turn(names):
            await asyncio.gather(*(admin.create_topic(name, QUEUES) for name in some))
        for number in range(GROUPS):
            await admin.create_group(f"group-{number}")
        for pairs in _in_turn([(group, name) for group in range(GROUPS) for name in _topics_of(group)]):
            await asyncio.gather(*(_commit(admin, f"group-{group}", name) for group, name in pairs))
        await producer.send(Message("topic-0", b"not consumed"))
        took = []
        for _ in range(RUNS):
            began = time.perf_counter()
            await explain_group(admin, "group-0")
            took.append((time.perf_counter() - began) * 1000)
        return median(took)


def _topics_of(group: int) -> list[str]:
    return [f"topic-{(group * TOPICS_OF_GROUP + number) % TOPICS}" for number in range(TOPICS_OF_GROUP)]


async def _commit(admin: Admin, group: str, topic: str) -> None:
    for queue_id in range(QUEUES):
        await admin.offsets.commit(group, MessageQueue(topic, "broker-a", queue_id), 0)


def _in_turn(all_of_them: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield parts with as many elements as a client may have in flight."""
    for start in range(0, len(all_of_them), AT_ONCE):
        yield all_of_them[start : start + AT_ONCE]
