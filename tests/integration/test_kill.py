"""A broker process is killed with SIGKILL while it stores, and started again on its folder."""

import asyncio

import pytest

from staticfire.cluster.cluster import Cluster
from staticfire.protocol.codecs import JSON, NATIVE
from staticfire.protocol.codes import RequestCode
from tests.cases import first_and_slow
from tests.integration.fuzzing import ask
from tests.integration.stand import Sender, acknowledged, read_topic

KILLS = 3
ACKNOWLEDGED_PER_KILL = 800


async def send_and_kill(cluster: Cluster, senders: dict[Sender, int]) -> None:
    """Kill the broker when enough has been acknowledged; return when the senders have noticed."""
    broker = cluster.broker("broker-a")
    async with asyncio.TaskGroup() as tasks:
        for sender, codec_byte in senders.items():
            tasks.create_task(sender.send_until_lost(broker.address, codec_byte))
        await acknowledged(senders, ACKNOWLEDGED_PER_KILL)
        await asyncio.to_thread(broker.kill)


@pytest.mark.row("F4")
@pytest.mark.parametrize("flush", first_and_slow(["SYNC_FLUSH", "ASYNC_FLUSH"]))
async def test_everything_acknowledged_is_there_after_kills(flush: str) -> None:
    # Segments of 256 KiB: kills meet logs of many files.
    settings = {"flushDiskType": flush, "mappedFileSizeCommitLog": 256 * 1024}
    senders = {Sender("json", "orders"): JSON, Sender("native", "orders"): NATIVE}
    with Cluster(isolation="process", settings=settings) as cluster:
        for _ in range(KILLS):
            await send_and_kill(cluster, senders)
            await asyncio.to_thread(cluster.broker("broker-a").restart)
        stored = await asyncio.to_thread(read_topic, cluster, "orders")

    promised = set().union(*(sender.acknowledged for sender in senders))
    assert len(promised) >= KILLS * ACKNOWLEDGED_PER_KILL
    assert promised - set(stored.bodies) == set()
    # Nobody sent twice, so nothing is there twice, and every record is one that was sent, as a whole.
    assert len(stored.bodies) == len(set(stored.bodies))
    assert all(len(body) == 40 and body.startswith(("json-", "native-")) for body in stored.bodies)


def test_a_topic_and_a_group_whose_creation_was_answered_are_there_after_a_kill() -> None:
    with Cluster(isolation="process") as cluster:
        broker = cluster.broker("broker-a")
        topic = {"topic": "made", "readQueueNums": 3, "writeQueueNums": 3, "perm": 6, "topicFilterType": "SINGLE_TAG"}
        assert ask(broker.address, RequestCode.UPDATE_AND_CREATE_TOPIC, topic)[0] == 0
        broker.kill()
        broker.restart()
        code, body = ask(broker.address, RequestCode.GET_TOPIC_CONFIG, {"topic": "made"})
        assert code == 0
        assert b'"readQueueNums":3' in body


@pytest.mark.row("F4")
async def test_a_kill_takes_nothing_from_the_other_broker() -> None:
    other = Sender("other", "orders")
    with Cluster(isolation="process", brokers=2) as cluster:
        sending = asyncio.create_task(other.send_until_lost(cluster.broker("broker-b").address, JSON))
        await send_and_kill(cluster, {Sender("killed", "orders"): NATIVE})
        await acknowledged([other], 500)
        sending.cancel()
        await asyncio.wait([sending])
        assert other.codes.keys() == {0}
