"""What protection of a group does: a member that flaps, and rolling restarts of five members, with it and without.

    python examples/groups/protection.py

Everything runs on virtual time: a broker, five members that take 100 ms for each message, a program that sends 25
messages a second to 20 queues. It prints for each story

    changed shares   how often a member was given other queues than before
    delivered twice  messages that a listener got more than once
    longest wait     from the sending of a message to the listener that got it first: what a take-over costs at worst

The table in docs/groups.md comes from here (`make docs ALL=1`).
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.client import (
    Admin,
    ClientSettings,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.loop import JumpingLoop

NAMESRV = "10.0.0.1:9876"
TOPIC, GROUP, QUEUES = "orders", "billing", 20
MEMBERS = ("one", "two", "three", "four", "five")
SEND_MS, LISTEN_MS = 40, 100
STABLE_MS, GRACE_MS = 30_000, 10_000
AWAY_S = 3
# How long a process is gone that is restarted.
SETTLED_S = 35
# Until all members are stable, and at the end until everything is consumed.


@dataclass
class Stage:
    """A cluster, a group of five, and what came of it."""

    world: SimulatedWorld
    has_names: bool
    """Members have an instance name, and so the same client id after a restart."""
    changed_shares: int = 0
    heard: Counter[bytes] = field(default_factory=Counter)
    sent_ms: dict[bytes, int] = field(default_factory=dict)
    longest_wait_ms: int = 0

    async def open(self, is_protected: bool) -> None:
        """Start nameserver, broker and members, and wait until these are stable."""
        machine = self.world.machine("namesrv", host="10.0.0.1")
        await self.world.start("namesrv", Nameserver(machine, NameserverSettings()))
        settings = BrokerSettings(
            namesrv_addr=NAMESRV,
            store_path_root_dir="/store",
            stable_time_ms=STABLE_MS if is_protected else 0,
            grace_time_ms=GRACE_MS if is_protected else 0,
        )
        await self.world.start("broker", Broker(self.world.machine("broker", host="10.0.0.2"), settings))
        async with Admin(NAMESRV, machine=self.world.machine("admin", host="10.0.0.3")) as admin:
            await admin.create_topic(TOPIC, queues=QUEUES)
        for name in MEMBERS:
            await self.start(name)
        await asyncio.sleep(SETTLED_S)
        self.changed_shares = 0

    async def start(self, name: str) -> None:
        """Start a member's process."""
        client = ClientSettings(instance_name=name if self.has_names else "DEFAULT")
        settings = PushSettings(client=client, consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
        machine = self.world.machine(name, host=f"10.0.1.{1 + MEMBERS.index(name)}")
        consumer = PushConsumer(GROUP, NAMESRV, settings, machine)
        consumer.subscribe(TOPIC)
        consumer.listener(self._listen)
        consumer.on_queues_changed(self._changed)
        await self.world.start(name, consumer)

    async def _listen(self, messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
        for message in messages:
            if not self.heard[message.body]:
                wait_ms = self.world.uptime_ms - self.sent_ms[message.body]
                self.longest_wait_ms = max(self.longest_wait_ms, wait_ms)
            self.heard[message.body] += 1
        await asyncio.sleep(LISTEN_MS / 1000)
        return ConsumeStatus.CONSUME_SUCCESS

    def _changed(self, topic: str, _: list[MessageQueue], __: list[MessageQueue]) -> None:
        self.changed_shares += topic == TOPIC

    async def send(self, is_over: asyncio.Event) -> None:
        """Send until it is over."""
        machine = self.world.machine("shop", host="10.0.0.4")
        async with Producer("shop", NAMESRV, machine=machine) as producer:
            while not is_over.is_set():
                body = b"%d" % len(self.sent_ms)
                self.sent_ms[body] = self.world.uptime_ms
                await producer.send(Message(TOPIC, body))
                await asyncio.sleep(SEND_MS / 1000)

    def outcome(self) -> list[str]:
        """Return a summary of it. Raises: AssertionError when a message was lost."""
        assert self.heard.keys() == self.sent_ms.keys(), "a message was lost"
        twice = sum(1 for times in self.heard.values() if times > 1)
        return [str(self.changed_shares), str(twice), f"{self.longest_wait_ms / 1000:.2f} s"]


async def flap(stage: Stage) -> None:
    """One of the five is killed six times."""
    for _ in range(6):
        stage.world.kill("five")
        await asyncio.sleep(AWAY_S)
        await stage.start("five")
        await asyncio.sleep(AWAY_S)


async def restart_by_kill(stage: Stage) -> None:
    """Each of the five is killed and started again, one after the other."""
    for name in MEMBERS:
        stage.world.kill(name)
        await asyncio.sleep(AWAY_S)
        await stage.start(name)
        await asyncio.sleep(AWAY_S)


async def restart_in_order(stage: Stage) -> None:
    """Each of the five stops, unregisters, and is started again, one after the other."""
    for name in MEMBERS:
        await stage.world.stop(name)
        await asyncio.sleep(AWAY_S)
        await stage.start(name)
        await asyncio.sleep(AWAY_S)


Story = Callable[[Stage], Awaitable[None]]
NEW, SAME, EITHER = "new ones", "the same", "either"
STORIES: list[tuple[str, Story, str]] = [
    ("one flaps: six times killed, back after 3 s", flap, NEW),
    ("one flaps: six times killed, back after 3 s", flap, SAME),
    ("rolling restart: each killed, back after 3 s", restart_by_kill, NEW),
    ("rolling restart: each killed, back after 3 s", restart_by_kill, SAME),
    ("rolling restart: each stopped, back after 3 s", restart_in_order, EITHER),
]
"""What happens, and which client ids the restarted processes have."""


async def play(story: Story, has_names: bool, is_protected: bool) -> list[str]:
    """Return what came of a story."""
    async with SimulatedWorld() as world:
        stage = Stage(world, has_names)
        await stage.open(is_protected)
        is_over = asyncio.Event()
        sending = asyncio.create_task(stage.send(is_over))
        await story(stage)
        await asyncio.sleep(AWAY_S)
        is_over.set()
        await sending
        await asyncio.sleep(SETTLED_S)
        return stage.outcome()


def rows() -> list[list[str]]:
    """Return the table, its headings first."""
    table = [["what happens", "client ids", "protection", "changed shares", "delivered twice", "longest wait"]]
    for words, story, ids in STORIES:
        for is_protected in (False, True):
            loop = JumpingLoop()
            try:
                outcome = loop.run_until_complete(play(story, ids == SAME, is_protected))
            finally:
                loop.close()
            table.append([words, ids, "on" if is_protected else "off", *outcome])
    return table


def main() -> None:
    """Print the table."""
    os.environ.setdefault("STATICFIRE_LOG_LEVEL", "error")  # Each kill would be logged.
    table = rows()
    if "--markdown" in sys.argv:
        for row in [table[0], ["---"] * len(table[0]), *table[1:]]:
            print(f"| {' | '.join(row)} |")
        return
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
