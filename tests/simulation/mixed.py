"""A cluster with a bit of everything on it, stopped in the middle of its work, and what its brokers have then."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from staticfire.runtime.log import logged_to
from staticfire.simulation.checkers.events import MessageFound, RunEvent
from staticfire.simulation.runs.cluster import RunCluster
from staticfire.simulation.runs.observing import Observer
from staticfire.simulation.runs.record import RunRecord
from staticfire.simulation.workload import Brokers, Group, Producers, Topic, Transactions, Workload
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.running import simulate

T = TypeVar("T")

WORKLOAD = Workload(
    brokers=Brokers(2, {"message_delay_level": "1s 5s 30s", "mapped_file_size_commit_log": 64 * 1024}),
    topics=[Topic("orders", 2), Topic("payments", 1)],
    producers=[
        Producers("orders", 8),
        Producers("orders", 2, name="later", delay_level=3),
        Producers("orders", 2, name="timed", delay_ms=40_000),
        Producers("payments", 3, transactions=Transactions(0.3, 0.2)),
    ],
    groups=[
        Group("billing", ["orders", "payments"], members=2, fails=0.1),
        Group("shipping", "orders", ordered=True),
        Group("popping", "orders", popped=True, fails=0.1),
    ],
)


class Mixed:
    """The cluster, and the events and logs of its run."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self.events: list[RunEvent] = []
        self.cluster = RunCluster(world, WORKLOAD, RunRecord(self.events.append, keeps_events=False))
        self.observer = Observer(self.cluster)
        self.logged: Counter[str] = Counter()
        """What programs have logged as a warning or an error."""

    @property
    def clients(self) -> list[str]:
        """The machines of all clients."""
        return [name for name in self.cluster.names if name != "nameserver" and not name.startswith("broker")]

    async def work(self, seconds: float) -> None:
        """Let all clients work for a while; then they end at once, in the middle of it."""
        for name in self.clients:
            await self.cluster.start(name)
        await self.world.run_for(seconds=seconds)
        for name in self.clients:
            self.cluster.kill(name)

    def state(self) -> dict[str, Any]:
        """Return what brokers have: messages, offsets, how many wait for what."""
        self.events.clear()
        self.observer.note_messages()
        found = sorted(
            (event.place, event.offset, event.name) for event in self.events if isinstance(event, MessageFound)
        )
        brokers = self.cluster.brokers.items()
        return {
            "messages": found,
            "offsets": {name: sorted(broker.tables.groups.offsets.all_committed()) for name, broker in brokers},
            "delayed": {name: broker.delays.queue.waiting() for name, broker in brokers},
            "transactions": {name: len(broker.transactions) for name, broker in brokers},
            "popped": {name: sum(queue.count for queue in broker.pops.taken_by("popping")) for name, broker in brokers},
        }


def with_mixed(seed: int, scenario: Callable[[Mixed], Awaitable[T]]) -> T:
    """Run a scenario on a cluster that is up, and stop all of it in order."""
    logged: list[Mixed] = []

    def log(level: str, event: str, _: dict[str, object]) -> None:
        if level in ("warning", "error") and logged:
            logged[0].logged[event] += 1

    async def in_world(world: SimulatedWorld) -> T:
        mixed = Mixed(world)
        logged.append(mixed)
        await mixed.cluster.begin()
        result = await scenario(mixed)
        mixed.cluster.record.is_open = False
        await mixed.cluster.end()
        return result

    with logged_to(log):
        return simulate(in_world, seed)
