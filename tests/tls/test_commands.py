"""`staticfire certificates`, and a whole cluster with them: the command line, the control endpoint, gRPC's port."""

import datetime
import json
import re
import signal
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from staticfire import ClientSettings, Cluster, ConsumeStatus, PushConsumer, PushSettings
from staticfire.chaos.asserting import assert_each
from staticfire.cli import main
from staticfire.launch.exposure import exposure
from staticfire.launch.plan import GivenSettings, plan_cluster
from staticfire.protocol.errors import ConnectFailed
from staticfire.runtime.tls.authority import Flaw
from staticfire.runtime.tls.folder import CertificateWish, fill
from staticfire.runtime.tls.settings import TlsClient
from tests.cli.commands import FREE_PORTS, Up, call, one_line
from tests.tls.stand import Files, ask, nameserver, serving

WITH_GRPC = [flag for flag in FREE_PORTS if flag != "--no-grpc"]

pytestmark = pytest.mark.row("G6")


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    made = call("certificates", "--to", str(folder), "--name", "shop.example")
    assert made.returncode == 0, made.stderr
    assert "shop.example" in made.stdout
    return folder


def test_keys_are_their_owners_only(certs: Path) -> None:
    for path in certs.iterdir():
        is_secret = ".key." in path.name or path.name in ("server.p12", "client.p12")
        assert (path.stat().st_mode & 0o077 == 0) == is_secret, path


def test_a_ca_stays_and_signs_again(certs: Path, tmp_path: Path) -> None:
    first = json.loads(call("certificates", "--to", str(tmp_path), "--json").stdout)
    ca, server = (tmp_path / "ca.pem").read_bytes(), (tmp_path / "server.pem").read_bytes()
    second = json.loads(call("certificates", "--to", str(tmp_path), "--json").stdout)
    assert (first["isCaNew"], second["isCaNew"]) == (True, False)
    assert (tmp_path / "ca.pem").read_bytes() == ca
    assert (tmp_path / "server.pem").read_bytes() != server


def test_what_cant_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "can't be written" in one_line(call("certificates", "--to", str(tmp_path / "file")).stderr)
    assert "too short" in one_line(call("certificates", "--to", str(tmp_path / "a"), "--password", "12345").stderr)
    (tmp_path / "ca.pem").write_text("x")
    (tmp_path / "ca.key.pem").write_text("x")
    assert "can't be read" in one_line(call("certificates", "--to", str(tmp_path)).stderr)


def end_of(path: Path) -> datetime.date:
    """Return the last day of a certificate."""
    return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.date()


def test_certificates_are_valid_for_the_days_that_are_wanted_and_their_ca_for_longer(tmp_path: Path) -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    for days in (1, 36_500):
        folder = tmp_path / str(days)
        assert main(["certificates", "--to", str(folder), "--days", str(days)]) == 0
        for name in ("server", "client"):
            assert (end_of(folder / f"{name}.pem") - today).days - days in (0, 1)  # 1: it was midnight.
        assert end_of(folder / "ca.pem") > end_of(folder / "server.pem")


def test_a_ca_signs_nothing_that_outlives_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certificates", "--to", str(tmp_path), "--days", "30"]) == 0
    server = (tmp_path / "server.pem").read_bytes()
    capsys.readouterr()
    assert main(["certificates", "--to", str(tmp_path), "--days", "5000"]) == 2
    assert "5000 days; use fewer --days or another folder" in one_line(capsys.readouterr().err)
    assert (tmp_path / "server.pem").read_bytes() == server


