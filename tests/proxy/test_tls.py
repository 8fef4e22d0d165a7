"""TLS and plain text on one port, on the real network."""

import asyncio
import ssl
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.proxy.transport.endpoint import GrpcEndpoint
from staticfire.runtime.live import live_machine
from staticfire.runtime.tls import port as tls_port
from staticfire.runtime.tls.contexts import server_context
from staticfire.runtime.tls.settings import TlsSettings
from tests.proxy.h2_client import EchoService, H2Client, a_send
from tests.tls.stand import trusting as old_client

pytestmark = pytest.mark.row("G3")

HOST = "127.0.0.1"


@pytest_asyncio.fixture
async def endpoint() -> AsyncIterator[GrpcEndpoint]:
    machine = live_machine()
    endpoint = GrpcEndpoint(machine, EchoService().methods)
    await endpoint.listen(HOST, 0)
    yield endpoint
    await endpoint.close()
    await machine.workers.close()


async def connect(endpoint: GrpcEndpoint, context: ssl.SSLContext | None = None, name: str | None = None) -> H2Client:
    loop = asyncio.get_running_loop()
    client = H2Client()
    await loop.create_connection(lambda: client, HOST, endpoint.port, ssl=context, server_hostname=name)
    return client


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


async def test_tls_and_plain_text_share_the_port(endpoint: GrpcEndpoint) -> None:
    clients = [await connect(endpoint, trusting(), HOST), await connect(endpoint), await connect(endpoint, trusting())]
    for client in clients:
        answer = await client.call("SendMessage", a_send(b"x" * 5_000_000))
        assert answer.status == 0
    assert clients[0].transport.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
async def test_the_certificate_holds_for_who_checks_it(endpoint: GrpcEndpoint, name: str) -> None:
    seen = await connect(endpoint, trusting(), name)
    certificate = seen.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    checking = ssl.create_default_context(cadata=certificate)
    client = await connect(endpoint, checking, name)
    assert (await client.call("SendMessage", a_send())).status == 0


