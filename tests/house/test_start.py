"""What a server process imports until it is ready: imports are most of the start time.

`staticfire up` must be ready in half a second. How long imports take depends on the machine, but their number doesn't.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from staticfire.runtime.siblings import COMMON
from tests.house.source import ROOT

START = """
import importlib, json, sys
program = importlib.import_module(f"staticfire.{sys.argv[1]}.__main__").PROGRAM
import asyncio
from staticfire.runtime.live import live_machine
async def start(**settings):
    machine = live_machine()
    settings = program.settings(listen_host="127.0.0.1", **settings)
    async with program.service(machine, settings, None):
        print(json.dumps(sorted(sys.modules)))
    await machine.workers.close()
asyncio.run(start(**json.loads(sys.argv[2])))
"""

NEEDLESS = {
    "ssl", "_ssl", "hashlib", "_hashlib",  # OpenSSL: 3 MiB
    "aiohttp", "click", "msgpack", "rich", "shutil", "structlog", "tempfile", "tomllib", "typing_extensions",
}  # fmt: skip
# The current numbers and a small reserve. Each module takes a third of a millisecond. What only few starts need can be
# imported at the place of use. A broker's parts are created in several modules, so that each names only what it uses:
# that costs 2 ms.
OWN_MODULES_MAX = {"nameserver": 124, "broker": 268, "proxy": 240}


@pytest.mark.parametrize("program", ["nameserver", "broker", "proxy"])
def test_server_starts_without_what_it_doesnt_need(program: str, tmp_path: Path) -> None:
    settings: dict[str, dict[str, object]] = {
        "nameserver": {"listen_port": 0, "folder": str(tmp_path)},
        "broker": {"listen_port": 0, "store_path_root_dir": str(tmp_path)},
        "proxy": {"grpc_server_port": 0},
    }
    modules = set(run(START, program, json.dumps(settings[program])))
    assert modules & NEEDLESS == set()
    own = [name for name in modules if name.startswith("staticfire.")]
    assert len(own) <= OWN_MODULES_MAX[program]


@pytest.mark.parametrize(
    ("module", "needless"),
    [
        ("staticfire.cli.up", {"asyncio", "msgspec", "aiohttp", "rich", "staticfire.broker.server"}),
        ("staticfire.cli.run", {"asyncio", "msgspec", "aiohttp", "rich", "staticfire.broker.server"}),
        ("staticfire.cluster.cluster", {"msgspec", "aiohttp", "rich", "staticfire.broker.server"}),
    ],
)
def test_who_starts_processes_loads_little_before(module: str, needless: set[str]) -> None:
    loaded = run(f"import json, sys, {module}; print(json.dumps(list(sys.modules)))")
    assert set(loaded) & needless == set()


@pytest.mark.parametrize("program", ["nameserver", "broker", "proxy"])
def test_servers_that_import_together_import_only_what_each_of_them_needs(program: str) -> None:
    common = f"import json, sys, {', '.join(COMMON)}; print(json.dumps(list(sys.modules)))"
    alone = f"import json, sys, staticfire.{program}.__main__; print(json.dumps(list(sys.modules)))"
    assert {name for name in run(common) if name.startswith("staticfire.")} <= set(run(alone))


def test_what_a_start_does_without_can_be_imported_afterwards() -> None:
    assert "ssl" in run("import json, sys, staticfire.nameserver.__main__, ssl; print(json.dumps(list(sys.modules)))")


def run(program: str, *arguments: str) -> list[str]:
    """Run a program in a process without `site`, as servers run; return the names that it prints."""
    path = f"{ROOT}:{':'.join(entry for entry in sys.path if entry)}"
    command = [sys.executable, "-S", "-P", "-c", program, *arguments]
    printed = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert printed.returncode == 0, printed.stderr
    names: list[str] = json.loads(printed.stdout)
    return names
