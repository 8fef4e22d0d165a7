"""A client is ahead of the slave: nothing is consumed until the master is back.

staticfire simulate examples/replication/ahead_of_the_slave.py

The slave is behind when the master is lost. The group has consumed what the slave doesn't have. The slave answers
OFFSET_OVERFLOW_BADLY and corrects nothing: RocketMQ's clients ask again at once, many times a second, and log nothing.
staticfire's ask once a second, and `staticfire explain billing` says why nothing comes.
"""

from typing import Any

from staticfire.client import Admin
from staticfire.client.explain.explainer import explain_group
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import MASTER, SLAVE, ReplicaPair
from staticfire.simulation.troubles.stage import NAMESRV


async def story(stage: Stage, held: bool) -> Facts:
    """Count what is consumed while the master is away, and after it."""
    pair = await ReplicaPair.open(stage, "orders")
    shop = await stage.producer()
    heard: list[bytes] = []

    async def listen(messages: Any, _: Any) -> None:
        heard.extend(message.body for message in messages)

    await stage.consumer("billing", "billing", "orders", listen)
    await stage.send(shop, "orders", 5)
    await pair.caught_up()
    if held:
        await pair.hold()
    await stage.send(shop, "orders", 20)
    await stage.world.until(lambda: len(heard) == 25, 10_000)
    pair.kill(MASTER)
    await stage.run_for(seconds=30)
    async with Admin(NAMESRV, machine=stage.machine("admin")) as admin:
        found = await explain_group(admin, "billing")
    kinds = [one.kind for one in found.findings]
    end = pair.end(SLAVE, "orders")
    return {"the group is at": 25, "the slave ends at": end, "explain finds": ", ".join(kinds)}


trouble = Trouble(
    title="A client is ahead of the slave",
    threads=["alibaba/rocketmq#395"],
    story=story,
    ways={"the slave was behind": {"held": True}, "the slave had everything": {"held": False}},
)
