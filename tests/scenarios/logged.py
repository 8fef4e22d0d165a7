"""Capture what the programs of a scenario log."""

from typing import NamedTuple

import pytest

from staticfire.runtime.log import Logger


class LogLine(NamedTuple):
    """One log event."""

    level: str
    event: str
    fields: dict[str, object]


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[LogLine]:
    """All log events, in order."""
    lines: list[LogLine] = []

    def emit(_: Logger, level: str, event: str, fields: dict[str, object]) -> None:
        lines.append(LogLine(level, event, fields))

    monkeypatch.setattr(Logger, "_emit", emit)
    return lines
