"""docker-compose.yml as it is: who can use the cluster from where, and what survives."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import ROOT
from tests.containers.clients import (
    COUNT,
    consume_on_host,
    java_in_container,
    java_on_host,
    send_and_consume_in_container,
    send_from_host,
)
from tests.containers.conftest import running
from tests.containers.docker import Project, docker, docker_log, inspect

pytestmark = [pytest.mark.row("E2"), pytest.mark.foreign, pytest.mark.timeout(300)]

STOP_MS_MAX = 1_000


@pytest.fixture(scope="module")
def project(image: str, folder: Path) -> Iterator[Project]:
    yield from running("staticfire-test", folder, (ROOT / "docker-compose.yml").read_text())


@pytest.fixture
def outside(project: Project) -> set[str]:
    """Where programs on the host reach the brokers."""
    return {f"127.0.0.1:{project.port(10911)}", f"127.0.0.1:{project.port(10931)}"}


def inside(project: Project) -> set[str]:
    """Where containers of the network reach the brokers."""
    ports = {"rmqbroker": 10911, "rmqbroker-b": 10931}
    found = set()
    for name, port in ports.items():
        address = inspect(project.container(name), "range .NetworkSettings.Networks}}{{.IPAddress}}{{end")
        found.add(f"{address}:{project.port(port)}")
    return found


def test_healthy_is_ready(project: Project) -> None:
    """No try but the first: both brokers have their share of a new topic, and everything is consumed."""
    sent = send_from_host(project, "first")
    assert {message["brokerName"] for message in sent} == {"broker-a", "broker-b"}
    assert consume_on_host(project, "first", "first-readers") == COUNT


def test_a_program_in_another_container(project: Project) -> None:
    assert send_and_consume_in_container(project, "near", "near-readers") == COUNT


@pytest.mark.parametrize("vip", [False, True], ids=["port", "vip-port"])
def test_rocketmqs_java_client_on_the_host(project: Project, outside: set[str], tmp_path: Path, vip: bool) -> None:
    met = java_on_host(project, f"java-host-{vip}", tmp_path, vip)
    assert met.in_ids == outside
    assert met.in_records == outside


def test_rocketmqs_java_client_in_another_container(project: Project) -> None:
    met = java_in_container(project, "java-container")
    assert met.in_ids == inside(project)
    assert met.in_records == inside(project)


def test_rocketmqs_log_lines_are_there(project: Project) -> None:
    assert "The Name Server boot success. serializeType=JSON" in docker_log(project.container("rmqnamesrv"))
    line = "] boot success. serializeType=JSON and name server is namesrv:9876"
    assert line in docker_log(project.container("rmqbroker"))


def test_a_broker_that_is_killed_comes_back_with_its_data(project: Project) -> None:
    assert len(send_from_host(project, "kept")) == COUNT
    docker("kill", "--signal", "KILL", project.container("rmqbroker"))
    assert {message["brokerName"] for message in send_from_host(project, "kept")} == {"broker-b"}
    project.start("rmqbroker")
    assert consume_on_host(project, "kept", "kept-readers", 2 * COUNT) == 2 * COUNT


@pytest.mark.parametrize("name", ["rmqbroker", "rmqnamesrv"])
def test_sigterm_stops_at_once(project: Project, name: str) -> None:
    assert project.stop_ms(name) < STOP_MS_MAX
    assert inspect(project.container(name), ".State.ExitCode") == "0"
    project.start(name)


def test_programs_run_as_an_ordinary_user_and_without_tools_to_build(project: Project) -> None:
    assert project.run("sh", "-c", "id -u; python -m pip 2>&1 || true; which cc gcc || true").splitlines() == [
        "3000",
        "/opt/staticfire/bin/python: No module named pip",
    ]


def test_down_leaves_nothing(image: str, folder: Path) -> None:
    (folder / "down").mkdir()
    project = Project(f"{folder.name}-down", folder / "down", (ROOT / "docker-compose.yml").read_text())
    try:
        project.up()
        assert project.leftovers()
    finally:
        project.remove()
    assert project.leftovers() == ""
