"""Troubles as they are told: those that take next to no time, and what is wrong with a file; all: troubles.py."""

from pathlib import Path

import pytest

from staticfire.cli import main
from tests.simulation.troubles import CLAIMS, ways_of
from tools.troubles import EXAMPLES, trouble_names

pytestmark = pytest.mark.row("S3")


def test_ten_are_shown() -> None:
    assert trouble_names() == sorted(CLAIMS)
    assert len(CLAIMS) == 10


@pytest.mark.parametrize("name", ["lonely_topic", "open_transaction", "hanging_broker"])
def test_a_trouble_is_there_and_can_be_avoided(name: str) -> None:
    ways = ways_of(name)
    assert CLAIMS[name](ways), ways


def test_a_trouble_is_played_once_per_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(EXAMPLES / "lonely_topic.py")]) == 0
    reported = capsys.readouterr().out.splitlines()
    assert reported[0] == "A topic that was made by its first message stays on one broker"
    assert reported[1].strip() == "https://github.com/apache/rocketmq/issues/566"
    assert [line.split("  ")[0] for line in reported[-2:]] == [
        "RocketMQ's default: made by the first message",
        "autoCreateTopicEnable=false, made before",
    ]


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("trouble = 1\n", [], "defines an invalid `trouble`"),
        ("x = 1 / 0\ntrouble = None\n", [], "mine.py:1: ZeroDivisionError"),
        (None, ["--seeds", "3"], "accepts neither --seeds nor --trace"),
        (None, ["--seed", "3", "--trace"], "accepts neither --seeds nor --trace"),
    ],
)
def test_what_is_wrong_is_reported(
    text: str | None, arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = EXAMPLES / "lonely_topic.py"
    if text is not None:
        path = tmp_path / "mine.py"
        path.write_text(text)
    assert main(["simulate", *arguments, str(path)]) == 2
    assert words in capsys.readouterr().err
