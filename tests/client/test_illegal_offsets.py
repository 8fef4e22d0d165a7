"""A stored offset that can't be: it is put right, and the queue starts by consume-from-where."""

from pathlib import PurePosixPath

import pytest

from staticfire.client import (
    ClientSettings,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    MessageModel,
    MessageQueue,
    PushConsumer,
    PushSettings,
)
from staticfire.client.consume.results.consume_results import Messages
from staticfire.client.offsets.local_offsets import encode_offsets
from staticfire.simulation.world import SimulatedWorld
from tests.client.peers import NAMESRV, Arrival, FakeCluster, fake_cluster
from tests.protocols import in_both_protocols

FOLDER = "/offsets"
BOTH_PROTOCOLS = in_both_protocols("client", indirect=False)


def listening(cluster: FakeCluster, settings: PushSettings) -> tuple[PushConsumer, list[bytes]]:
    heard: list[bytes] = []
    consumer = PushConsumer("billing", NAMESRV, settings, cluster.machine)
    consumer.subscribe("orders")

    @consumer.listener
    async def listen(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
        heard.extend(message.body for message in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    return consumer, heard


@BOTH_PROTOCOLS
@pytest.mark.row("R7")
@pytest.mark.parametrize("stored", [-2, -(2**63)])
async def test_a_broker_learns_that_there_is_none(world: SimulatedWorld, client: ClientSettings, stored: int) -> None:
    cluster = await fake_cluster(world, topic=None)
    cluster.route("orders", queues=1)
    cluster.brokers[0].stored["orders", 0] = [Arrival("orders", 0, b"first", b"UNIQ_KEY\x01m\x02")]
    cluster.brokers[0].stored_offset = stored
    cluster.brokers[0].holds_pulls = True
    settings = PushSettings(client=client, consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    consumer, heard = listening(cluster, settings)
    await world.start("client", consumer)
    await world.until(lambda: heard == [b"first"], within_ms=5_000)
    assert cluster.brokers[0].journal.commits[0] == (-1, True)
    await world.stop("client")


@pytest.mark.row("R7")
async def test_a_file_is_put_right(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, topic=None)
    cluster.route("orders", queues=1)
    cluster.brokers[0].stored["orders", 0] = [Arrival("orders", 0, b"first", b"UNIQ_KEY\x01m\x02")]
    cluster.brokers[0].holds_pulls = True
    client = ClientSettings(instance_name="desk", client_ip="10.0.2.1")
    settings = PushSettings(
        client=client,
        message_model=MessageModel.BROADCASTING,
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        local_offset_store_dir=FOLDER,
    )
    path = PurePosixPath(FOLDER, "10.0.2.1@desk", "billing", "offsets.json")
    files = cluster.machine.files
    files.make_folder(str(path.parent))
    files.replace(str(path), encode_offsets({MessageQueue("orders", "broker-a", 0): -7}))
    consumer, heard = listening(cluster, settings)
    await world.start("client", consumer)
    await world.until(lambda: heard == [b"first"], within_ms=5_000)
    await world.stop("client")
