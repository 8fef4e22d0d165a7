"""Containers that can't run say why, and end; those that aren't ready don't say that they are."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.docker import docker, docker_log, ended, inspect, run_to_end, until_logged

pytestmark = [pytest.mark.row("E2"), pytest.mark.foreign, pytest.mark.timeout(300)]

EXIT_USAGE = 2


@pytest.fixture
def nameserver(image: str) -> Iterator[str]:
    """A nameserver's container."""
    container = docker("run", "--detach", image, "sh", "mqnamesrv").strip()
    yield container
    docker("rm", "--force", container)


@pytest.fixture
def lonely_broker(image: str) -> Iterator[str]:
    """A container with a broker that waits for its nameserver."""
    container = docker("run", "--detach", image, "sh", "mqbroker", "-n", "127.0.0.1:1").strip()
    yield container
    docker("rm", "--force", "--volumes", container)


def test_a_volume_that_cannot_be_written_to_is_named(image: str, folder: Path) -> None:
    (folder / "roots").mkdir(mode=0o755)
    volume = f"{folder}/roots:/home/rocketmq/store"
    exit_code, said = run_to_end("--volume", volume, image, "sh", "mqbroker", "-n", "127.0.0.1:9")
    assert exit_code == EXIT_USAGE
    assert said.splitlines() == [
        "staticfire broker: the store in /home/rocketmq/store can't be used: /home/rocketmq/store/lock: "
        "Permission denied; it must be writable"
    ]


def test_a_port_that_is_taken_is_named(image: str, nameserver: str) -> None:
    until_logged(nameserver, "The Name Server boot success")
    exit_code, said = run_to_end("--network", f"container:{nameserver}", image, "mqnamesrv")
    assert exit_code == EXIT_USAGE
    assert said.splitlines() == [
        "staticfire nameserver: the nameserver can't listen: 0.0.0.0:9876: Address already in use; "
        "choose another listenPort, or 0 for any free port"
    ]


def test_a_broker_without_its_routes_is_not_healthy_and_stops_at_once(lonely_broker: str) -> None:
    until_logged(lonely_broker, "registration_failed")
    exit_code, said = ended("exec", lonely_broker, "staticfire-health")
    assert (exit_code, said) == (1, "can't connect to 127.0.0.1:1: [Errno 111] Connection refused\n")
    docker("stop", lonely_broker)
    assert inspect(lonely_broker, ".State.ExitCode") == "0", docker_log(lonely_broker)


def test_a_file_that_is_not_there_is_named(image: str) -> None:
    exit_code, said = run_to_end(image, "sh", "mqbroker", "-c", "/opt/broker.conf")
    assert (exit_code, said) == (EXIT_USAGE, "staticfire: /opt/broker.conf can't be read: No such file or directory\n")


def test_a_proxy_in_local_mode_is_refused_in_words(image: str) -> None:
    exit_code, said = run_to_end(image, "sh", "mqproxy", "-pm", "local")
    assert exit_code == EXIT_USAGE
    assert "use mqbroker --enable-proxy" in said
