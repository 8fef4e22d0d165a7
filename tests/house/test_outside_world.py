"""The programs of the cluster reach the outside world through the seams of `runtime.machine.Machine` only.

ruff forbids the functions that it can see by name (pyproject.toml); here are method calls, and what depends on
arguments.
"""

import ast
from collections.abc import Iterator

from tests.house.source import LAYERS, Source, sources

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
    """Tell whether the call waits for time to pass. asyncio.sleep(0) only lets others run."""
    lets_others_run = [argument.value for argument in call.args if isinstance(argument, ast.Constant)] == [0]
    return called(call) == "sleep" and not lets_others_run


def is_loop_time(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr != "time" or call.args:
        return False
    return not (isinstance(function.value, ast.Name) and function.value.id == "time")  # time.time() is ruff's


def flagged(places: list[Source]) -> Iterator[tuple[Source, ast.Call]]:
    for source in places:
        yield from ((source, call) for call in source.calls() if not source.is_exception(call))


def test_threads_and_sockets_come_from_the_machine() -> None:
    wrong = [
        f"{source.place(call)} calls {called(call)}: use {SEAM_OF[called(call)]}"
        for source, call in flagged(sources(*ABOVE_RUNTIME))
        if isinstance(call.func, ast.Attribute) and called(call) in SEAM_OF
    ]
    assert not wrong, "\n".join(wrong)


def test_time_comes_from_the_machine() -> None:
    wrong = [
        f"{source.place(call)} asks the event loop: take uptime_ms as a parameter, or machine.clock"
        for source, call in flagged(sources(*ABOVE_RUNTIME))
        if is_loop_time(call)
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_sleeps() -> None:
    wrong = [
        f"{source.place(call)} sleeps" for source, call in flagged(sources(*ABOVE_RUNTIME, "tests")) if is_sleep(call)
    ]
    assert not wrong, "\n".join(wrong)


def test_files_come_from_the_machine() -> None:
    wrong = [
        f"{source.place(call)} opens a file: use machine.files"
        for source, call in flagged(sources(*PROGRAMS))
        if isinstance(call.func, ast.Name) and call.func.id == "open"
    ]
    wrong += [
        f"{source.place(statement)} imports {name}: use the seams of machine"
        for source in sources(*PROGRAMS)
        for name, statement in source.imports()
        if name.split(".")[0] in MACHINE_MODULES and not source.is_exception(statement)
    ]
    assert not wrong, "\n".join(wrong)
