"""How many lines a flood of refused connections gets."""

import asyncio

import pytest

from staticfire.runtime import repeated_lines
from staticfire.runtime.repeated_lines import CAUSES_MAX, OTHERS, RepeatedLines

Line = tuple[str, str, str, int]


async def test_each_cause_of_a_host_is_reported_once_and_then_counted() -> None:
    said: list[Line] = []
    lines = RepeatedLines(lambda *line: said.append(line))
    for port in range(5):
        lines.note("refused", f"10.0.0.1:{port}", "plain text")
        lines.note("refused", f"[::1]:{port}", "plain text")
    lines.note("refused", "10.0.0.1:9", "expired")
    assert said == [
        ("refused", "10.0.0.1:0", "plain text", 1), ("refused", "[::1]:0", "plain text", 1),
        ("refused", "10.0.0.1:9", "expired", 1),
    ]  # fmt: skip
    said.clear()
    lines.flush()
    assert said == [("refused", "10.0.0.1:4", "plain text", 4), ("refused", "[::1]:4", "plain text", 4)]
    lines.note("refused", "10.0.0.1:9", "plain text")
    assert len(said) == 2, "it goes on, so it is only counted"
    lines.close()
    assert said[2:] == [("refused", "10.0.0.1:9", "plain text", 1)]


async def test_the_lines_of_a_second_have_a_limit() -> None:
    said: list[Line] = []
    lines = RepeatedLines(lambda *line: said.append(line))
    for host in range(1000):
        lines.note("refused", f"host{host}:1", "plain text")
    assert len(said) == CAUSES_MAX
    lines.close()
    assert said[CAUSES_MAX:] == [("refused", "", OTHERS, 1000 - CAUSES_MAX)]


async def test_the_second_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, reported = asyncio.get_running_loop(), asyncio.Event()
    said: list[Line] = []

    def report(*line: object) -> None:
        said.append(line)  # type: ignore[arg-type]
        if len(said) == 2:
            reported.set()

    monkeypatch.setattr(repeated_lines, "PERIOD_S", 0.01)
    lines = RepeatedLines(report)
    began = loop.time()
    lines.note("refused", "h:1", "x")
    lines.note("refused", "h:2", "x")
    await reported.wait()
    assert loop.time() - began >= 0.01
    lines.close()
    assert said == [("refused", "h:1", "x", 1), ("refused", "h:2", "x", 1)]
