"""Which port takes what: the first byte of a connection and tls.server.mode decide."""

import asyncio
import os
import re
import socket
import ssl
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.codecs import JSON, codec_for
from staticfire.protocol.errors import ConnectFailed, ConnectionLost, NetworkError, UsageError
from staticfire.proxy.transport.endpoint import GrpcEndpoint
from staticfire.runtime.live import live_machine
from staticfire.runtime.live_settings import as_properties
from staticfire.runtime.tls import port as tls_port
from staticfire.runtime.tls.settings import TlsClient, TlsSettings, environment_tls, tls_client
from tests.tls.stand import GET, HOST, PUT, Authority, ask, connected, nameserver, serving, trusting

TLS = TlsClient()
A_HELLO_BYTES = 517
HALF_OPEN = 500
HALF_OPEN_MIB_MAX = 20
KIB = 1024

pytestmark = pytest.mark.row("G6")


@pytest.mark.parametrize(
    ("mode", "takes_plain", "takes_tls"),
    [("permissive", True, True), ("enforcing", False, True), ("disabled", True, False)],
)
async def test_the_mode_decides_what_a_port_takes(mode: str, takes_plain: bool, takes_tls: bool) -> None:
    async with nameserver(tls_server_mode=mode) as server:
        for tls, is_taken in ((None, takes_plain), (TLS, takes_tls)):
            if is_taken:
                assert (await ask(server.port, tls)).code == 0
            else:
                with pytest.raises(NetworkError):
                    await ask(server.port, tls)


