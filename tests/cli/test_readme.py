"""What README shows runs, word for word but for addresses and for what never ends."""

import ast
import asyncio
import inspect
import re
import shlex
from collections.abc import Iterator
from types import CodeType
from typing import Any

import pytest

from staticfire import Cluster
from tests.cli.commands import ROOT, call

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:9876"
ENDS = {"consume": ["--from", "first", "--max", "1", "--timeout", "20s"]}
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


def compiled(text: str) -> CodeType:
    """Compile code that may `await` at its top level."""
    code: CodeType = compile(text, "README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return code


def test_a_cluster_in_a_test() -> None:
    (text,) = [text for text in blocks("python") if "with Cluster" in text]
    seen: list[str] = []
    exec(text, {"run_my_program": lambda namesrv: seen.append(namesrv)})
    assert len(seen) == 1


async def test_its_own_client(cluster: Cluster) -> None:
    texts = [text for text in blocks("python") if "Producer(" in text]
    assert len(texts) == 2, "the asyncio one and the blocking one"
    names: dict[str, Any] = {}
    for text in texts:
        code = compiled(text.replace(ADDRESS, cluster.namesrv))
        if code.co_flags & inspect.CO_COROUTINE:
            await eval(code, names)
        else:
            await asyncio.get_running_loop().run_in_executor(None, exec, code, names)


def test_commands_of_a_running_cluster(cluster: Cluster) -> None:
    shown = [arguments for arguments in commands() if arguments[0] in ("send", "clock", "peek", "consume")]
    assert [arguments[0] for arguments in shown] == ["send", "clock", "peek", "consume"]
    for arguments in shown:
        done = call(*arguments, *ENDS.get(arguments[0], []), NAMESRV_ADDR=cluster.namesrv)
        assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout


def test_a_command_with_a_cluster_around_it() -> None:
    (arguments,) = [arguments for arguments in commands() if arguments[0] == "run"]
    assert arguments[-2:] == ["mvn", "test"]
    done = call(*arguments[:-2], "sh", "-c", "test -n $NAMESRV_ADDR && exit 7")
    assert done.returncode == 7, done.stderr
