"""`staticfire up --replicas`, `replication` and `failover`, with processes."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import FREE_PORTS, Up, call

pytestmark = pytest.mark.row("P7")


def states(namesrv: str) -> list[dict[str, object]]:
    shown = call("replication", "--json", NAMESRV_ADDR=namesrv)
    assert shown.returncode == 0, shown.stderr
    return [json.loads(line) for line in shown.stdout.splitlines()]


def test_a_slave_copies_falls_behind_and_takes_over() -> None:
    with Up("up", "--replicas", "1", *FREE_PORTS) as up:
        namesrv = up.reported("NAMESRV_ADDR")

        def run(*words: str) -> str:
            done = call(*words, NAMESRV_ADDR=namesrv)
            assert done.returncode == 0, done.stderr
            return done.stdout

        run("send", "orders", "first")
        master, slave = states(namesrv)
        assert (master["name"], slave["name"], slave["held"]) == ("broker-a", "broker-a-1", False)
        assert "copies nothing more" in run("replication", "hold", "broker-a-1")
        run("send", "orders", "second")
        assert states(namesrv)[1]["behindBytes"] != 0
        assert "held" in run("replication")
        assert "still copies nothing, because it is held" in run("replication", "lag", "broker-a-1", "5s")
        refused = call("failover", "broker-a", NAMESRV_ADDR=namesrv)
        assert refused.returncode == 1
        assert "broker-a-1 is 1 messages behind its master: its copy is held" in refused.stderr
        run("replication", "release", "broker-a-1")
        assert "5s behind" in run("replication", "lag", "broker-a-1", "5s")
        assert "without a lag" in run("replication", "lag", "broker-a-1", "0")
        run("replication", "sync", "broker-a-1")
        done = run("failover", "broker-a", "--losing", "1")
        assert f"{slave['address']} is the master of broker-a now (epoch 2), 1 message lost" in done
        assert run("peek", "orders", "--json").count("body") == 1


@pytest.mark.parametrize("text", ["brokerId=1", "brokerRole=SLAVE"])
def test_up_refuses_a_slave_from_each_source(text: str, tmp_path: Path) -> None:
    """A cluster of slaves would be ready, and no topic would have a route."""
    key, _, value = text.partition("=")
    variable = {"brokerId": "STATICFIRE_BROKER_ID", "brokerRole": "STATICFIRE_BROKER_ROLE"}[key]
    (tmp_path / "broker.conf").write_text(f"{text}\n")
    (tmp_path / "up.toml").write_text(f'{key} = "{value}"\n')
    for flags, environment, source in (
        (["-c", f"{tmp_path}/broker.conf"], {}, f"{tmp_path}/broker.conf"),
        (["-c", f"{tmp_path}/up.toml"], {}, f"{tmp_path}/up.toml"),
        ([], {variable: value}, variable),
        (["--set", text], {}, "--set"),
    ):
        refused = call("up", *flags, *FREE_PORTS, **environment)
        assert refused.returncode == 2, source
        assert f"{text} ({source}): a cluster gives its slaves their roles and ids: use --replicas N" in refused.stderr


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["replication", "hold", "broker-a"], "broker-a is a master, and only slaves copy"),
        (["replication", "release", "broker-z-1"], "there is no slave broker-z-1; start the cluster with --replicas"),
        (["failover", "broker-a"], "broker-a has no slave: start the cluster with --replicas 1"),
        (["failover", "broker-b"], "there is no broker broker-b; there are broker-a"),
    ],
)
def test_errors_name_the_fix(up: str, words: list[str], error: str) -> None:
    refused = call(*words, NAMESRV_ADDR=up)
    assert refused.returncode == 1
    assert error in refused.stderr


@pytest.fixture(scope="module")
def up() -> object:
    """The nameserver of a cluster without slaves."""
    with Up("up", *FREE_PORTS) as cluster:
        yield cluster.reported("NAMESRV_ADDR")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--replicas", "9"], "a broker can't have 9 slaves; allowed are 0 to 4"),
        (["--replicas", "1", "--set", "brokerId=3"], "use --replicas N"),
        (["--failover", "auto"], "--failover auto needs slaves that can take over: add --replicas 1"),
        (["--set", "brokerRole=SLAVE"], "a cluster gives its slaves their roles and ids"),
    ],
)
def test_what_up_refuses(words: list[str], error: str) -> None:
    refused = call("up", *words, *FREE_PORTS)
    assert refused.returncode == 2
    assert error in refused.stderr
