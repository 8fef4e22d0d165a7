"""`--namesrv`, `--tls`, `--tls-trust` and `--protocol` of every command: by what is on the wire."""

import shlex
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from staticfire import Cluster
from staticfire.cli import main
from staticfire.protocol.codecs import JSON, NATIVE
from tests.cli.commands import one_line
from tests.cli.test_family import ADMIN, EXAMPLES, FAMILY, NOWHERE, admin_line

TLS_RECORD = b"\x16\x03"
"""A TLS handshake begins like this, a frame of RocketMQ's protocol never does: it would be 350 MiB long."""
LINES = {name: EXAMPLES.get(name) or admin_line(name) for name in (*FAMILY, *ADMIN)}
SERIALIZE_TYPE = 4
"""The byte of a frame that says how its header is written."""
WITH_PROTOCOL = [
    name for name, one in {**FAMILY, **ADMIN}.items() if any("--protocol" in param.opts for param in one.params)
]
TRIED_EVERY = 8


def some_of(names: Iterable[str]) -> list[Any]:
    """All commands get these flags from one place, so a few are tried each time, and the others are further cases."""
    return [
        pytest.param(name, marks=[pytest.mark.slow] if number % TRIED_EVERY else [], id=name)
        for number, name in enumerate(names)
    ]


class Listener:
    """A server that notes the first bytes of each connection, and ends it."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.firsts: list[bytes] = []
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection:
                self.firsts.append(connection.recv(4096))

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture(autouse=True)
def _plain_and_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes from the environment, and what a flag sets there is gone after the test."""
    monkeypatch.setenv("NAMESRV_ADDR", NOWHERE)
    monkeypatch.setenv("STATICFIRE_CONTROL", "")
    monkeypatch.setenv("STATICFIRE_TLS_ENABLE", "false")
    monkeypatch.setenv("STATICFIRE_TLS_CLIENT_TRUST_CERT_PATH", "")


def first_bytes(listener: Listener, name: str, *flags: str) -> bytes:
    """Return what a command sends first to the nameserver that it is given."""
    listener.firsts.clear()
    assert main([*shlex.split(LINES[name]), "--namesrv", listener.address, *flags]) == 1
    return listener.firsts[0]


@pytest.mark.parametrize("name", some_of(LINES))
def test_a_command_asks_the_nameserver_that_it_is_given_with_tls_if_that_is_wanted(
    listener: Listener, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert first_bytes(listener, name)[SERIALIZE_TYPE] == NATIVE
    assert listener.address in one_line(capsys.readouterr().err)
    assert first_bytes(listener, name, "--tls").startswith(TLS_RECORD)


@pytest.mark.parametrize("name", some_of(WITH_PROTOCOL))
def test_a_command_sends_rocketmqs_frames_if_that_is_wanted(listener: Listener, name: str) -> None:
    assert first_bytes(listener, name, "--protocol", "rocketmq")[SERIALIZE_TYPE] == JSON


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def another_ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    assert main(["certificates", "--to", str(folder)]) == 0
    return folder / "ca.pem"


@pytest.mark.parametrize("name", some_of(["mqadmin topicList", *FAMILY]))
def test_a_command_refuses_a_server_whose_ca_it_does_not_trust(
    cluster: Cluster, another_ca: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    given = [*shlex.split(LINES[name]), "--namesrv", cluster.namesrv, "--tls-trust", str(another_ca)]
    assert main(given) == 1
    assert "the server's certificate was rejected" in one_line(capsys.readouterr().err)
