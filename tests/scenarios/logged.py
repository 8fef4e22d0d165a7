"""Capture what the programs of a scenario log."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from staticfire.runtime.log import logged_to


class LogLine(NamedTuple):
    """One log event."""

    level: str
    event: str
    fields: dict[str, object]


@pytest.fixture
def logged() -> Iterator[list[LogLine]]:
    """All log events, in order."""
    lines: list[LogLine] = []
    with logged_to(lambda level, event, fields: lines.append(LogLine(level, event, fields))):
        yield lines
