"""`--watch`: its number, and each command that has it until Ctrl-C, which is pressed during the third output."""

import io
import sys
from collections.abc import Callable, Iterator

import pytest

from staticfire import Cluster, Message, Producer
from staticfire.cli import main
from staticfire.cli.family import WATCH_S, watch_filled
from staticfire.cli.listing import watched
from staticfire.protocol.errors import ClientError
from tests.cli.commands import one_line
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


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ("group --watch billing", f"group --watch={WATCH_S:g} billing"),
        ("group billing --watch", f"group billing --watch={WATCH_S:g}"),
        ("group --watch 0.5 billing", "group --watch 0.5 billing"),
        ("topics --watch .5", "topics --watch .5"),
        ("topics --watch --json", f"topics --watch={WATCH_S:g} --json"),
    ],
)
def test_watch_takes_a_number_or_none(given: str, filled: str) -> None:
    assert watch_filled(given.split()) == filled.split()


def test_watching_looks_again_until_ctrl_c_and_outlives_a_cluster_that_is_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    looks: list[Callable[[], int]] = [lambda: 1, _away, lambda: 0]
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if not looks:
            raise KeyboardInterrupt

    assert watched(0.5, lambda: looks.pop(0)(), pause) == 0
    assert pauses == [0.5] * 3
    assert one_line(capsys.readouterr().err) == "staticfire: away"
    with pytest.raises(ClientError):
        watched(1.0, _away, pause)


def _away() -> int:
    raise ClientError("away")
