"""`--watch` of each command that has it, until Ctrl-C: as a user who presses it during the third output."""

import io
import sys
from collections.abc import Iterator

import pytest

from staticfire import Cluster, Message, Producer
from staticfire.cli import main
from tests.cli.test_family import EXAMPLES, WATCHED

LINES = sorted({EXAMPLES[name] for name in WATCHED} | {"explain --message order-1", "replication"})


class Screen(io.StringIO):
    """Standard output. Ctrl-C is pressed as soon as it has more than `lines_max` lines."""

    def __init__(self, lines_max: int = 1_000) -> None:
        super().__init__()
        self._lines_max = lines_max

    def write(self, text: str) -> int:
        written = super().write(text)
        if self.getvalue().count("\n") > self._lines_max:
            raise KeyboardInterrupt
        return written


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        with Producer("shop", cluster.namesrv) as producer:
            producer.send(Message("orders", b"x", keys=["order-1"]))
        assert main(["create", "--group", "billing", "-n", cluster.namesrv]) == 0
        yield cluster


@pytest.mark.parametrize("line", LINES)
def test_output_is_repeated_until_ctrl_c(cluster: Cluster, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [*line.split(), "-n", cluster.namesrv]
    given += ["--control", cluster.control] if line.startswith("fault") else []
    once = Screen()
    monkeypatch.setattr(sys, "stdout", once)
    assert main(given) in (0, 1)
    lines = once.getvalue().count("\n")
    screen = Screen(2 * lines)
    monkeypatch.setattr(sys, "stdout", screen)
    assert main([*given, "--watch", "0.001"]) == 0
    assert screen.getvalue().count("\n") > 2 * lines
