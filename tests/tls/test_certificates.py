"""Certificates that trustme made: who trusts which, mutual TLS, and renewal while a server runs."""

import asyncio
import dataclasses
import os
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives import serialization

from staticfire.protocol.errors import ConnectFailed, NetworkError, UsageError
from staticfire.runtime.tls.settings import TlsClient, TlsSettings
from tests.tls.stand import HOST, PUT, Authority, Files, ask, connected, nameserver, serving, trusting

pytestmark = pytest.mark.row("G6")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def test_a_client_that_verifies_accepts_what_its_ca_signed(authority: Authority) -> None:
    async with nameserver(**serving(authority.issue("server"))) as server:
        for host in (HOST, "localhost"):
            assert (await ask(server.port, TlsClient(authority.path), host=host)).code == 0


@pytest.mark.parametrize(
    ("issue", "words"),
    [
        ({"days": -1, "from_day": -9}, "has expired; renew it"),
        ({"from_day": 3}, "is not yet valid; it begins in the future"),
        ({"hosts": ("shop.example",)}, "it has other names: connect to a name that is in it"),
    ],
    ids=["expired", "not yet valid", "wrong name"],
)
async def test_what_is_wrong_with_a_certificate_is_named(
    authority: Authority, issue: dict[str, object], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    hosts: tuple[str, ...] = issue.pop("hosts", ())  # type: ignore[assignment]
    files = authority.issue("server", *hosts, **issue)  # type: ignore[arg-type]
    async with nameserver(**serving(files)) as server:
        with pytest.raises(ConnectFailed, match=words):
            await ask(server.port, TlsClient(authority.path))
        assert (await ask(server.port, TlsClient())).code == 0, "a client that doesn't verify"
    assert "the client checks certificates and rejected this one" in capfd.readouterr().err


async def test_another_ca_isnt_trusted(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    async with nameserver(**serving(authority.issue("server"))) as server:
        for tls in (TlsClient(other.path), TlsClient(auth_server=True)):
            with pytest.raises(ConnectFailed, match="it isn't signed by a CA that is trusted: give the CA's file"):
                await ask(server.port, tls)


async def test_names_need_not_be_checked(authority: Authority) -> None:
    async with nameserver(**serving(authority.issue("server", "shop.example"))) as server:
        assert (await ask(server.port, TlsClient(authority.path, check_name=False))).code == 0


@pytest.mark.parametrize(
    ("need", "auth_client", "none", "ours", "others"),
    [
        ("require", True, False, True, False),
        ("require", False, False, True, False),
        ("optional", True, True, True, False),
        ("optional", False, True, True, True),
        ("none", True, True, True, True),
    ],
)
async def test_mutual_tls(
    authority: Authority, tmp_path: Path, need: str, auth_client: bool, none: bool, ours: bool, others: bool
) -> None:
    settings = serving(
        authority.issue("server"), tls_server_need_client_auth=need, tls_server_auth_client=auth_client,
        tls_server_trust_cert_path=authority.path,
    )  # fmt: skip
    stranger = Authority(tmp_path / "other").issue("client", "c")
    own = authority.issue("client", "c")
    async with nameserver(**settings) as server:
        for files, is_taken in ((None, none), (own, ours), (stranger, others)):
            tls = TlsClient(authority.path, None, *(files or ("", "")))
            if is_taken:
                assert (await ask(server.port, tls)).code == 0
            else:
                with pytest.raises(NetworkError, match="certificate"):
                    await ask(server.port, tls)


@pytest.mark.parametrize(("mode", "takes_plain"), [("permissive", True), ("enforcing", False)])
async def test_only_clients_that_speak_tls_need_the_required_certificate(
    authority: Authority, mode: str, takes_plain: bool
) -> None:
    """As in RocketMQ 5.3.3: the mode alone decides whether plain connections are accepted."""
    settings = serving(
        authority.issue("server"), tls_server_mode=mode, tls_server_need_client_auth="require",
        tls_server_trust_cert_path=authority.path,
    )  # fmt: skip
    async with nameserver(**settings) as server:
        assert (await ask(server.port, TlsClient(authority.path, None, *authority.issue("client", "c")))).code == 0
        with pytest.raises(NetworkError, match="certificate"):
            await ask(server.port, TlsClient(authority.path))
        if takes_plain:
            assert (await ask(server.port, None)).code == 0
        else:
            with pytest.raises(NetworkError, match="speaks only TLS"):
                await ask(server.port, None)


async def test_a_server_shows_the_certificate_of_its_settings_to_others(authority: Authority) -> None:
    others = serving(
        authority.issue("server"), tls_server_need_client_auth="require", tls_server_trust_cert_path=authority.path
    )
    own = authority.issue("client", "c")
    trusting_ca = TlsSettings(tls_enable=True, tls_client_trust_cert_path=authority.path)
    async with nameserver(**others) as server:
        showing = dataclasses.replace(trusting_ca, tls_client_cert_path=own.cert, tls_client_key_path=own.key)
        assert (await ask(server.port, showing.as_client())).code == 0
        with pytest.raises(NetworkError, match="certificate"):
            await ask(server.port, trusting_ca.as_client())


@pytest.mark.parametrize("test_mode", [None, True])
async def test_a_server_with_a_certificate_of_its_own_checks_clients_too(
    authority: Authority, tmp_path: Path, test_mode: bool | None
) -> None:
    settings = {"tls_server_need_client_auth": "require", "tls_test_mode_enable": test_mode}
    with pytest.raises(UsageError, match=r"tls\.server\.trustCertPath is missing"):
        async with nameserver(**settings):
            pass
    async with nameserver(**settings, tls_server_trust_cert_path=authority.path) as server:
        own = authority.issue("client", "c")
        assert (await ask(server.port, TlsClient("", False, *own))).code == 0
        for files in (("", ""), Authority(tmp_path / "other").issue("client", "c")):
            with pytest.raises(NetworkError, match="certificate"):
                await ask(server.port, TlsClient("", False, *files))


async def test_in_test_mode_the_paths_of_a_certificate_have_no_effect(authority: Authority) -> None:
    settings = serving(authority.issue("server"))
    async with nameserver(**settings) as server, nameserver(**settings, tls_test_mode_enable=True) as testing:
        verifying = TlsSettings(tls_enable=True, tls_client_trust_cert_path=authority.path)
        assert (await ask(server.port, verifying.as_client())).code == 0
        with pytest.raises(ConnectFailed, match="certificate"):
            await ask(testing.port, verifying.as_client())
        trustful = dataclasses.replace(verifying, tls_test_mode_enable=True)
        assert (await ask(testing.port, trustful.as_client())).code == 0


@pytest.mark.parametrize(("verifies", "is_connected"), [(None, True), (False, True), (True, False)])
async def test_whether_a_server_verifies_those_that_it_connects_to(verifies: bool | None, is_connected: bool) -> None:
    tls = TlsSettings(tls_enable=True, tls_client_auth_server=verifies).as_client()
    async with nameserver() as server:
        if is_connected:
            assert (await ask(server.port, tls)).code == 0
        else:
            with pytest.raises(ConnectFailed, match="certificate"):
                await ask(server.port, tls)


def lock(path: str, password: str) -> None:
    """Encrypt a key."""
    key = serialization.load_pem_private_key(Path(path).read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(password.encode())
    locked = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    Path(path).write_bytes(locked)


async def test_the_keys_of_servers_and_clients_may_have_passwords(authority: Authority) -> None:
    files, own = authority.issue("server"), authority.issue("client", "c")
    lock(files.key, "of-the-server")
    lock(own.key, "of-the-client")
    settings = serving(
        files, tls_server_need_client_auth="require", tls_server_trust_cert_path=authority.path, tls_enable=True,
        tls_client_trust_cert_path=authority.path, tls_client_cert_path=own.cert, tls_client_key_path=own.key,
    )  # fmt: skip
    with_passwords: dict[str, Any] = {
        "tls_server_key_password": "of-the-server",
        "tls_client_key_password": "of-the-client",
    }
    for wrong in ("", "of-the-client"):
        with pytest.raises(
            UsageError, match=r"the password of the key in \S+ \(tls.server.keyPath\) is wrong, or missing"
        ):
            async with nameserver(**settings, **with_passwords | {"tls_server_key_password": wrong}):
                pass
    async with nameserver(**settings, **with_passwords) as server:
        showing = TlsSettings(**settings, **with_passwords)
        assert (await ask(server.port, showing.as_client())).code == 0
        with pytest.raises(UsageError, match="the password of the key"):
            await ask(server.port, TlsSettings(**settings).as_client())


async def test_a_certificate_that_is_made_has_the_names_of_the_settings() -> None:
    async with nameserver(tls_names="shop.example, mq.example") as server:
        context = ssl.create_default_context(cadata=ssl.DER_cert_to_PEM_cert(await served(server.port)))
        for name in ("localhost", "shop.example", "mq.example"):
            _, writer = await asyncio.open_connection(HOST, server.port, ssl=context, server_hostname=name)
            writer.close()
        with pytest.raises(ssl.SSLCertVerificationError, match="other"):
            await asyncio.open_connection(HOST, server.port, ssl=context, server_hostname="other.example")


def replace(old: Files, new: Files, *names: str) -> None:
    """Put new files in the place of old ones, in one step each."""
    for name in names:
        path = getattr(old, name)
        shutil.copy(getattr(new, name), f"{path}.new")
        os.replace(f"{path}.new", path)


def spoil(path: str) -> None:
    Path(path).write_text("rubbish")


async def served(port: int) -> bytes:
    """Return the certificate that a new connection is shown."""
    _, writer = await asyncio.open_connection(HOST, port, ssl=trusting(), server_hostname=HOST)
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return shown


async def test_a_renewed_certificate_is_served_from_the_next_connection_on(
    authority: Authority, capfd: pytest.CaptureFixture[str]
) -> None:
    files, new = authority.issue("server"), authority.issue("renewed")
    async with nameserver(**serving(files)) as server, connected(TlsClient(authority.path)) as pool:
        await pool.ask(f"{HOST}:{server.port}", PUT)
        first = await served(server.port)
        replace(files, new, "cert")
        assert await served(server.port) == first, "the key doesn't fit yet"
        assert "the certificate from before is served until both files fit" in capfd.readouterr().err
        replace(files, new, "key")
        second = await served(server.port)
        assert second != first
        spoil(files.cert)
        assert await served(server.port) == second
        assert (await pool.ask(f"{HOST}:{server.port}", PUT)).code == 0, "open connections live on"


async def test_a_client_reads_a_renewed_ca(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    async with nameserver(**serving(other.issue("server"))) as server, connected(TlsClient(authority.path)) as pool:
        with pytest.raises(ConnectFailed):
            await pool.ask(f"{HOST}:{server.port}", PUT)
        shutil.copy(other.path, authority.path)
        assert (await pool.ask(f"{HOST}:{server.port}", PUT)).code == 0


class Breaking(NamedTuple):
    """How a client's files become unusable for a moment."""

    act: Callable[[Files, Files], None]
    words: str


def remove_the_certificate(own: Files, _: Files) -> None:
    os.remove(own.cert)


def replace_the_key_first(own: Files, new: Files) -> None:
    replace(own, new, "key")


@pytest.mark.parametrize(
    "breaking",
    [
        Breaking(remove_the_certificate, "No such file or directory"),
        Breaking(replace_the_key_first, "doesn't fit the certificate"),
    ],
    ids=["missing", "half_renewed"],
)
async def test_a_client_reconnects_while_its_files_are_being_renewed(
    authority: Authority, capfd: pytest.CaptureFixture[str], breaking: Breaking
) -> None:
    settings = serving(
        authority.issue("server"), tls_server_need_client_auth="require", tls_server_trust_cert_path=authority.path
    )
    own, new = authority.issue("client", "c"), authority.issue("renewed", "c")
    async with nameserver(**settings) as server, connected(TlsClient(authority.path, None, *own)) as pool:
        address = f"{HOST}:{server.port}"

        async def ask_again() -> int:
            open_now = pool.open_connection(address)
            if open_now is not None:
                open_now.abort()
            return (await pool.ask(address, PUT)).code

        assert await ask_again() == 0
        breaking.act(own, new)
        assert [await ask_again(), await ask_again()] == [0, 0]
        lines = lines_of(capfd.readouterr().err, "tls_not_reloaded")
        assert len(lines) == 1
        assert breaking.words in lines[0]
        replace(own, new, "cert", "key")
        assert await ask_again() == 0
        assert "tls_not_reloaded" not in capfd.readouterr().err


def lines_of(text: str, event: str) -> list[str]:
    return [line for line in text.splitlines() if event in line]


def content_of(path: str) -> bytes:
    return Path(path).read_bytes()


def put_unseen(path: str, content: bytes) -> None:
    """Change a file so that it has the same inode, size and time each time, as `chmod` leaves them."""
    Path(path).write_bytes(content)
    os.utime(path, (1, 1))


async def test_a_client_retries_files_that_could_not_be_used_although_they_look_the_same(
    authority: Authority, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = Authority(tmp_path / "other")
    ca = content_of(other.path)
    async with nameserver(**serving(other.issue("server"))) as server, connected(TlsClient(authority.path)) as pool:
        address = f"{HOST}:{server.port}"
        with pytest.raises(ConnectFailed):
            await pool.ask(address, PUT)
        put_unseen(authority.path, b"x" * len(ca))
        for _ in range(3):
            with pytest.raises(ConnectFailed):
                await pool.ask(address, PUT)
        assert len(lines_of(capfd.readouterr().err, "tls_not_reloaded")) == 1
        put_unseen(authority.path, ca)
        assert (await pool.ask(address, PUT)).code == 0


async def test_a_server_retries_files_that_could_not_be_used_although_they_look_the_same(
    authority: Authority, capfd: pytest.CaptureFixture[str]
) -> None:
    files, new = authority.issue("server"), authority.issue("renewed")
    cert = content_of(new.cert)
    async with nameserver(**serving(files)) as server:
        first = await served(server.port)
        replace(files, new, "key")
        put_unseen(files.cert, b"x" * len(cert))
        assert [await served(server.port) for _ in range(3)] == [first] * 3
        assert len(lines_of(capfd.readouterr().err, "tls_not_reloaded")) == 1
        put_unseen(files.cert, cert)
        assert await served(server.port) != first
