"""`staticfire copy` from a real RocketMQ: what comes is what is there, once, and nothing changes in the source.

python -m tests.oracle.own_copy HOST:PORT
"""

import asyncio
import subprocess
import sys
from typing import Any

from staticfire import Cluster
from staticfire.client import Admin, ClientSettings, Message, MessageQueue, Producer, PullSettings
from staticfire.client.copying.plan import Bounds
from staticfire.client.copying.queue_copy import read_records
from staticfire.client.pull.pull_consumer import PullConsumer
from staticfire.protocol.names import TOOLS_GROUP
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.groups import GetAllGroups
from tests.oracle.patience import CLIENT, SENDS, TIMEOUT_MS

TOPIC, GROUP = "copied-orders", "copied-billing"
MESSAGES = 200


async def fill(namesrv: str) -> None:
    """Let there be messages with everything, and a group that has consumed half of them."""
    async with Producer("copy-shop", namesrv, SENDS) as producer:
        admin = Admin(client=producer.client, timeout_ms=TIMEOUT_MS)
        await admin.create_topic(TOPIC, queues=4)
        await admin.create_group(GROUP)
        for number in range(MESSAGES):
            body = b"%d " % number * (3_000 if number % 50 == 7 else 1)
            await producer.send(Message(TOPIC, body, tags="paid", keys=f"k{number}", properties={"colour": "red"}))
        for queue_id in range(4):
            queue = MessageQueue(TOPIC, "broker-a", queue_id)
            await admin.offsets.commit(GROUP, queue, await admin.max_offset(queue) // 2)


async def look(namesrv: str, settings: ClientSettings) -> dict[str, Any]:
    """Return what a cluster has of the topic and the group, and which topics and groups it has at all."""
    async with PullConsumer(TOOLS_GROUP, namesrv, PullSettings(client=settings)) as reader:
        admin = Admin(client=reader.client, timeout_ms=TIMEOUT_MS)
        (name, address), *_ = (await admin.masters()).items()
        groups: Any = await reader.client.pool.ask(address, GetAllGroups(), 5_000)
        records: list[StoredRecord] = []
        for queue in await reader.queues(TOPIC):
            async for batch in read_records(reader, queue, Bounds(0, await admin.max_offset(queue))):
                records += batch
        return {
            "messages": [
                (one.queue_id, one.queue_offset, one.properties, one.body, one.born_ms, one.born_host, one.sys_flag)
                for one in records
            ],
            "offsets": [await admin.offsets.committed(GROUP, MessageQueue(TOPIC, name, each)) for each in range(4)],
            "groups": sorted(groups.body.subscription_group_table),
            "topics": await admin.topics(),
        }


def copy(real: str, stand: str, *more: str) -> str:
    """Run the command; return what it says."""
    command = [sys.executable, "-m", "staticfire", "copy", "--from", real, "--topic", TOPIC, "-n", stand, *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_unchanged(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Fail if copying has changed the source.

    A RocketMQ registers topics and makes groups some seconds after the clients of earlier tests wanted them, and `look`
    is itself a client with a retry topic, so other names may be new; none of ours.
    """
    for what in ("messages", "offsets"):
        assert before[what] == after[what], f"copying has changed the source: {what}"
    new = {*after["topics"], *after["groups"]} - {*before["topics"], *before["groups"]}
    ours = [name for name in new if any(word in name for word in (TOPIC, GROUP))]
    assert not ours, f"copying has made these in the source: {ours}"


def main(real: str) -> None:
    """Copy, look at both, and copy again."""
    asyncio.run(fill(real))
    before = asyncio.run(look(real, CLIENT))
    with Cluster() as cluster:
        reported = copy(real, cluster.namesrv, "--group", GROUP)
        assert f"copied {MESSAGES} messages of {TOPIC}, 4 queues" in reported, reported
        here = asyncio.run(look(cluster.namesrv, ClientSettings()))
        assert here["messages"] == before["messages"]
        assert len(here["messages"]) == MESSAGES
        assert here["offsets"] == before["offsets"]
        again = copy(real, cluster.namesrv)
        assert f"copied 0 messages of {TOPIC}, 4 queues; {MESSAGES} existed already" in again, again
        assert asyncio.run(look(cluster.namesrv, ClientSettings()))["messages"] == here["messages"]
        refused = subprocess.run(
            [sys.executable, "-m", "staticfire", "copy", "--from", real, "--topic", "nope", "-n", cluster.namesrv],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert refused.returncode != 0
        assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr
    check_unchanged(before, asyncio.run(look(real, CLIENT)))
    print(f"own_copy: {MESSAGES} messages and a group's offsets as they are, once; the source is as it was")


if __name__ == "__main__":
    main(sys.argv[1])
