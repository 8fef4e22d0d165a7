"""Clients of a cluster in containers, on the host and in another container: ours and RocketMQ's Java client."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.cli.commands import call
from tests.clients.toolchains import CACHE, filled, java, run as run_tool
from tests.containers.docker import Project

JAVA_VERSION = "5.3.3"
SOURCE = Path(__file__).parent / "java" / "Reach.java"
JAVA_TIMEOUT_S = 110
COUNT = 16


@dataclass(frozen=True)
class Met:
    """Which addresses of brokers a client has met."""

    in_ids: set[str]
    in_records: set[str]


# -- ours --------------------------------------------------------------------------------------------------------------


def send_from_host(project: Project, topic: str, count: int = COUNT) -> list[dict[str, str]]:
    sent = call("send", topic, "hello", "--count", str(count), "--json", NAMESRV_ADDR=project.namesrv)
    assert sent.returncode == 0, sent.stderr + project.logs()
    return [json.loads(line) for line in sent.stdout.splitlines()]


def consume_on_host(project: Project, topic: str, group: str, count: int = COUNT) -> int:
    """Return how many messages a new group gets."""
    flags = ["--group", group, "--from", "first", "--max", str(count), "--timeout", "20s", "--json"]
    return len(call("consume", topic, *flags, NAMESRV_ADDR=project.namesrv).stdout.splitlines())


def send_and_consume_in_container(project: Project, topic: str, group: str, count: int = COUNT) -> int:
    """Send so many from another container and consume as many there; return how many came."""
    send = f"staticfire send {topic} hello --count {count} >&2"
    consume = f"staticfire consume {topic} --group {group} --from first --max {count} --timeout 20s --json"
    said = project.run("sh", "-c", f"{send} && {consume}", flags=("-e", "NAMESRV_ADDR=namesrv:9876"))
    return len(said.splitlines())


# -- RocketMQ's Java client --------------------------------------------------------------------------------------------


def java_client() -> list[str]:
    """Return the class path of the program, brought and compiled if need be."""
    java(JAVA_VERSION)(CACHE)
    jars = CACHE / f"java-{JAVA_VERSION}" / "jars"

    def compile_it(folder: Path) -> None:
        run_tool(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(folder), str(SOURCE)], folder)

    classes = filled(CACHE / f"java-{JAVA_VERSION}" / "reach", (SOURCE,), compile_it)
    return [str(classes), f"{jars}/*"]


def java_on_host(project: Project, topic: str, home: Path, vip: bool = False) -> Met:
    command = ["java", f"-Duser.home={home}", "-cp", ":".join(java_client()), "Reach"]
    done = subprocess.run(
        [*command, project.namesrv, topic, str(COUNT), str(vip).lower()],
        capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr + project.logs()
    return _met(done.stdout)


def java_in_container(project: Project, topic: str) -> Met:
    """Run it in another container, with the Java of the host."""
    shown = subprocess.run(
        ["java", "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=True
    )
    (home,) = [line.split(" = ")[1] for line in shown.stderr.splitlines() if line.strip().startswith("java.home")]
    mounted = {folder: folder for folder in (home, *map(str, Path("/etc").glob("java-*")))}
    # Debian keeps Java's configuration below /etc and links to it.
    mounted[str(CACHE)] = "/client"
    flags = [word for folder, there in mounted.items() for word in ("--volume", f"{folder}:{there}:ro")]
    class_path = ":".join(java_client()).replace(str(CACHE), "/client")
    command = [f"{home}/bin/java", "-cp", class_path, "Reach", "namesrv:9876", topic, str(COUNT), "false"]
    return _met(project.run(*command, flags=tuple(flags)))


def _met(said: str) -> Met:
    reported = {line.split()[0]: set(line.split()[1:]) for line in said.splitlines() if line}
    assert reported["missing"] == {"0"}
    return Met(reported["ids"], reported["records"])
