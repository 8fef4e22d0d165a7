"""What a process imports: the cluster no HTTP and no terminal library, `import staticfire` almost nothing."""

import json
import subprocess
import sys

import pytest

from tests.house.source import ROOT

TERMINAL_AND_HTTP = {"aiohttp", "click", "rich"}
HEAVY = TERMINAL_AND_HTTP | {"asyncio", "hypothesis", "msgpack", "msgspec", "pytest", "sqlite3", "structlog"}

LOAD_ALL = """
import importlib, json, pkgutil, sys
for top in sys.argv[1:]:
    package = importlib.import_module(top)
    for module in pkgutil.walk_packages(package.__path__, top + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""
LOAD = "import json, sys, staticfire; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"


def packages_loaded_by(program: str, *arguments: str) -> set[str]:
    command = [sys.executable, "-c", program, *arguments]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert printed.returncode == 0, printed.stderr
    return set(json.loads(printed.stdout))


@pytest.mark.parametrize("package", ["nameserver", "broker", "client", "proxy", "runtime", "protocol"])
def test_programs_of_the_cluster_load_no_http_and_no_terminal_library(package: str) -> None:
    assert packages_loaded_by(LOAD_ALL, f"staticfire.{package}") & TERMINAL_AND_HTTP == set()


def test_importing_staticfire_is_light() -> None:
    assert packages_loaded_by(LOAD) & HEAVY == set()
