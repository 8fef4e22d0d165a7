"""The examples for other languages as they stand: JUnit 5 with Testcontainers, Go, Node, a CI job's service."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from staticfire.client import Message, Producer
from tests.cli.commands import ROOT
from tests.clients.toolchains import BRING_TIMEOUT_S
from tests.containers.conftest import image
from tests.containers.docker import docker, inspect
from tests.java.reactor import JUNIT, MODULE, copied_module, results, run_maven
from tests.ports import free_ports

__all__ = ["image"]

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(BRING_TIMEOUT_S + 60)]
# Maven, npm and Go bring what an example needs, the first time.
EXAMPLES = ROOT / "examples" / "testing"
HEALTHY_TIMEOUT_S = 60


def run(folder: Path, *command: str, **environment: str) -> str:
    """Run a command of an example in a copy of its folder. Fails the test, in the command's words, when it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path, **environment},
        capture_output=True, text=True, timeout=BRING_TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of an example, since tools leave files beside what they build."""
    left_out = shutil.ignore_patterns("target", "node_modules")
    return Path(shutil.copytree(EXAMPLES / request.param, tmp_path / request.param, ignore=left_out))


@pytest.mark.parametrize("copied", ["go"], indirect=True)
def test_go(copied: Path) -> None:
    assert "ok" in run(copied, "staticfire", "run", "--", "go", "test", "./...")


@pytest.mark.parametrize("copied", ["node"], indirect=True)
def test_node(copied: Path) -> None:
    run(copied, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
    assert "# fail 0" in run(copied, "staticfire", "run", "--", "npm", "test")


def test_junit_with_testcontainers(tmp_path: Path, image: str) -> None:
    # Without Testcontainers' own images: Ryuk, which removes what a killed run leaves, and Alpine, which finds the
    # host's address where the test runs in a container.
    settings = {"TESTCONTAINERS_RYUK_DISABLED": "true", "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1"}
    folder, modules = copied_module(tmp_path), ":staticfire-testcontainers,:orders"
    tests = "-Dtest=RocketMQStandTest,BrokersTest,OrdersTest"
    printed = run_maven(folder, "-pl", modules, tests, f"-Dstaticfire.image={image}", **settings)
    assert results(folder, JUNIT) == Counter(passed=4), printed
    assert results(folder, MODULE) == Counter(passed=14), printed


@pytest.fixture
def service(image: str) -> Iterator[Mapping[str, Any]]:
    """The job of the workflow with its service running, as Actions starts it, on ports that are free here."""
    job = yaml.safe_load((EXAMPLES / "service-container" / "tests.yml").read_text())["jobs"]["test"]
    service = job["services"]["rocketmq"]
    free = dict(zip(("9876", "10911", "8081"), free_ports(), strict=False))
    assert [pair.split(":") for pair in service["ports"]] == [[port, port] for port in free]
    ports = [f"--publish={free[port]}:{port}" for port in free]
    name = f"service-{os.getpid()}"
    reported = f"--env=STATICFIRE_EXTERNAL_PORT={free['10911']}"
    docker("run", "--detach", "--name", name, reported, *ports, *service["options"].split(), image)
    try:
        yield {**job, "name": name, "free": free}
    finally:
        docker("rm", "--force", name)


def test_a_job_with_a_service(service: Mapping[str, Any]) -> None:
    name = service["name"]
    docker("exec", name, "sh", "-c", f"timeout {HEALTHY_TIMEOUT_S} sh -c 'until staticfire-health; do sleep 0.2; done'")
    for step in service["steps"]:
        words = re.sub(r"^docker ", "", step["run"]).replace("$ROCKETMQ", name).split()
        docker(*words)
    with Producer("shop", f"127.0.0.1:{service['free']['9876']}") as producer:
        sent = producer.send(Message("orders", b"12.50"))
    assert sent.message_id
    assert "orders" in docker("exec", name, "staticfire", "topics")
    assert inspect(name, ".Config.Cmd") == "[staticfire up]"
