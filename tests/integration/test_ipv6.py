"""A cluster that is reached over IPv6, and over both."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.client import (
    Admin,
    ClientSettings,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.hosts import host_text
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.requests.connections import GetConsumerConnections
from staticfire.protocol.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from staticfire.runtime.live import live_machine
from tests.integration.fuzzing import ask
from tests.protocol.rocketmq_answers import split_rocketmq

SETTINGS = {protocol: ClientSettings(protocol=protocol) for protocol in ("staticfire", "rocketmq")}
FIRST = ConsumeFromWhere.FIRST_OFFSET
V6 = BORN_HOST_V6 | STORE_HOST_V6

Cluster = Callable[[str], AbstractAsyncContextManager[int]]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """A nameserver and a broker that listen at a host; the nameserver's port."""

    @asynccontextmanager
    async def run(host: str) -> AsyncIterator[int]:
        machine = live_machine()
        async with Nameserver(machine, NameserverSettings(listen_host=host, listen_port=0)) as nameserver:
            settings = BrokerSettings(
                listen_host=host,
                listen_port=0,
                namesrv_addr=f"[::1]:{nameserver.port}",
                store_path_root_dir=str(tmp_path),
                vip_port_enable=False,
            )
            async with Broker(machine, settings):
                yield nameserver.port
        await machine.workers.close()

    return run


@pytest.mark.parametrize("protocol", SETTINGS)
@pytest.mark.parametrize("listen_host", ["::1", "0.0.0.0"])
async def test_everything_goes_over_ipv6(cluster: Cluster, listen_host: str, protocol: str) -> None:
    heard: list[ReceivedMessage] = []
    done = asyncio.Event()
    async with cluster(listen_host) as port:
        namesrv, client = f"[::1]:{port}", SETTINGS[protocol]
        async with (
            Producer("shop", namesrv, ProducerSettings(client=client)) as producer,
            Admin(client=producer.client) as admin,
        ):
            sent = await producer.send(Message("orders", b"over IPv6"))
            [address] = (await admin.masters()).values()
            assert address.startswith("[::1]:")
            host, position = parse_offset_id(sent.offset_message_id)
            assert (len(sent.offset_message_id), host_text(host)) == (56, address)

            consumer = PushConsumer("billing", namesrv, PushSettings(client=client, consume_from_where=FIRST))
            consumer.subscribe("orders")

            @consumer.listener
            async def listen(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
                heard.extend(messages)
                done.set()
                return ConsumeStatus.CONSUME_SUCCESS

            async with consumer:
                await done.wait()
                members = await producer.client.pool.ask(address, GetConsumerConnections("billing"))
        [message] = heard
        assert (message.body, message.offset_message_id) == (b"over IPv6", sent.offset_message_id)
        assert message.born_host.startswith("[::1]:")
        assert message.store_host == address
        assert members.body.connection_set[0].client_addr.startswith("[::1]:")

        view = partial(ask, address, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
        code, body = await asyncio.to_thread(view)
        assert code == 0
        assert int.from_bytes(body[36:40], "big") & V6 == V6
        [(record, store_host)] = split_rocketmq(body)
        assert (record.body, store_host, len(record.born_host)) == (b"over IPv6", host, 20)


async def test_one_port_for_both(cluster: Cluster) -> None:
    async with cluster("0.0.0.0") as port:
        for loopback, id_chars in (("127.0.0.1", 32), ("[::1]", 56)):
            async with Producer("shop", f"{loopback}:{port}") as producer, Admin(client=producer.client) as admin:
                sent = await producer.send(Message("orders", b"x"))
                [address] = (await admin.masters()).values()
                assert address.startswith(f"{loopback}:")
                assert len(sent.offset_message_id) == id_chars
                host, _ = parse_offset_id(sent.offset_message_id)
                assert host_text(host) == address
