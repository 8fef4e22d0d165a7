"""Reads a workload from a Python file, which defines `workload`: a Workload, or a function that makes one per seed."""

import re
import runpy
import traceback
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Any

from staticfire.protocol.errors import UsageError
from staticfire.simulation.workload import description
from staticfire.simulation.workload.description import Workload
from staticfire.simulation.workload.spelling import did_you_mean

NAME = "workload"
_UNKNOWN_ARGUMENT = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")


class NotMade(UsageError):
    """A function that makes workloads failed for this seed."""


WorkloadMaker = Callable[[Random], Workload]


def load_workload(path: str) -> WorkloadMaker:
    """Return a function that makes a workload from a seed's randomness. Raises: UsageError, with line and reason."""
    made = run_file(path).get(NAME)
    if isinstance(made, Workload):
        return lambda _: made
    if not callable(made):
        raise UsageError(
            f"{path} defines no `{NAME}`: write `{NAME} = Workload(...)`, or `def {NAME}(chance)` that returns one"
        )
    return _checked(path, made)


def run_file(path: str) -> dict[str, Any]:
    """Run a user's file and return its variables. Raises: UsageError, with line and reason."""
    if not Path(path).is_file():
        raise UsageError(f"there is no workload file {path}")
    try:
        return runpy.run_path(path)
    except SyntaxError as error:
        raise UsageError(f"{path}:{error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a person's own file raises is reported with its line)
        raise UsageError(f"{path}:{_line(error, path)}: {_words(error)}") from None


def _checked(path: str, make: WorkloadMaker) -> WorkloadMaker:
    def make_checked(chance: Random) -> Workload:
        try:
            workload = make(chance)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (as above)
            raise NotMade(f"{path}:{_line(error, path)}: {_words(error)}") from None
        if not isinstance(workload, Workload):
            raise NotMade(f"{path}: {NAME}(chance) returned {type(workload).__name__}, not a Workload")
        return workload

    return make_checked


def _line(error: BaseException, path: str) -> int:
    """Return the last line of the file in an error's traceback."""
    lines = [frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return lines[-1] if lines else 0


def _words(error: BaseException) -> str:
    if isinstance(error, UsageError):
        return str(error)
    unknown = _UNKNOWN_ARGUMENT.search(str(error))
    kind = getattr(description, unknown[1], None) if unknown else None
    if unknown is None or not is_dataclass(kind):
        return f"{type(error).__name__}: {error}"
    names = [each.name for each in fields(kind)]
    return f"{unknown[1]} has no {unknown[2]!r}; {did_you_mean(unknown[2], names)}"
