"""The jobs with what can't work: one line that says what, to what, and the way out, before any Spark is started."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from staticfire import Cluster
from staticfire.cli import main
from tests.cli.commands import one_line

pytestmark = [pytest.mark.spark, pytest.mark.row("E4")]


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=1)
        yield cluster.namesrv


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (["--from", "nowhere"], 2, "--from nowhere: neither a folder nor a nameserver"),
        (["--from", "."], 2, "--continuous needs a cluster, but --from . is a folder"),
        (["--from", "127.0.0.1:1"], 1, "no nameserver responds (connect to 127.0.0.1:1 failed"),
        (["--from", "{namesrv}", "--topic", "nope"], 1, "there is no topic nope at {namesrv}"),
        (["--from", "{namesrv}", "--topic", "a b"], 2, "The specified topic contains illegal characters"),
        (["--from", "{namesrv}", "--trace-topic", "nope"], 1, "there is no trace topic nope at {namesrv}"),
        (["--from", "{namesrv}", "--every-ms", "0"], 2, "Invalid value for '--every-ms': 0"),
    ],
)
def test_consumption_says_what_is_wrong_in_one_line(
    namesrv: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    flags: list[str], code: int, words: str,
) -> None:  # fmt: skip
    given = [flag.format(namesrv=namesrv) for flag in flags]
    assert main(["pipeline", "consumption", *given, "--continuous", "--to", str(tmp_path / "out")]) == code
    assert words.format(namesrv=namesrv) in one_line(capsys.readouterr().err)
