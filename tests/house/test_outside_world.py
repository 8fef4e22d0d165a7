"""The cluster's programs access the outside world only through the interfaces of `runtime.machine.Machine`.

ruff forbids functions that it can recognize by name (pyproject.toml). This checks method calls, and calls that depend
on arguments.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.house.source import LAYERS, Finding, Rule, check, found, sources

ABOVE_RUNTIME = [folder for folder in LAYERS if folder != "runtime"]
PROGRAMS = ["nameserver", "broker", "client"]

SEAM_OF = {
    "run_in_executor": "machine.workers",
    "getaddrinfo": "machine.network",
    "getnameinfo": "machine.network",
    "create_connection": "machine.network",
    "create_server": "machine.network",
    "create_datagram_endpoint": "machine.network",
}
MACHINE_MODULES = {
    "multiprocessing",
    "os",
    "pathlib",
    "shutil",
    "signal",
    "subprocess",
    "tempfile",
    "threading",
    "time",
}


def called(call: ast.Call) -> str:
    """Return the last part of the called name."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def is_sleep(call: ast.Call) -> bool:
    """Return whether the call waits for time to pass. asyncio.sleep(0) only lets other tasks run."""
    lets_others_run = [argument.value for argument in call.args if isinstance(argument, ast.Constant)] == [0]
    return called(call) == "sleep" and not lets_others_run


def is_loop_time(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr != "time" or call.args:
        return False
    return not (isinstance(function.value, ast.Name) and function.value.id == "time")  # ruff checks time.time()


def foreign_threads_and_sockets() -> Iterator[Finding]:
    for source in sources(*ABOVE_RUNTIME):
        for call in source.calls():
            if isinstance(call.func, ast.Attribute) and called(call) in SEAM_OF:
                yield found(source, call, f"calls {called(call)}: use {SEAM_OF[called(call)]}")


def foreign_time() -> Iterator[Finding]:
    for source in sources(*ABOVE_RUNTIME):
        for call in filter(is_loop_time, source.calls()):
            yield found(source, call, "asks the event loop: take uptime_ms as a parameter, or machine.clock")


def sleeps() -> Iterator[Finding]:
    for source in sources(*ABOVE_RUNTIME, "tests"):
        for call in filter(is_sleep, source.calls()):
            yield found(source, call, "sleeps")


def foreign_files() -> Iterator[Finding]:
    for source in sources(*PROGRAMS):
        for call in source.calls():
            if isinstance(call.func, ast.Name) and call.func.id == "open":
                yield found(source, call, "opens a file: use machine.files")
        for name, statement in source.imports():
            if name.split(".")[0] in MACHINE_MODULES:
                yield found(source, statement, f"imports {name}: use the seams of machine")


RULES = [foreign_threads_and_sockets, foreign_time, sleeps, foreign_files]


@pytest.mark.parametrize("rule", RULES)
def test_the_outside_world_is_reached_through_the_machine(rule: Rule) -> None:
    check(rule)