@pytest.mark.parametrize("rounds", range(8))  # Of the event loop: while it connects, or during the handshake.
async def test_a_client_whose_machine_stops_it_while_it_connects_has_time_again(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    time, stopped_s = loop.time, 0
    monkeypatch.setattr(loop, "time", lambda: time() + stopped_s)
    async with nameserver() as server:
        asking = asyncio.create_task(ask(server.port, TLS))
        for _ in range(rounds):
            await asyncio.sleep(0)
        stopped_s = 4  # A connection has 3 s.
        assert (await asking).code == 0


async def test_nothing_of_a_plain_request_is_executed_where_only_tls_is_accepted(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with nameserver(tls_server_mode="enforcing") as server:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(codec_for(JSON).encode_request(PUT, 1, False) * 3)
        answer = await reader.read()
        writer.close()
        assert answer == b"\x15\x03\x03\x00\x02\x02\x0a", "a TLS alert, and then the end"
        assert (await ask(server.port, TLS, GET)).code != 0, "the value was stored"
    lines = [line for line in capfd.readouterr().err.splitlines() if "tls_refused" in line]
    assert len(lines) == 1
    assert f"peer={HOST}:" in lines[0]
    assert "plain text on an enforcing port" in lines[0]


async def answer_in_http(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 x\r\n\r\n")
    writer.close()


async def test_our_client_says_what_is_wrong() -> None:
    async with nameserver(tls_server_mode="enforcing") as server:
        with pytest.raises(ConnectionLost, match="speaks only TLS on this port: turn TLS on"):
            await ask(server.port, None)
    async with nameserver(tls_server_mode="disabled") as server:
        with pytest.raises(ConnectFailed, match=r"as a port without TLS does \(tls.server.mode=disabled\): turn TLS"):
            await ask(server.port, TLS)
    http = await asyncio.start_server(answer_in_http, HOST, 0)
    with pytest.raises(ConnectFailed, match="the server answered in plain text"):
        await ask(http.sockets[0].getsockname()[1], TLS)
    http.close()
    await http.wait_closed()


@pytest.mark.parametrize(
    ("version", "name"), [(ssl.TLSVersion.TLSv1_3, "TLSv1.3"), (ssl.TLSVersion.TLSv1_2, "TLSv1.2")]
)
async def test_python_speaks_tls_with_it(version: ssl.TLSVersion, name: str) -> None:
    async with nameserver() as server:
        reader, writer = await asyncio.open_connection(HOST, server.port, ssl=trusting(version), server_hostname=HOST)
        assert writer.get_extra_info("ssl_object").version() == name
        for number in range(3):
            writer.write(codec_for(JSON).encode_request(PUT, number, False))
            size = int.from_bytes(await reader.readexactly(4), "big")
            assert b'"code":0' in await reader.readexactly(size)
        writer.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_old_versions_are_refused(version: ssl.TLSVersion, capfd: pytest.CaptureFixture[str]) -> None:
    async with nameserver() as server:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(HOST, server.port, ssl=trusting(version), server_hostname=HOST)
    assert "TLS 1.2 or later is required" in capfd.readouterr().err


@pytest.mark.parametrize(
    "rubbish",
    [b"\x16", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"],
    ids=["one byte", "a header's start", "half a hello"],
)
async def test_a_handshake_that_stops_is_ended(
    rubbish: bytes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async with nameserver() as server:
        await ask(server.port, TLS)
        monkeypatch.setattr(tls_port, "HANDSHAKE_MS_MAX", 50)
        reader, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(rubbish)
        assert await reader.read() == b""
        writer.close()
    assert "the handshake is incomplete after" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("rubbish", "alert"),
    [
        (b"\x16\x03\x01\x00\x05hello", b"\x15\x03"),
        (b"\x16\x03\x03\xff\xff" + b"x" * 9, b"\x15\x03"),
        (b"\x16abcdefgh" * 100, b""),  # OpenSSL doesn't answer another version.
    ],
)
async def test_rubbish_after_the_first_byte_ends_the_connection(
    rubbish: bytes, alert: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    async with nameserver() as server:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(rubbish)
        assert (await reader.read())[:2] == alert
        writer.close()
        assert (await ask(server.port, TLS)).code == 0
    assert 'reason="TLS: ' in capfd.readouterr().err


def hello() -> bytes:
    """Return the first message of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = trusting().wrap_bio(incoming, outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def resident_kib() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // KIB


async def test_half_open_handshakes_take_little(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine the first would end before the last.
    monkeypatch.setattr(tls_port, "HANDSHAKE_MS_MAX", 100_000)
    monkeypatch.setattr(tls_port, "SLOW_S", 100.0)
    first, loop = hello(), asyncio.get_running_loop()
    async with nameserver() as server:
        await ask(server.port, TLS)
        before = resident_kib()
        with ExitStack() as clients:
            for number in range(HALF_OPEN):
                client = clients.enter_context(socket.socket())
                client.setblocking(False)
                await loop.sock_connect(client, (HOST, server.port))
                await loop.sock_sendall(client, first)
                if number < tls_port.SESSIONS_MAX:
                    assert await loop.sock_recv(client, 1) == b"\x16"
            await ask(server.port, None)  # The server has read all of them by now.
            grown = resident_kib() - before
            assert len(server.connections) >= HALF_OPEN, "one was ended"
        assert grown < HALF_OPEN_MIB_MAX * KIB


async def test_with_too_many_handshakes_the_oldest_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_port, "HANDSHAKES_MAX", 2)
    async with nameserver() as server:
        pairs = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection(HOST, server.port)
            writer.write(b"\x16\x03\x01")
            pairs.append((reader, writer))
        assert await pairs[0][0].read() == b"", "the first one"
        assert (await ask(server.port, TLS)).code == 0
        for reader, writer in pairs:
            writer.close()
            await reader.read()


async def greeted(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, and send the first message."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(hello())
    return reader, writer


async def test_a_new_client_gets_the_session_of_a_slow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_port, "SESSIONS_MAX", 1)
    monkeypatch.setattr(tls_port, "SLOW_S", 0.0)
    async with nameserver() as server:
        slow = await greeted(server.port)
        assert await slow[0].read(1) == b"\x16"
        assert (await ask(server.port, TLS)).code == 0
        assert (await slow[0].read())[-7:] != b"", "it was ended"
        slow[1].close()


async def test_a_client_that_waits_gets_a_session_as_soon_as_one_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_port, "SESSIONS_MAX", 1)
    monkeypatch.setattr(tls_port, "SLOW_S", 0.1)
    async with nameserver() as server:
        await ask(server.port, TLS)
        slow = await greeted(server.port)
        assert await slow[0].read(1) == b"\x16"
        assert (await ask(server.port, TLS)).code == 0, "no other client comes after it"
        slow[1].close()


async def test_clients_that_connect_at_once_wait_for_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_port, "SESSIONS_MAX", 2)
    async with nameserver() as server:
        held = [await greeted(server.port) for _ in range(2)]
        assert [await reader.read(1) for reader, _ in held] == [b"\x16"] * 2
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(server.port, TLS)) for _ in range(4)]
            rubbish = [await asyncio.open_connection(HOST, server.port) for _ in range(30)]
            for _, writer in rubbish:
                writer.write(b"\x16\x03\x01\x00\x05hello")
            await ask(server.port, None)
            held[0][1].close()
        assert [task.result().code for task in tasks] == [0] * 4
        for _, writer in (*held, *rubbish):
            writer.close()


async def test_tls_inside_of_tls_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    async with nameserver() as server:
        reader, writer = await asyncio.open_connection(HOST, server.port, ssl=trusting(), server_hostname=HOST)
        writer.write(hello())
        assert await reader.read() == b""
        writer.close()
    assert "TLS inside of TLS" in capfd.readouterr().err


async def test_a_flood_of_refused_connections_is_a_few_lines(capfd: pytest.CaptureFixture[str]) -> None:
    async with nameserver(tls_server_mode="enforcing") as server:
        for first in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x20\0\0\0\0", b"\x16\x03\x01\x00\x05hello"):
            for _ in range(50):
                reader, writer = await asyncio.open_connection(HOST, server.port)
                writer.write(first)
                await reader.read()
                writer.close()
    lines = [line for line in capfd.readouterr().err.splitlines() if "peer=" in line]
    counts = [int(line.split("connections=")[1].split()[0]) for line in lines]
    assert sum(counts) == 150
    assert len(lines) <= 12


async def test_a_hello_may_come_byte_by_byte() -> None:
    first = hello()
    async with nameserver() as server:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        for byte in first:
            writer.write(bytes([byte]))
            await writer.drain()
        assert await reader.read(1) == b"\x16"
        writer.close()
        await reader.read()


async def test_many_at_once_share_one_new_certificate() -> None:
    async with nameserver() as server:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(server.port, TLS)) for _ in range(20)]
        assert all(task.result().code == 0 for task in tasks)
        seen = set()
        for _ in range(2):
            _, writer = await asyncio.open_connection(HOST, server.port, ssl=trusting(), server_hostname=HOST)
            seen.add(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
            writer.close()
        assert len(seen) == 1


async def test_values_of_every_length_pass() -> None:
    async with nameserver() as server, connected(TLS) as pool:
        for size in (0, 1, 16 * KIB - 1, 16 * KIB, 16 * KIB + 1, 300 * KIB, 2 * KIB * KIB):
            text = "x" * size
            await pool.ask(f"{HOST}:{server.port}", type(PUT)("n", "k", text))
            answer: Any = await pool.ask(f"{HOST}:{server.port}", type(GET)("n", "k"))
            assert (answer.value or "") == text


def test_rocketmqs_names_are_understood_and_others_refused() -> None:
    names = {"tls.enable": True, "tls.client.trustCertPath": "ca.pem", "tls.client.keyPassword": "k"}
    assert tls_client(names) == TlsClient("ca.pem", key_password="k")
    assert tls_client({"tls.enable": "false"}) is None
    assert tls_client({"tls.test.mode.enable": "true", "tls.client.trustCertPath": "x"}) == TlsClient()
    for wrong in ({"tls.client.trustPath": "x"}, {"tls.client.authServer": "perhaps"}, "yes"):
        with pytest.raises(UsageError):
            tls_client(wrong)  # type: ignore[arg-type]


def test_the_environment_turns_it_on_for_a_process() -> None:
    given = {"STATICFIRE_TLS_ENABLE": "true", "STATICFIRE_TLS_CLIENT_TRUST_CERT_PATH": "ca.pem"}
    assert environment_tls(given) == TlsClient("ca.pem")
    assert environment_tls({}) is None
    assert environment_tls({"STATICFIRE_TLS_ENABLE": "false"}) is None
    for name in ("STATICFIRE_TLS_ENABLE", "STATICFIRE_TLS_CLIENT_AUTH_SERVER"):
        for text in ("yes", " "):
            with pytest.raises(UsageError, match=f"{name}={text}: it must be true or false"):
                environment_tls({**given, name: text})


def test_passwords_are_never_shown() -> None:
    settings = NameserverSettings(tls_server_key_password="very-secret", tls_client_key_password="very-secret")
    assert "very-secret" not in repr(settings)
    assert "very-secret" not in repr(settings.as_client() or TlsClient(key_password="very-secret"))
    assert "very-secret" not in "".join(as_properties(settings).values())
    assert as_properties(settings)["tls.server.keyPassword"] == "******"


def test_an_enforcing_server_is_a_tls_client_of_the_others() -> None:
    assert TlsSettings().as_client() is None
    assert TlsSettings(tls_server_mode="enforcing").as_client() == TlsClient()
    assert TlsSettings(tls_server_mode="enforcing", tls_enable=False).as_client() is None
    assert TlsSettings(tls_enable=True, tls_client_trust_cert_path="ca").as_client() == TlsClient("ca")


async def test_a_file_that_cant_be_used_prevents_the_start(tmp_path: Path) -> None:
    good, other = Authority(tmp_path).issue("a"), Authority(tmp_path / "b").issue("b")
    (tmp_path / "no.pem").write_text("not a certificate")
    for settings, words in (
        (serving(good, tls_server_key_path=other.key), "doesn't fit the certificate"),
        (serving(good, tls_server_key_path=""), "tls.server.keyPath is missing"),
        (serving(good, tls_server_cert_path=str(tmp_path / "gone")), r"gone \(tls.server.certPath\) can't be read"),
        (serving(good, tls_server_cert_path=str(tmp_path / "no.pem")), "must be PEM files"),
        (serving(good, tls_server_need_client_auth="require"), "tls.server.trustCertPath is missing"),
    ):
        with pytest.raises(UsageError, match=words):
            async with nameserver(**settings):
                pass


@pytest.mark.parametrize("name", ["m\u00fcnchen.local", "[::1]", "a b", "a;b"])
async def test_a_name_that_no_certificate_can_have_prevents_the_start(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"tlsNames={re.escape(repr(name))} is not a host name or an address"):
        async with nameserver(tls_names=f"shop.example, {name}"):
            pass
    endpoint = GrpcEndpoint(live_machine(), {}, tls=TlsSettings(tls_names=name))
    with pytest.raises(UsageError, match="tlsNames="):
        await endpoint.listen(HOST, 0)
    async with nameserver(tls_names=name, **serving(Authority(tmp_path).issue("server"))):
        pass  # It makes no certificate.


async def test_each_client_is_told_when_a_certificate_cant_be_made() -> None:
    """A server checks the names before; here, a wrong one stands for any failure."""
    machine = live_machine()
    contexts = tls_port.TlsContexts(TlsSettings(tls_names="m\u00fcnchen.local"), machine.workers)
    for _ in range(2):
        outcome: asyncio.Future[tls_port.ContextOrError] = asyncio.get_running_loop().create_future()
        contexts.when_ready(outcome.set_result)
        async with asyncio.timeout(60):
            assert "TLS: making a certificate failed: ValueError" in str(await outcome)
    await machine.workers.close()
