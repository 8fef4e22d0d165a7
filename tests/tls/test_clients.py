"""Our clients through TLS: sends, consumers, fault rules, recorded requests, slow readers, the fixture's client."""

import asyncio
import socket
import ssl
from collections.abc import Iterator

import pytest

from staticfire.client import (
    Admin,
    ClientSettings,
    ConsumeContext,
    ConsumeStatus,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.cluster.cluster import Cluster
from staticfire.pipeline.options import parse_options
from staticfire.protocol.codecs import JSON, codec_for
from staticfire.protocol.errors import NetworkError, UsageError
from staticfire.protocol.requests.routes import GetKVConfig, PutKVConfig
from staticfire.runtime.addresses import parse_address
from staticfire.runtime.tls.settings import TlsClient
from staticfire.testing.target import StandTarget
from tests.protocols import PROTOCOLS
from tests.tls.stand import HOST, Authority, nameserver, serving, trusting

pytestmark = pytest.mark.row("G6")

BIG_BYTES = 16 * 1024
BIG_REQUESTS = 2_000


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[Cluster]:
    files = authority.issue("server")
    settings = {
        "tls.server.mode": "enforcing", "tls.server.certPath": files.cert, "tls.server.keyPath": files.key,
        "tls.client.trustCertPath": authority.path,
    }  # fmt: skip
    with Cluster(settings=settings) as cluster:
        yield cluster


@pytest.fixture
def client(authority: Authority) -> ClientSettings:
    return ClientSettings(tls={"tls.client.trustCertPath": authority.path})


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_what_is_sent_is_consumed(cluster: Cluster, authority: Authority, protocol: str) -> None:
    client = ClientSettings(protocol=protocol, tls={"tls.client.trustCertPath": authority.path})  # type: ignore[arg-type]
    topic, heard, wanted = f"orders-{protocol}", asyncio.Queue[bytes](), {b"x" * size for size in (1, 100, 100_000)}
    consumer = PushConsumer(f"billing-{protocol}", cluster.namesrv, PushSettings(client=client))
    consumer.subscribe(topic)

    @consumer.listener
    async def listen(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
        for message in messages:
            heard.put_nowait(message.body)
        return ConsumeStatus.CONSUME_SUCCESS

    async with Producer("shop", cluster.namesrv, ProducerSettings(client=client)) as producer, consumer:
        await producer.send_many([Message(topic, body) for body in sorted(wanted)])
        assert {await heard.get() for _ in wanted} == wanted


def test_without_asyncio_too(cluster: Cluster, client: ClientSettings) -> None:
    with Producer("shop", cluster.namesrv, ProducerSettings(client=client)) as producer:
        assert producer.send(Message("blocking", b"1")).queue_offset == 0
    with pytest.raises(NetworkError), Producer("shop", cluster.namesrv) as producer:
        producer.send(Message("blocking", b"2"))


async def test_fault_rules_apply_and_requests_are_recorded(cluster: Cluster, client: ClientSettings) -> None:
    async with Producer("shop", cluster.namesrv, ProducerSettings(client=client)) as producer:
        await producer.send(Message("faulty", b"1"))
        rule = await asyncio.to_thread(
            cluster.faults.add, code="SEND_MESSAGE", delay="5ms", direction="answer", times=1
        )
        result = await producer.send(Message("faulty", b"2"))
        assert result.queue_offset >= 0
        [view] = await asyncio.to_thread(cluster.faults.all)
        assert sum(view.hits.values()) == 1, "the response has passed the rule"
        await asyncio.to_thread(cluster.faults.remove, rule.number)
    async with Admin(cluster.namesrv, client) as admin:
        requests = await admin.requests(topic="faulty")
    assert requests, "what was received is recorded as plain frames"


def test_the_fixtures_client_follows_the_cluster(authority: Authority) -> None:
    target = StandTarget({"settings": {"tls.server.mode": "enforcing"}})
    target.start()
    try:
        rocketmq = target.begin_test()
        try:
            rocketmq.send("orders", b"1")
            assert [message.body for message in rocketmq.messages("orders")] == [b"1"]
        finally:
            rocketmq.close()
    finally:
        target.stop()


def test_the_control_endpoint_reaches_the_cluster(cluster: Cluster, authority: Authority) -> None:
    import urllib.request

    context = ssl.create_default_context(cafile=authority.path)
    with urllib.request.urlopen(f"{cluster.control}/topics", context=context, timeout=60) as answer:
        assert answer.status == 200


async def test_a_client_that_reads_nothing_is_read_no_further(authority: Authority) -> None:
    """Behind TLS, too, the server stops to read when its responses aren't taken, and goes on when they are."""
    async with nameserver(**serving(authority.issue("slow"))) as server:
        json = codec_for(JSON)
        reader, writer = await asyncio.open_connection(
            HOST, server.port, ssl=trusting(), server_hostname=HOST, limit=64 * 1024
        )
        writer.write(json.encode_request(PutKVConfig("a", "b", "x" * BIG_BYTES), 0, False))
        writer.write(
            b"".join(json.encode_request(GetKVConfig("a", "b"), number, False) for number in range(BIG_REQUESTS))
        )
        await writer.drain()
        received = 0
        for _ in range(BIG_REQUESTS + 1):
            size = int.from_bytes(await reader.readexactly(4), "big")
            received += len(await reader.readexactly(size))
        assert received > BIG_REQUESTS * BIG_BYTES
        writer.close()


def test_sparks_options(authority: Authority) -> None:
    given = {"nameServer": "a:1", "subscribe": "t", "tls.client.trustCertPath": authority.path}
    assert parse_options(given, {}).tls == TlsClient(authority.path)
    assert parse_options({**given, "tls.enable": "false"}, {}).tls is False
    assert parse_options({"nameServer": "a:1", "subscribe": "t"}, {}).tls is None
    with pytest.raises(UsageError, match=r"tls.client.trustPath is not an option"):
        parse_options({**given, "tls.client.trustPath": "x"}, {})


def test_connections_without_a_first_byte_end_with_the_cluster() -> None:
    with Cluster() as cluster:
        host, port = parse_address(cluster.control.partition("://")[2])
        silent, half_open = socket.create_connection((host, port)), socket.create_connection((host, port))
        half_open.sendall(b"\x16\x03\x01")
        with socket.create_connection((host, port)) as served:
            served.sendall(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert served.recv(12) == b"HTTP/1.0 200", "after the others were accepted"
    for one in (silent, half_open):
        with one:
            one.settimeout(10)
            try:
                assert one.recv(1) == b""
            except ConnectionResetError:
                continue  # It was aborted.
