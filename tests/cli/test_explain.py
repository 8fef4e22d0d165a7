"""`staticfire explain`, the control endpoint's /explain, and `cluster.explain()`: the same words on all roads."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from staticfire import Cluster, Message, Producer
from staticfire.cli import control_client, main
from tests.cli.commands import Up, call, get, one_line


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A topic with a message, and nobody who consumes it."""
    with Cluster() as cluster:
        cluster.create_topic("orders")
        with Producer("shop", cluster.namesrv) as producer:
            producer.send(Message("orders", b"x", keys=["order-1"]))
        yield cluster


@pytest.mark.row("S4")
def test_causes_in_words_and_as_json(cluster: Cluster) -> None:
    shown = call("explain", "billing", "--namesrv", cluster.namesrv)
    assert shown.returncode == 1
    assert "no broker knows a group billing" in shown.stdout
    assert "> start a consumer of billing" in shown.stdout
    reported = json.loads(call("explain", "billing", "--json", "--namesrv", cluster.namesrv).stdout)
    assert [one["kind"] for one in reported["findings"]] == ["UNKNOWN_GROUP"]
    assert get(f"{cluster.control}/explain/billing")[1] == reported == cluster.explain("billing").as_json()


def test_one_message_instead_of_a_group(cluster: Cluster) -> None:
    shown = call("explain", "--message", "order-1", "--namesrv", cluster.namesrv)
    assert shown.returncode == 0
    assert "orders" in shown.stdout


def test_a_topic_that_the_group_should_consume(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["create", "--group", "ledger", "-n", cluster.namesrv]) == 0
    line = ["explain", "ledger", "-n", cluster.namesrv]

    def headline(*flags: str) -> str:
        capsys.readouterr()
        assert main([*line, *flags]) == 1
        return capsys.readouterr().out.splitlines()[0]

    assert headline() == "ledger: 0 members, and it has never subscribed to a topic"
    assert headline("--topic", "orders") == "ledger: 0 members, 1 message behind in orders"
    assert main([*line, "--topic", "a b"]) == 2
    assert "illegal characters" in one_line(capsys.readouterr().err)


def test_a_message_of_one_topic(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    with Producer("shop", cluster.namesrv) as producer:
        producer.send(Message("invoices", b"x", keys=["order-1"]))
    line = ["explain", "--message", "order-1", "--json", "-n", cluster.namesrv]
    assert main([*line, "--topic", "invoices"]) == 0
    assert [json.loads(one)["topic"] for one in capsys.readouterr().out.splitlines()] == ["invoices"]


@pytest.mark.parametrize("arguments", [[], ["billing", "--message", "order-1"]])
def test_what_is_requested_must_be_clear(cluster: Cluster, arguments: list[str]) -> None:
    shown = call("explain", *arguments, "--namesrv", cluster.namesrv)
    assert shown.returncode == 2
    assert "give a group or a message" in one_line(shown.stderr)


def test_a_killed_broker_is_named(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nameserver forgets it; the control endpoint doesn't. One of another cluster isn't used."""
    with Cluster(brokers=2, isolation="process") as two:
        monkeypatch.setenv("STATICFIRE_CONTROL", two.control)
        two.faults.add(broker="broker-b", kill=True)
        assert get(two.control)[1]["brokers"] == ["broker-a", "broker-b"]
        for at, kind in ((two, "BROKER_AWAY"), (cluster, "UNKNOWN_GROUP")):
            capsys.readouterr()
            assert main(["explain", "nobody", "--json", "-n", at.namesrv]) == 1
            found = json.loads(capsys.readouterr().out)["findings"]
            assert kind in [one["kind"] for one in found]
            assert any("broker broker-b" in one["words"] for one in found) == (at is two)


@contextmanager
def other_program(reply: bytes, pause_s: float = 0.0) -> Iterator[str]:
    """A program that isn't a control endpoint: it sends these bytes once, or with a pause again and again."""
    ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            while reply and not ended.is_set():
                try:
                    connection.sendall(reply)
                except OSError:
                    return  # The client has left.
                if not pause_s:
                    return
                ended.wait(pause_s)
            ended.wait()

    serving = threading.Thread(target=serve)
    serving.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        ended.set()
        serving.join()
        listener.close()


@pytest.mark.parametrize(
    "reply",
    [
        b"220 mail.example.com ESMTP\r\n",
        b"\x00\x16",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
        b"HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n{",
    ],
)
def test_another_program_at_the_endpoints_port_is_left_alone(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, reply: bytes
) -> None:
    with other_program(reply) as url:
        monkeypatch.setenv("STATICFIRE_CONTROL", url)
        assert main(["explain", "nobody", "-n", cluster.namesrv]) == 1
    assert "no broker knows a group nobody" in capsys.readouterr().out


@pytest.mark.parametrize("reply", [b"", b"H"])
def test_an_endpoint_that_never_answers_is_waited_for_only_shortly(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, reply: bytes
) -> None:
    """Also if it sends a byte from time to time."""
    monkeypatch.setattr(control_client, "LOOK_S", 0.1)
    with other_program(reply, 0.01) as url:
        monkeypatch.setenv("STATICFIRE_CONTROL", url)
        assert control_client.known_brokers(cluster.namesrv) == []


def test_a_dashboard_of_another_cluster_names_no_brokers_that_must_be_there(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that it saw once may have been removed on purpose."""
    with Up("dashboard", "--namesrv", cluster.namesrv, "--port", "0") as up:
        url = up.reported("DASHBOARD").removesuffix("/")
        assert [one["name"] for one in get(url)[1]["processes"]] == ["broker-a"]
        monkeypatch.setenv("STATICFIRE_CONTROL", url)
        assert control_client.known_brokers(cluster.namesrv) == []
