"""Flags of the commands that change users and slaves: their JSON, and what each flag changes."""

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from staticfire import ClientSettings, Cluster, ConsumeStatus, PushConsumer, PushSettings
from staticfire.cli import main

Line = dict[str, Any]
Say = Callable[..., Line]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(users={"admin": "the-secret-of-admin"}, replicas=2) as cluster:
        yield cluster


@pytest.fixture
def say(cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    """Run a command with `--json`; return the only line of its output."""
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", "admin")
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "the-secret-of-admin")

    def run(*words: str) -> Line:
        capsys.readouterr()
        assert main([*words, "--json"]) == 0
        return dict(json.loads(capsys.readouterr().out))

    return run


def users(cluster: Cluster) -> dict[str, tuple[str, bool, list[str]]]:
    return {one.name: (one.kind, one.is_enabled, [str(line) for line in one.policies]) for one in cluster.users.all()}


@pytest.mark.row("G7")
def test_users_and_their_policies(cluster: Cluster, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("s3cret-of-the-boss\n"))
    assert say("user", "add", "boss", "--secret-stdin", "--super") == {"user": "boss", "added": 1}
    assert say("user", "add", "shop", "--secret", "s3cret-of-the-shop") == {"user": "shop", "added": 1}
    assert users(cluster) | {"admin": ()} == {
        "admin": (), "boss": ("Super", True, []), "shop": ("Normal", True, []),
    }  # fmt: skip
    assert say("user", "change", "boss", "--normal", "--disable") == {"user": "boss", "changed": 1}
    assert users(cluster)["boss"] == ("Normal", False, [])

    allowed = say("allow", "shop", "Topic:orders", "Pub", "--from", "10.0.0.0/8, 10.1.2.3")
    assert allowed == {
        "user": "shop", "decision": "Allow", "resource": "Topic:orders", "actions": ["Pub"],
        "sources": ["10.0.0.0/8", "10.1.2.3"],
    }  # fmt: skip
    denied = say("deny", "shop", "Topic:audit*", "Sub", "--from", "10.9.0.0/16", "--default")
    assert (denied["decision"], denied["sources"]) == ("Deny", ["10.9.0.0/16"])
    say("allow", "shop", "Topic:bills", "Sub", "--default")
    policies = users(cluster)["shop"][2]
    assert [("default" in line, "10.9.0.0/16" in line) for line in sorted(policies)] == [
        (True, False), (False, False), (True, True),
    ], policies  # fmt: skip
    gone = say("allow", "shop", "Topic:bills", "--remove", "--default")
    assert gone == {"user": "shop", "resource": "Topic:bills", "removed": 1}
    assert len(users(cluster)["shop"][2]) == 2
    for name in ("boss", "shop"):
        assert say("user", "remove", name) == {"user": name, "removed": 1}
    assert list(users(cluster)) == ["admin"]


@pytest.mark.row("P7")
def test_slaves_and_a_failover_to_one_of_them(cluster: Cluster, say: Say) -> None:
    def slave(name: str) -> Line:
        return next(one for one in cluster.replication() if one["name"] == name)

    assert say("replication", "hold", "broker-a-1") == {"slave": "broker-a-1", "hold": True}
    assert slave("broker-a-1")["held"]
    assert say("replication", "release", "broker-a-1") == {"slave": "broker-a-1", "hold": False, "lagMs": 0}
    assert not slave("broker-a-1")["held"]
    assert say("replication", "lag", "broker-a-2", "5s") == {"slave": "broker-a-2", "lagMs": 5_000}
    assert say("replication", "lag", "broker-a-2", "0") == {"slave": "broker-a-2", "lagMs": 0}
    assert say("replication", "sync", "broker-a-1") == {"slave": "broker-a-1", "copyState": True}
    second = slave("broker-a-2")["address"]
    done = say("failover", "broker-a", "--to", "2")
    assert (done["broker"], done["master"], done["lost"]) == ("broker-a", second, 0)


@pytest.mark.row("P3")
def test_a_member_joins_a_group_and_leaves(cluster: Cluster, say: Say) -> None:
    cluster.create_topic("orders")
    key = ClientSettings(access_key="admin", secret_key="the-secret-of-admin")
    consumer = PushConsumer("billing", cluster.namesrv, PushSettings(client=key))
    consumer.subscribe("orders")
    consumer.listener(lambda _messages, _context: ConsumeStatus.CONSUME_SUCCESS)
    with consumer:
        assert say("member", "billing", "--stay", "20ms") == {"group": "billing", "stayMs": 20, "members": 1}
