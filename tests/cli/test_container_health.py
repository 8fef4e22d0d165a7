"""The health check of containers: true only when a server answers and the nameservers know it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from staticfire.launch import container_health
from staticfire.launch.container_health import BROKER, CLUSTER, NAMESERVER, PROXY, NotReady, check, running_servers
from tests.cli.commands import Up

pytestmark = pytest.mark.row("E2")

PLACE = ["--set", "listenHost=127.0.0.1", "--port", "0"]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give servers longer than a container has: other tests may have both processors."""
    monkeypatch.setattr(container_health, "TIMEOUT_S", 60.0)


def port_of(server: Up) -> str:
    return (
        server.lines[-1].rpartition(":")[2]
        if "Name Server" in server.lines[-1]
        else (server.lines[-1].partition("]")[0].rpartition(":")[2])
    )


def test_servers_that_are_up_and_known_are_ready(tmp_path: Path) -> None:
    with Up("nameserver", *PLACE, ready="The Name Server") as names:
        namesrv = f"127.0.0.1:{port_of(names)}"
        check(NAMESERVER, {"listen_host": "127.0.0.1", "listen_port": port_of(names)})
        flags = [*PLACE, "--dir", str(tmp_path), "--set", "vipPortEnable=false", "--name", "broker-x"]
        with Up("broker", *flags, ready="The broker[", NAMESRV_ADDR=namesrv) as broker:
            settings = {"listen_host": "127.0.0.1", "listen_port": port_of(broker), "vip_port_enable": "false"}
            check(BROKER, {**settings, "namesrv_addr": namesrv, "broker_name": "broker-x"})
            with pytest.raises(NotReady, match=f"broker-y isn't registered at {namesrv}"):
                check(BROKER, {**settings, "namesrv_addr": namesrv, "broker_name": "broker-y"})


def test_a_whole_cluster_is_queried_at_its_control_endpoint() -> None:
    with Up("up", "--namesrv-port", "0", "--broker-port", "0", "--control-port", "0", ready="ready ") as cluster:
        (port,) = [word.rpartition(":")[2] for word in cluster.lines[-1].split() if word.startswith("CONTROL=")]
        check(CLUSTER, {"listen_port": port})
    with pytest.raises(NotReady, match="can't connect to"):
        check(CLUSTER, {"listen_port": port})


def test_servers_that_accept_only_tls_are_queried_with_it() -> None:
    only_tls = ["--set", "tls.server.mode=enforcing"]
    ports = ["--namesrv-port", "0", "--broker-port", "0", "--control-port", "0"]
    with Up("up", *ports, *only_tls, ready="ready ") as cluster:
        for module, name in ((NAMESERVER, "NAMESRV_ADDR"), (PROXY, "ROCKETMQ_ENDPOINT")):
            port = cluster.reported(name).rpartition(":")[2]
            key = "grpc_server_port" if module == PROXY else "listen_port"
            settings = {"listen_host": "127.0.0.1", key: port}
            check(module, {**settings, "tls_server_mode": "enforcing"})
            with pytest.raises(NotReady):
                check(module, settings)
        check(CLUSTER, {"listen_port": cluster.reported("CONTROL").rpartition(":")[2]})


def test_a_port_without_a_listener_is_not_ready() -> None:
    with pytest.raises(NotReady, match=r"can't connect to 127\.0\.0\.1:1"):
        check(NAMESERVER, {"listen_port": "1"})


def test_servers_are_found_by_their_command_lines(tmp_path: Path) -> None:
    settings = {"broker_name": "broker-x"}
    lines = {
        "1": ["/bin/sh", "run.sh"],
        "12": ["python", "-S", "-P", "-m", BROKER, "--settings", json.dumps(settings)],
        "13": ["python", "-m", "something.else"],
        "14": ["python", "-m"],
        "16": ["/opt/bin/python", "/opt/bin/staticfire", "up", "--control-port", "9082"],
        "17": ["python", "-S", "-P", "-m", BROKER, "--early-fd", "4"],
    }
    for pid, words in lines.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_bytes("\0".join(words).encode() + b"\0")
    (tmp_path / "15").mkdir()
    assert list(running_servers(tmp_path)) == [(BROKER, settings), (CLUSTER, {"listen_port": "9082"})]


def test_it_needs_nothing_but_the_standard_library() -> None:
    program = f"import runpy; runpy.run_path({container_health.__file__!r}, run_name='look')"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True, timeout=100)