@pytest.mark.parametrize("name", ["", "bücher.example", "two words", "10.0.0.0/8"])
def test_a_name_that_no_server_can_have(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certificates", "--to", str(tmp_path), "--name", name]) == 2
    assert "is not a host name or an address" in one_line(capsys.readouterr().err)


def test_the_stores_have_the_password_that_is_wanted(tmp_path: Path) -> None:
    assert main(["certificates", "--to", str(tmp_path), "--password", "a-l0nger-one"]) == 0
    for name in ("server.p12", "client.p12"):
        pkcs12.load_pkcs12((tmp_path / name).read_bytes(), b"a-l0nger-one")
        with pytest.raises(ValueError, match="password"):
            pkcs12.load_pkcs12((tmp_path / name).read_bytes(), b"changeit")


def fetch(url: str, ca: Path | None) -> int:
    context = ssl.create_default_context(cafile=str(ca)) if ca is not None else None
    try:
        with urllib.request.urlopen(url, context=context, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_cluster_that_takes_only_tls(certs: Path) -> None:
    settings = ["-c", str(certs / "tls.properties"), "--set", "tls.server.mode=enforcing"]
    with Up("up", *WITH_GRPC, *settings) as up:
        namesrv, control = up.reported("NAMESRV_ADDR"), up.reported("CONTROL")
        trust = ("--namesrv", namesrv, "--tls-trust", str(certs / "ca.pem"))
        assert call("send", "orders", "hello", *trust).returncode == 0
        assert "hello" in call("peek", "orders", *trust).stdout
        assert call("topics", "--namesrv", namesrv, "--tls").returncode == 0
        assert call("topics", "--namesrv", namesrv, STATICFIRE_TLS_ENABLE="true").returncode == 0
        assert call("topics", "--namesrv", namesrv).returncode == 0, "its owner needs no flag"
        assert "speaks only TLS" in call("topics", "--namesrv", namesrv, STATICFIRE_TLS_ENABLE="false").stderr
        assert call("mqadmin", "clusterList", *trust).returncode == 0
        assert call("clock", *trust).returncode == 0
        assert call("fault", "list", *trust, "--control", control).stdout == "no fault rules\n"
        # The events are read through TLS, too: plain text, refused by a nameserver, is in no broker's journal.
        assert call("journal", *trust).returncode == 0

        assert control.startswith("https://")
        assert fetch(f"{control}/topics", certs / "ca.pem") == 200
        assert fetch(f"http://{urlsplit(control).netloc}/topics", None) == 400
        for address in (namesrv, up.reported("ROCKETMQ_ENDPOINT"), urlsplit(control).netloc):
            host, port = address.split(":")
            shown = ssl.get_server_certificate((host, int(port)), ca_certs=str(certs / "ca.pem"))
            assert shown in (certs / "server.pem").read_text()
        assert up.stop(signal.SIGTERM)[0] == 0


def test_by_default_every_port_takes_both(tmp_path: Path) -> None:
    with Up("up", *WITH_GRPC) as up:
        control = up.reported("CONTROL")
        assert fetch(f"{control}/topics", None) == 200
        for address in (up.reported("NAMESRV_ADDR"), up.reported("ROCKETMQ_ENDPOINT"), urlsplit(control).netloc):
            host, port = address.split(":")
            pem = tmp_path / "one.pem"
            pem.write_text(ssl.get_server_certificate((host, int(port))))
            context = ssl.create_default_context(cafile=str(pem))
            assert context.cert_store_stats()["x509_ca"] == 1
        assert fetch(f"https://{urlsplit(control).netloc}/topics", pem) == 200


def test_run_makes_its_command_use_tls() -> None:
    reported = call(
        "run", "--no-grpc", "--set", "tls.server.mode=enforcing", "--", "sh", "-c", "staticfire topics; env"
    )
    assert "STATICFIRE_TLS_ENABLE=true" in reported.stdout


@pytest.mark.parametrize(
    ("flaw", "words"),
    [
        (Flaw.EXPIRED, "has expired; renew it"),
        (Flaw.NOT_YET_VALID, "correct this machine's clock"),
        (Flaw.WRONG_NAME, "it has other names"),
        (Flaw.OTHER_CA, "isn't signed by a CA that is trusted"),
    ],
)
async def test_each_flaw_is_named_by_our_client(flaw: Flaw, words: str, tmp_path: Path) -> None:
    fill(str(tmp_path), CertificateWish([], 30, "changeit", flaw.value))
    files = Files(str(tmp_path / "server.pem"), str(tmp_path / "server.key.pem"))
    async with nameserver(**serving(files)) as server:
        with pytest.raises(ConnectFailed, match=words):
            await ask(server.port, TlsClient(str(tmp_path / "ca.pem")))


def test_a_key_that_doesnt_fit_prevents_the_start(tmp_path: Path) -> None:
    assert call("certificates", "--to", str(tmp_path), "--flaw", Flaw.WRONG_KEY.value).returncode == 0
    reported = call("up", *FREE_PORTS, "-c", str(tmp_path / "tls.properties"))
    assert reported.returncode == 2
    assert "doesn't fit the certificate" in reported.stderr


def test_a_member_joins_brokers_that_speak_only_tls(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(settings={"tls.server.mode": "enforcing"}) as cluster:
        cluster.create_topic("orders")
        billing = PushConsumer("billing", cluster.namesrv, PushSettings(client=ClientSettings(tls=True)))
        billing.subscribe("orders")
        billing.listener(lambda _messages, _context: ConsumeStatus.CONSUME_SUCCESS)
        monkeypatch.setenv("STATICFIRE_TLS_ENABLE", "false")  # The flag sets it: this removes it after the test.
        with billing:
            assert main(["member", "billing", "--stay", "1ms", "--tls", "-n", cluster.namesrv]) == 0
        assert "billing had 2 members" in capsys.readouterr().out
        with pytest.raises(AssertionError, match="nothing was stored in orders"):
            assert_each(cluster, "orders -> invoices by key")


def test_who_opens_a_cluster_is_warned() -> None:
    def words(listen: str, **settings: str) -> str:
        return exposure(plan_cluster("/d", [1], [2], GivenSettings(settings, {}), listen=listen), listen)

    assert words("127.0.0.1") == ""
    assert "anyone who reaches this machine" in words("0.0.0.0")
    assert "anyone who reaches this machine" in words("0.0.0.0", **{"tls.server.mode": "enforcing"})
    assert words("0.0.0.0", authenticationEnabled="true") == ""
    assert words("0.0.0.0", **{"tls.server.mode": "enforcing", "tls.server.need.client.auth": "require"}) == ""


def test_the_list_of_processes_shows_no_password(certs: Path, tmp_path: Path) -> None:
    """Two brokers: one of them was started early and gets its settings later, the other one by its command."""
    locked, password = tmp_path / "locked.pem", "a-password-of-a-key"
    key = serialization.load_pem_private_key((certs / "server.key.pem").read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(password.encode())
    locked.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    paths = ["--set", f"tls.server.certPath={certs / 'server.pem'}", "--set", f"tls.server.keyPath={locked}"]
    with Up("up", "--brokers", "2", *FREE_PORTS, *paths, STATICFIRE_TLS_SERVER_KEY_PASSWORD=password) as up:
        commands = {name: Path(f"/proc/{pid}/cmdline").read_bytes() for name, pid in up.pids().items()}
        namesrv = up.reported("NAMESRV_ADDR")
        reported = call("mqadmin", "getNamesrvConfig", "--namesrv", namesrv, "--tls-trust", str(certs / "ca.pem"))
    assert len(commands) == 3
    assert not [name for name, command in commands.items() if password.encode() in command]
    assert password not in reported.stdout
    assert "******" in reported.stdout


def test_refused_connections_are_in_the_journal_and_explained() -> None:
    with Up("up", *FREE_PORTS, "--set", "tls.server.mode=enforcing") as up:
        namesrv, boot_lines = up.reported("NAMESRV_ADDR"), "".join(up.lines)
        broker = re.search(r"broker-a, ([\d.]+):(\d+)\]", boot_lines)
        assert broker is not None
        with socket.create_connection((broker[1], int(broker[2]))) as plain:
            plain.sendall(b"\0" * 8)
            assert plain.recv(1) == b"\x15"
        reported = call("journal", "tlsRefused", "--tls", "--namesrv", namesrv, "--json")
        consume = ("consume", "orders", "--group", "billing", "--timeout", "1s", "--namesrv", namesrv)
        assert call(*consume, STATICFIRE_TLS_ENABLE="false").returncode != 0
        explained = call("explain", "billing", "--tls", "--namesrv", namesrv, "--json")
    event = json.loads(reported.stdout.splitlines()[0])
    assert event["kind"] == "tlsRefused"
    assert "plain text on an enforcing port" in event["details"]["reason"]
    first = json.loads(explained.stdout)["findings"][0]
    assert first["kind"] == "TLS_REFUSED"
    assert any("at nameserver: plain text on an enforcing port" in line for line in first["evidence"])
