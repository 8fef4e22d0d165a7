"""`staticfire copy` between clusters that have different keys, or of which one speaks only TLS."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from staticfire import Cluster, Message, Producer
from staticfire.cli import main
from staticfire.client import ClientSettings, ProducerSettings
from staticfire.runtime.addresses import parse_address
from staticfire.runtime.credentials import Credentials
from staticfire.runtime.local_keys import remove_key, write_key
from tests.cli.commands import one_line

pytestmark = pytest.mark.row("S8")

ALICE, BOB = Credentials("alice", "secret-of-alice"), Credentials("bob", "secret-of-bob")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name in ("ACCESS_KEY", "SECRET_KEY", "SECURITY_TOKEN"):
        monkeypatch.delenv(f"ROCKETMQ_{name}", raising=False)


def protected(user: Credentials, settings: Mapping[str, object] | None = None) -> Cluster:
    return Cluster(users={user.access_key: user.secret_key}, settings=settings)


def fill(cluster: Cluster, user: Credentials | None = None) -> None:
    cluster.create_topic("orders", queues=1)
    with Producer("shop", cluster.namesrv, ProducerSettings(client=ClientSettings.signing(user))) as producer:
        producer.send(Message("orders", b"x"))


@pytest.fixture(scope="module")
def production() -> Iterator[Cluster]:
    with protected(ALICE) as cluster:
        fill(cluster, ALICE)
        yield cluster


@pytest.fixture(scope="module")
def stand() -> Iterator[Cluster]:
    with protected(BOB) as cluster:
        yield cluster


def line(source: Cluster, target: Cluster, *more: str) -> list[str]:
    return ["copy", "--from", source.namesrv, "-t", "orders", "-n", target.namesrv, *more]


@pytest.mark.parametrize("own", ["flags", "variables", "owner"])
def test_each_cluster_gets_its_own_key(
    production: Cluster, stand: Cluster, own: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand.reset()
    files = [write_key(parse_address(stand.namesrv)[1], BOB.text)]
    flags: list[str] = []
    if own == "owner":
        files.append(write_key(parse_address(production.namesrv)[1], ALICE.text))
    elif own == "flags":
        flags = ["--from-access-key", ALICE.access_key, "--from-secret-key", ALICE.secret_key]
    else:
        monkeypatch.setenv("STATICFIRE_FROM_ACCESS_KEY", ALICE.access_key)
        monkeypatch.setenv("STATICFIRE_FROM_SECRET_KEY", ALICE.secret_key)
    before = dict(os.environ)
    assert main(line(production, stand, *flags)) == 0, capsys.readouterr().err
    assert capsys.readouterr().out == "copied 1 message of orders, 1 queue\n"
    assert dict(os.environ) == before
    for file in files:
        remove_key(file)


def test_a_key_in_the_environment_is_that_of_the_cluster_without_its_own(
    production: Cluster, stand: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand.reset()
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", BOB.access_key)
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", BOB.secret_key)
    flags = ["--from-access-key", ALICE.access_key, "--from-secret-key", ALICE.secret_key]
    assert main(line(production, stand, *flags)) == 0, capsys.readouterr().err
    with Cluster() as anyone:
        monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", ALICE.access_key)
        monkeypatch.setenv("ROCKETMQ_SECRET_KEY", ALICE.secret_key)
        assert main(line(production, anyone)) == 0, capsys.readouterr().err


@pytest.mark.parametrize("group", [[], ["-g", "billing"]])
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "username cannot be null"),
        (["--from-access-key", "carol", "--from-secret-key", "x" * 8], "User:carol is not found"),
        (["--from-access-key", "alice", "--from-secret-key", "x" * 8], "check signature failed"),
    ],
)
def test_a_source_that_refuses_the_key_is_quoted_with_the_flags(
    production: Cluster,
    stand: Cluster,
    flags: list[str],
    words: str,
    group: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = write_key(parse_address(stand.namesrv)[1], BOB.text)
    assert main(line(production, stand, *flags, *group)) == 1
    said = one_line(capsys.readouterr().err)
    remove_key(file)
    assert "the source refuses: " in said
    assert words in said
    assert said.endswith("--from-access-key and --from-secret-key, or STATICFIRE_FROM_ACCESS_KEY and ..._SECRET_KEY")
    assert "bob" not in said


def test_half_a_key_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["copy", "--from", "127.0.0.1:1", "-t", "orders", "--from-access-key", "alice"]) == 2
    assert "belong together" in one_line(capsys.readouterr().err)


def test_one_of_them_speaks_only_tls(capsys: pytest.CaptureFixture[str]) -> None:
    only, never = ({"tls.server.mode": mode} for mode in ("enforcing", "disabled"))
    with protected(ALICE, only) as secret, Cluster(settings=never) as plain:
        secret.create_topic("orders", queues=1)
        key = ["--from-access-key", ALICE.access_key, "--from-secret-key", ALICE.secret_key]
        assert main(line(secret, plain, *key)) == 1
        assert "TLS" in capsys.readouterr().err
        assert main(line(secret, plain, *key, "--from-tls")) == 0, capsys.readouterr().err
        port = parse_address(secret.namesrv)[1]
        file = write_key(port, ALICE.text, needs_tls=True)  # Its owner needs no flag, in whatever order the flags are.
        assert main(line(secret, plain)) == 0, capsys.readouterr().err
        assert main(line(plain, secret)) == 0, capsys.readouterr().err
        assert main(line(plain, secret, "--tls", "--no-from-tls")) == 0, capsys.readouterr().err
        assert main(line(plain, secret, "--tls")) == 1
        remove_key(file)
