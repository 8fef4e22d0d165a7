"""Two brokers have one name and are both its master.

staticfire simulate examples/replication/two_masters.py

A copied configuration file is enough. The one that registered last has the route. Messages of the other can't be read
any more, and offsets of groups belong to another log.
"""

from typing import Any

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import BROKER
from staticfire.simulation.troubles.stage import NAMESRV


async def story(stage: Stage, name: str) -> Facts:
    """Count the messages on both, and those that a new consumer gets."""
    await stage.open("orders", queues=1)
    shop = await stage.producer()
    await stage.send(shop, "orders", 10)
    settings = BrokerSettings(broker_name=name, namesrv_addr=NAMESRV, store_path_root_dir="/store")
    stage.brokers["other"] = other = Broker(stage.machine("other"), settings)
    await stage.world.start("other", other)
    await stage.run_for(seconds=61)
    await stage.send(shop, "orders", 10)
    heard: list[bytes] = []

    async def listen(messages: Any, _: Any) -> None:
        heard.extend(message.body for message in messages)

    await stage.consumer("billing", "billing", "orders", listen, skip_young_history=False)
    await stage.run_for(seconds=30)
    first, second = stage.stored("orders", BROKER), stage.stored("orders", "other")
    return {"on the first": first, "on the second": second, "delivered of 20": len(heard)}


trouble = Trouble(
    title="Two brokers have one name and are both its master",
    threads=["apache/rocketmq#6662"],
    story=story,
    ways={"the same brokerName": {"name": BROKER}, "names of their own": {"name": "broker-b"}},
)
