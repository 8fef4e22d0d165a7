"""The client over real sockets, on the machine that it makes for itself."""

import asyncio
from pathlib import Path

from staticfire.client import Message, Producer, PullConsumer
from tests.client.live_cluster import live_cluster


async def test_messages_go_through_real_sockets_and_back(tmp_path: Path) -> None:
    async with (
        live_cluster(tmp_path) as cluster,
        Producer("shop", cluster.namesrv) as producer,
        PullConsumer("report", cluster.namesrv) as consumer,
    ):
        messages = [Message("orders", b"%d" % number, keys=f"k{number}") for number in range(1000)]
        results = await asyncio.gather(*[producer.send(message) for message in messages])
        bodies = []
        for queue in await consumer.queues("orders"):
            offset = 0
            while (pulled := await consumer.pull(queue, offset)).messages:
                bodies += [message.body for message in pulled.messages]
                offset = pulled.next_offset
    assert sorted(bodies) == sorted(message.body for message in messages)
    assert len({result.message_id for result in results}) == 1000
