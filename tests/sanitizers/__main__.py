"""`python -m tests.sanitizers [arguments of pytest]`: see the package. Exit code 2: nothing to build it with."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.sanitizers.build import CANARY, ROOT, BuildError, build

TESTS = (
    "tests/protocol/test_compiled.py",
    "tests/broker/test_send_runs.py",
    "tests/broker/test_send_run_headers.py",
    "tests/broker/test_transaction_runs.py",
    "tests/proxy/test_received_messages.py",
    "tests/fuzz/test_compiled_parts.py",
    "tests/fuzz/test_compiled_memory.py",
)
"""All that enter compiled functions in their own process; tests/pipeline/test_columns.py does so, but needs pyarrow."""
OPTIONS = {
    # CPython keeps memory until the process ends; tests/fuzz/test_compiled_memory.py looks for what leaks.
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    # Each object is an allocation of its own, so that its end is one that the sanitizer knows.
    "PYTHONMALLOC": "malloc",
}
CANARY_TIMEOUT_S = 60


class Fault(NamedTuple):
    """A call of the canary that is right, one that isn't, and what must be reported of that."""

    right: str
    wrong: str
    report: str


FAULTS = (
    Fault("read_guarded(8, True)", "read_guarded(9, True)", "heap-buffer-overflow"),
    Fault("read_guarded(8, False)", "read_guarded(9, False)", "use-after-poison"),
    Fault("canary.write_bytes(20, 20)", "canary.write_bytes(20, 22)", "heap-buffer-overflow"),
    Fault("check_ends(canary.write_bytes(20, 20))", "check_ends(canary.write_bytes(20, 21))", "written beyond the end"),
    Fault("canary.read_freed(False)", "canary.read_freed(True)", "heap-use-after-free"),
    Fault("canary.add_to_largest(0)", "canary.add_to_largest(1)", "signed integer overflow"),
    Fault("canary.copy_nothing(True)", "canary.copy_nothing(False)", "null pointer passed"),
)  # fmt: skip
PRELUDE = f"""
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from tests.fuzz.guarded import check_ends, guarded

loader = ExtensionFileLoader("canary", {str(CANARY)!r})
canary = module_from_spec(spec_from_loader("canary", loader))

def read_guarded(count, is_array):
    with guarded(bytes(8), is_array) as data:
        canary.read_bytes(data, count)
"""


def sanitized(libraries: Sequence[Path]) -> dict[str, str]:
    """Return the environment in which instrumented modules can be loaded."""
    known = {name: value for name, value in os.environ.items() if name != "STATICFIRE_PURE_PYTHON"}
    return known | OPTIONS | {"LD_PRELOAD": ":".join(map(str, libraries))}


def missed_faults(environment: dict[str, str]) -> list[str]:
    """Return what is wrong with the sanitizers themselves: a fault that isn't reported, or a report without one."""
    problems = []
    code, said = _run_canary([fault.right for fault in FAULTS], environment)
    if code != 0:
        problems.append(f"calls without a fault ended with {code}:\n{said}")
    for fault in FAULTS:
        code, said = _run_canary([fault.wrong], environment)
        if code == 0 or fault.report not in said:
            problems.append(f"{fault.wrong} ended with {code} and no report of {fault.report!r}:\n{said}")
    return problems


def _run_canary(calls: list[str], environment: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([PRELUDE, *calls])], cwd=ROOT, env=environment, timeout=CANARY_TIMEOUT_S,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def main(arguments: list[str]) -> int:
    try:
        environment = sanitized(build())
    except BuildError as error:
        print(f"test-sanitizers: {error}", file=sys.stderr)
        return 2
    problems = missed_faults(environment)
    for problem in problems:
        print(f"test-sanitizers: the sanitizers can't be trusted here: {problem}", file=sys.stderr)
    if problems:
        return 1
    print(f"sanitizers: each of {len(FAULTS)} planted faults is reported", flush=True)
    # A report goes to the process's stderr, and the process ends: pytest must not have that captured.
    command = [sys.executable, "-m", "pytest", "-q", "--capture=sys", "-p", "tests.sanitizers.plugin"]
    return subprocess.run([*command, *TESTS, *arguments], cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
