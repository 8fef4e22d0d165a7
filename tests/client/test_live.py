"""The client over real sockets, on the machine that it makes for itself."""

import asyncio
from pathlib import Path

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.client import Message, Producer, PullConsumer
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.runtime.live import live_machine


async def test_messages_go_through_real_sockets_and_back(tmp_path: Path) -> None:
    machine = live_machine()
    async with Nameserver(machine, NameserverSettings(listen_host="127.0.0.1", listen_port=0)) as nameserver:
        namesrv = f"127.0.0.1:{nameserver.port}"
        settings = BrokerSettings(
            listen_host="127.0.0.1",
            listen_port=0,
            namesrv_addr=namesrv,
            store_path_root_dir=str(tmp_path),
            vip_port_enable=False,
        )
        async with (
            Broker(machine, settings),
            Producer("shop", namesrv) as producer,
            PullConsumer("report", namesrv) as consumer,
        ):
            messages = [Message("orders", b"%d" % number, keys=f"k{number}") for number in range(1000)]
            results = await asyncio.gather(*[producer.send(message) for message in messages])
            bodies = []
            for queue in await consumer.queues("orders"):
                offset = 0
                while (pulled := await consumer.pull(queue, offset)).messages:
                    bodies += [message.body for message in pulled.messages]
                    offset = pulled.next_offset
    await machine.workers.close()
    assert sorted(bodies) == sorted(message.body for message in messages)
    assert len({result.message_id for result in results}) == 1000
