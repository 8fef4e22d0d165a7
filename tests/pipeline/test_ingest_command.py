"""`staticfire pipeline ingest` with what can't work: one line, before any Spark is started."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from staticfire import Cluster
from staticfire.pipeline.jobs.settings import IngestSettings
from staticfire.pipeline.jobs.topics import NewDeadLetters, topics_of, topics_there
from staticfire.pipeline.options import SourceOptions
from staticfire.protocol.errors import ClientError, NetworkError, UsageError
from staticfire.protocol.times import UptimeMs
from tests.cli.commands import ROOT, call, environment, one_line

WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
from staticfire.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_help_needs_no_spark() -> None:
    done = call("pipeline", "ingest", "--help")
    assert done.returncode == 0
    assert "--dead-letters-of GROUP" in done.stdout


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (["--to", "out"], 2, "give a topic (--topic)"),
        (["--topic", "orders"], 2, "Missing option '--to'"),
        (["--topic", "orders", "--to", "out", "--partition-by", "day"], 2, "--partition-by day: unknown column"),
        (["--topic", "orders", "--to", "out", "--checkpoint", "out"], 2, "this is the output folder itself"),
        (["--topic", "orders", "--to", "out", "-n", "127.0.0.1:1"], 1, "no nameserver responds"),
    ],
)
def test_wrong_flags_are_one_line(flags: list[str], code: int, words: str) -> None:
    done = call("pipeline", "ingest", *flags)
    assert done.returncode == code
    assert words in one_line(done.stderr)


def test_a_missing_topic_is_one_line(tmp_path: Path) -> None:
    with Cluster() as cluster:
        done = call("pipeline", "ingest", "-n", cluster.namesrv, "--topic", "nope", "--to", str(tmp_path / "out"))
    assert done.returncode == 1
    assert one_line(done.stderr).startswith("staticfire: there is no topic nope at 127.0.0.1:")
    assert not (tmp_path / "out").exists()


def test_without_the_extra_it_says_how_to_get_it(tmp_path: Path) -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders")
        flags = ["pipeline", "ingest", "-n", cluster.namesrv, "--topic", "orders", "--to", str(tmp_path / "out")]
        command = [sys.executable, "-c", WITHOUT_SPARK, *flags]
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 2
    assert "pip install 'staticfire[spark]'" in one_line(done.stderr)


def test_a_retry_topic_without_a_message_is_not_there() -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders")
        topics = ["%RETRY%billing", "orders", "%DLQ%billing"]
        assert topics_there(SourceOptions(cluster.namesrv, ()), topics) == ["orders"]


def test_options_of_the_source_are_those_of_the_first_look_at_the_topics(tmp_path: Path) -> None:
    with Cluster(settings={"tls.server.mode": "enforcing", "autoCreateTopicEnable": False}) as cluster:
        there = IngestSettings(("TBW102",), "out", cluster.namesrv, options={"tls.enable": "true"})
        with pytest.raises(ClientError, match="there is no topic TBW102"):
            topics_of(there)
        with pytest.raises(NetworkError, match="TLS"):
            topics_of(replace(there, options={"tls.enable": "false"}))
        with pytest.raises(UsageError, match="protocol=kafka: write staticfire or rocketmq"):
            topics_of(replace(there, options={"protocol": "kafka"}))


def test_a_dead_letter_topic_is_noticed_while_an_ingest_runs() -> None:
    now_ms = UptimeMs(0)
    with Cluster() as cluster:
        cluster.create_topic("orders")
        settings = IngestSettings(
            ("orders",), "out", cluster.namesrv, dead_letters_of=("billing", "mailing"), continuous=True
        )
        news = NewDeadLetters(settings, topics_of(settings), lambda: now_ms)
        assert (news.came(), news.topics) == (False, ("orders",))
        cluster.create_topic("%DLQ%billing", queues=1)
        assert not news.came()  # It was checked just now.
        now_ms = UptimeMs(settings.trigger_ms)
        assert (news.came(), news.topics) == (True, ("orders", "%DLQ%billing"))
        once = NewDeadLetters(replace(settings, continuous=False), ("orders",), lambda: now_ms)
        assert not once.came()
    now_ms = UptimeMs(2 * settings.trigger_ms)
    assert (news.came(), news.topics) == (False, ("orders", "%DLQ%billing"))  # No nameserver responds.
