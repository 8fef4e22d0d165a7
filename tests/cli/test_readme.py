"""What README shows runs, word for word but for addresses and for what never ends. Its first test: tests/docs."""

import re
import shlex
from collections.abc import Iterator

import pytest

from staticfire import Cluster
from tests.cli.commands import ROOT, call

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ENDS = {"consume": ["--timeout", "20s"]}
"""What commands of README are given besides, so that they end."""


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall((ROOT / "README.md").read_text()) if kind == language]


def commands() -> list[list[str]]:
    """Return the arguments of each `staticfire ...` line."""
    lines = "".join(blocks("")).splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("staticfire ")]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def test_a_cluster_in_a_test() -> None:
    (text,) = [text for text in blocks("python") if "with Cluster" in text]
    seen: list[str] = []
    exec(text, {"Cluster": Cluster, "run_my_program": lambda namesrv: seen.append(namesrv)})
    assert len(seen) == 1


def test_commands_of_a_running_cluster(cluster: Cluster) -> None:
    up, *shown = [arguments for arguments in commands() if arguments[0] != "run"]
    assert up == ["up"]
    assert [arguments[0] for arguments in shown] == ["send", "clock", "consume", "group"]
    output = ""
    for arguments in shown:
        done = call(*arguments, *ENDS.get(arguments[0], []), NAMESRV_ADDR=cluster.namesrv)
        assert done.returncode == 0, done.stderr
        output += done.stdout
    assert "hello" in output


def test_commands_with_a_cluster_around_them() -> None:
    shown = [arguments for arguments in commands() if arguments[0] == "run"]
    assert [arguments[2] for arguments in shown] == ["mvn", "go", "npm"]
    for arguments in shown:
        assert arguments[:2] == ["run", "--"]
    done = call("run", "--", "sh", "-c", "test -n $NAMESRV_ADDR && test -n $STATICFIRE_CONTROL && exit 7")
    assert done.returncode == 7, done.stderr
