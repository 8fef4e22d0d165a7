"""The gRPC endpoint as people start it: with a cluster, by itself, and where the extra isn't installed."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from staticfire import Cluster
from staticfire.cli import cluster_flags, mqproxy
from staticfire.cli.commands import staticfire
from staticfire.launch.container_health import PROXY, NotReady, check
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.transport.calls import SERVICE
from tests.cli.commands import TIMEOUT_S, Up, call, one_line

pytestmark = pytest.mark.row("G3")

PORTS = ["--namesrv-port", "0", "--broker-port", "0", "--control-port", "0"]


@pytest.fixture
def ask() -> Iterator[Callable[[str, str], int]]:
    """Ask an endpoint for a topic's route, by grpcio, and return the status of the answer."""
    channels: list[grpc.Channel] = []

    def requested(endpoint: str, topic: str) -> int:
        channels.append(grpc.insecure_channel(endpoint))
        query = channels[-1].unary_unary(
            f"{SERVICE}/QueryRoute", pb.QueryRouteRequest.SerializeToString, pb.QueryRouteResponse.FromString
        )
        host, _, port = endpoint.rpartition(":")
        place = pb.Endpoints(scheme="IPv4", addresses=[pb.Address(host=host, port=int(port))])
        request = pb.QueryRouteRequest(topic=pb.Resource(name=topic), endpoints=place)
        answer = query(request, timeout=TIMEOUT_S, metadata=[("x-mq-client-id", "c1")])
        return int(answer.status.code)

    yield requested
    for channel in channels:
        channel.close()


def test_up_says_where_the_endpoint_is_and_it_answers(ask: Callable[[str, str], int]) -> None:
    with Up("up", *PORTS, "--set", "connectionsMax=7") as up:
        assert ask(up.reported("ROCKETMQ_ENDPOINT"), "nothing") == pb.Code.TOPIC_NOT_FOUND
        os.kill(proxy := up.pids()["proxy"], signal.SIGKILL)
        exit_code, err = up.ended()
    assert exit_code == 125
    assert f"staticfire: proxy (pid {proxy}) was killed by SIGKILL" in err


def test_up_is_ready_before_the_endpoint_that_a_second_line_reports(ask: Callable[[str, str], int]) -> None:
    with Up("up", *PORTS, "--grpc-later") as up:
        assert "NAMESRV_ADDR=" in up.lines[-1]
        assert "ROCKETMQ_ENDPOINT" not in up.lines[-1]
        assert up.process.stdout is not None
        while not up.lines[-1].startswith("ready ROCKETMQ_ENDPOINT="):
            up.lines.append(up.process.stdout.readline().rstrip("\n"))
            assert up.lines[-1]
        assert ask(up.reported("ROCKETMQ_ENDPOINT"), "nothing") == pb.Code.TOPIC_NOT_FOUND
        exit_code, _ = up.stop(signal.SIGTERM)
    assert exit_code == 0


def test_run_gives_the_command_the_addresses() -> None:
    done = call("run", "--", "sh", "-c", "echo $ROCKETMQ_ENDPOINT", ROCKETMQ_ENDPOINT="")
    assert done.stdout.startswith("127.0.0.1:")
    done = call("run", "--no-grpc", "--", "sh", "-c", "echo ${ROCKETMQ_ENDPOINT-none}")
    assert done.stdout == "none\n"


def test_a_taken_port_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = call("up", *PORTS, "--grpc-port", str(taken.getsockname()[1]))
    assert refused.returncode == 2
    assert "--grpc-port" in one_line(refused.stderr)


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_cluster_has_one_if_requested(isolation: str, ask: Callable[[str, str], int]) -> None:
    with Cluster(isolation=isolation, grpc=True) as cluster:  # type: ignore[arg-type]
        cluster.create_topic("orders")
        assert ask(cluster.grpc_endpoint, "orders") == pb.Code.OK
        if isolation == "process":
            cluster.kill("proxy")
            cluster.restart("proxy")
            assert ask(cluster.grpc_endpoint, "orders") == pb.Code.OK


def test_a_cluster_without_one_says_so() -> None:
    with Cluster() as cluster, pytest.raises(ClientError, match=r"use Cluster\(grpc=True\)"):
        _ = cluster.grpc_endpoint


def test_one_by_itself_finds_its_cluster_and_is_healthy(tmp_path: Path, ask: Callable[[str, str], int]) -> None:
    file = tmp_path / "rmq-proxy.json"
    file.write_text('{"rocketMQClusterName": "DefaultCluster", "grpcServerPort": 0, "listenHost": "127.0.0.1"}')
    with Cluster() as cluster:
        cluster.create_topic("orders")
        flags = ["-n", cluster.namesrv, "-pc", str(file)]
        with Up("mqproxy", *flags, ready="rocketmq-proxy startup successfully") as proxy:
            endpoint = proxy.lines[-1].partition("endpoint ")[2].partition(",")[0]
            assert ask(endpoint, "orders") == pb.Code.OK
            check(PROXY, {"listen_host": "127.0.0.1", "grpc_server_port": endpoint.rpartition(":")[2]})
            exit_code, err = proxy.stop()
        with pytest.raises(NotReady, match=r"doesn't speak HTTP/2|doesn't respond"):
            check(PROXY, {"listen_host": "127.0.0.1", "grpc_server_port": cluster.namesrv.rpartition(":")[2]})
    assert exit_code == 0
    assert "rocketMQClusterName: unknown settings, ignored" in err


def test_a_broker_may_be_started_with_one(tmp_path: Path) -> None:
    settings = {f"STATICFIRE_{name}_PORT": "0" for name in ("LISTEN", "GRPC_SERVER")}
    settings |= {"STATICFIRE_VIP_PORT_ENABLE": "false", "STATICFIRE_BROKER_NAME": "broker-x", "HOME": str(tmp_path)}
    with Cluster() as cluster:
        flags = ["--enable-proxy", "-n", cluster.namesrv]
        with Up("mqbroker", *flags, ready="The broker[", **settings) as broker:
            broker.process.kill()
            assert broker.process.stdout is not None
            rest = broker.process.stdout.read()  # The endpoint's stdout, too: it ends with its broker.
    assert "rocketmq-proxy startup successfully" in rest + "".join(broker.lines)


def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cluster_flags, mqproxy):
        monkeypatch.setattr(module, "grpc_is_installed", lambda: False)
    for arguments in (["up", *PORTS, "--grpc-port", "0"], ["mqproxy", "-n", "127.0.0.1:9876"]):
        with pytest.raises(UsageError, match=r"pip install 'staticfire\[grpc\]'"):
            staticfire.main(arguments, standalone_mode=False)


def test_what_can_not_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[")
    for arguments, words in [
        (["mqproxy", "-pm", "local"], "mqbroker --enable-proxy"),
        (["mqproxy", "-pc", str(tmp_path / "x.json")], "can't be read as JSON settings of a proxy"),
        (["proxy", "--set", "grpcServerPort=x"], "it must be a whole number"),
        (["up", "--grpc-port", "1", "--no-grpc"], "use either --grpc-port or --no-grpc, not both"),
        (["up", "--grpc-later", "--no-grpc"], "use either --grpc-later or --no-grpc, not both"),
        (["up", "--control-port", "0", "--set", "grpcServerPort=1"], "can't be set for a whole cluster"),
    ]:
        refused = call(*arguments)
        assert refused.returncode == 2
        assert words in one_line(refused.stderr)