async def test_who_doesnt_trust_the_certificate_is_logged(
    endpoint: GrpcEndpoint, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        await connect(endpoint, ssl.create_default_context(), "localhost")
    assert (await (await connect(endpoint)).call("SendMessage", a_send())).status == 0
    assert "it may have rejected the certificate" in capfd.readouterr().err


@pytest.mark.parametrize("is_tls", [False, True])
async def test_http_1_is_answered(endpoint: GrpcEndpoint, is_tls: bool) -> None:
    reader, writer = await asyncio.open_connection(HOST, endpoint.port, ssl=trusting() if is_tls else None)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await reader.read(1_000)
    assert answer.startswith(b"HTTP/1.1 505 ")
    assert b"gRPC endpoint" in answer
    writer.close()


async def test_spoilt_tls_is_a_line_in_the_log(endpoint: GrpcEndpoint, capfd: pytest.CaptureFixture[str]) -> None:
    reader, writer = await asyncio.open_connection(HOST, endpoint.port)
    writer.write(b"\x16\x03\x01\x00\x05hello")
    await reader.read()
    writer.close()
    assert (await (await connect(endpoint, trusting())).call("SendMessage", a_send())).status == 0
    assert 'reason="TLS: ' in capfd.readouterr().err


def test_a_client_cant_have_a_session_negotiated_again() -> None:
    assert server_context(TlsSettings()).options & ssl.OP_NO_RENEGOTIATION


async def test_the_end_of_a_session_is_announced(endpoint: GrpcEndpoint) -> None:
    """Without a close_notify, OpenSSL reports an unexpected end: somebody may have cut the connection."""
    reader, writer = await asyncio.open_connection(HOST, endpoint.port)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = trusting().wrap_bio(incoming, outgoing)
    while True:
        try:
            session.do_handshake()
            break
        except ssl.SSLWantReadError:
            writer.write(outgoing.read())
            incoming.write(await reader.read(16_384))
    session.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    writer.write(outgoing.read())
    incoming.write(await reader.read())
    incoming.write_eof()
    assert session.read(1_000).startswith(b"HTTP/1.1 505 ")
    assert session.read(1_000) == b"", "an SSLEOFError otherwise"
    writer.close()


async def answered(endpoint: GrpcEndpoint, context: ssl.SSLContext | None) -> bool:
    """Return whether the endpoint responds to the beginning of HTTP/2."""
    try:
        reader, writer = await asyncio.open_connection(HOST, endpoint.port, ssl=context)
    except (OSError, ssl.SSLError):
        return False
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
    first = await reader.read(1)
    writer.close()
    return first != b""


@pytest.mark.parametrize(
    ("mode", "takes_plain", "takes_tls", "words"),
    [
        ("enforcing", False, True, "plain text on an enforcing port"),
        ("disabled", True, False, "TLS on a port where tls.server.mode=disabled"),
    ],
)
async def test_the_mode_decides_what_is_taken(
    mode: str, takes_plain: bool, takes_tls: bool, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    machine = live_machine()
    endpoint = GrpcEndpoint(machine, EchoService().methods, tls=TlsSettings(tls_server_mode=mode))
    await endpoint.listen(HOST, 0)
    try:
        assert await answered(endpoint, None) == takes_plain
        assert await answered(endpoint, trusting()) == takes_tls
    finally:
        await endpoint.close()
        await machine.workers.close()
    assert words in capfd.readouterr().err


def hello() -> bytes:
    """Return the first message of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        trusting().wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


async def test_half_open_handshakes_have_the_limits_of_the_other_ports(
    endpoint: GrpcEndpoint, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What they take in memory is in tests/tls/test_ports.py: the same code holds them."""
    monkeypatch.setattr(tls_port, "SESSIONS_MAX", 1)
    monkeypatch.setattr(tls_port, "SLOW_S", 0.1)
    monkeypatch.setattr(tls_port, "HANDSHAKES_MAX", 3)
    honest = await connect(endpoint, trusting(), HOST)
    slow, writer = await asyncio.open_connection(HOST, endpoint.port)
    writer.write(hello())
    assert await slow.read(1) == b"\x16"
    assert (await (await connect(endpoint, trusting(), HOST)).call("SendMessage", a_send())).status == 0
    await slow.read()
    half = [await asyncio.open_connection(HOST, endpoint.port) for _ in range(4)]
    for _, one in half:
        one.write(b"\x16\x03\x01")
    assert await half[0][0].read() == b""
    monkeypatch.setattr(tls_port, "HANDSHAKE_MS_MAX", 50)
    late = await asyncio.open_connection(HOST, endpoint.port)
    late[1].write(b"\x16\x03\x01")
    assert await late[0].read() == b""
    assert (await honest.call("SendMessage", a_send())).status == 0
    for one in (writer, late[1], *(writer for _, writer in half)):
        one.close()
    reported = capfd.readouterr().err
    assert "1 handshakes are in progress, and this is the oldest" in reported
    assert "3 handshakes are incomplete, and this is the oldest" in reported
    assert "the handshake is incomplete after" in reported


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_old_versions_are_refused(
    endpoint: GrpcEndpoint, version: ssl.TLSVersion, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await connect(endpoint, old_client(version), HOST)
    assert (await (await connect(endpoint)).call("SendMessage", a_send())).status == 0
    assert "TLS 1.2 or later is required" in capfd.readouterr().err


async def test_tls_inside_of_tls_is_refused(endpoint: GrpcEndpoint, capfd: pytest.CaptureFixture[str]) -> None:
    reader, writer = await asyncio.open_connection(HOST, endpoint.port, ssl=trusting(), server_hostname=HOST)
    writer.write(hello())
    assert await reader.read() == b""
    writer.close()
    assert "TLS inside of TLS" in capfd.readouterr().err
