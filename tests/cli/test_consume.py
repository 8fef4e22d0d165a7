"""`staticfire consume`: a member of a group in the foreground, as a process beside a cluster."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from staticfire import Cluster
from tests.cli.commands import ROOT, TIMEOUT_S, call, command, environment, one_line


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, settings={"messageDelayLevel": "1s 1s 1s 1s"}) as cluster:
        yield cluster


def send(cluster: Cluster, topic: str, *bodies: str, flags: tuple[str, ...] = ()) -> None:
    done = call("send", "-n", cluster.namesrv, *flags, topic, text="\n".join(bodies))
    assert done.returncode == 0, done.stderr


def consume(cluster: Cluster, *arguments: str, exit_code: int = 0, **more: str) -> list[dict[str, Any]]:
    """Consume as JSON until the command ends."""
    done = call("consume", "-n", cluster.namesrv, "--json", "--timeout", "90s", *arguments, **more)
    assert done.returncode == exit_code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return sorted(message["body"] for message in messages)


@pytest.mark.row("C12", "F1")
def test_so_many_are_consumed_and_no_more(cluster: Cluster) -> None:
    send(cluster, "counted", *[f"{number:02}" for number in range(60)])
    parts = [consume(cluster, "-g", "billing", "--max", str(count), "counted") for count in (7, 1, 52)]
    assert [len(part) for part in parts] == [7, 1, 52]
    assert bodies([message for part in parts for message in part]) == [f"{number:02}" for number in range(60)]
    done = call("consume", "-n", cluster.namesrv, "-g", "billing", "--max", "1", "--timeout", "300ms", "counted")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "staticfire: 0 of 1 messages arrived\n")


def test_several_topics_are_filtered_by_tag(cluster: Cluster) -> None:
    for topic in ("paid", "refunds"):
        for tag in ("paid", "refunded", "lost"):
            send(cluster, topic, f"{topic} {tag}", flags=("--tag", tag, "--key", "42"))
    found = consume(cluster, "-g", "tagged", "--tag", "paid || refunded", "--max", "4", "paid", "refunds")
    assert bodies(found) == ["paid paid", "paid refunded", "refunds paid", "refunds refunded"]
    assert {(message["topic"], *message["keys"]) for message in found} == {("paid", "42"), ("refunds", "42")}


@pytest.mark.row("C4")
def test_a_group_that_fails_gets_its_messages_again(cluster: Cluster) -> None:
    send(cluster, "failing", "x")
    first, second = consume(cluster, "-g", "failing", "--fail", "--max", "2", "failing")
    assert (first["reconsumeTimes"], second["reconsumeTimes"]) == (0, 1)
    assert (first["body"], first["topic"]) == (second["body"], second["topic"]) == ("x", "failing")
    (third,) = consume(cluster, "-g", "failing", "--max", "1", "failing")
    assert third["reconsumeTimes"] == 2


def test_where_a_new_group_begins(cluster: Cluster) -> None:
    send(cluster, "history", "old")
    (old,) = consume(cluster, "-g", "unsaid", "--max", "1", "history")
    behind = str(old["storedMs"] + 1)
    assert bodies(consume(cluster, "-g", "from-2020", "--from", "2020-01-01", "--max", "1", "history")) == ["old"]
    for start in ("last", behind):
        arguments = ["-g", f"from-{start}", "--from", start, "--timeout", "500ms", "history"]
        assert consume(cluster, *arguments) == []


def test_each_who_broadcasts_gets_everything_once(cluster: Cluster, tmp_path: Path) -> None:
    send(cluster, "news", "a", "b")
    for home in ("one", "two"):
        arguments = ("-g", "readers", "--broadcast", "--from", "first", "news")
        assert bodies(consume(cluster, "--max", "2", *arguments, HOME=str(tmp_path / home))) == ["a", "b"]
        assert consume(cluster, "--timeout", "300ms", *arguments, HOME=str(tmp_path / home)) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_offsets_stored_and_lines_for_people(cluster: Cluster, number: signal.Signals) -> None:
    topic = f"signal-{number.value}"
    send(cluster, topic, "[bold]\tnot \x1b[31mred", flags=("--tag", "paid", "--key", "42"))
    arguments = command("consume", "-n", cluster.namesrv, "-g", topic, topic)
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment()
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out, err) == (0, "", "")
    shown = rf"{topic} broker-[ab]/\d 0 +\d{{4}}-\d\d-\d\d [\d:.]+  paid 42 \[bold\]\\tnot \\x1b\[31mred\n"
    assert re.fullmatch(shown, line), line
    assert consume(cluster, "-g", topic, "--timeout", "300ms", topic) == []


def test_who_reads_no_more_gets_no_more(cluster: Cluster) -> None:
    send(cluster, "piped", *[f"{number:04}" for number in range(2_000)])
    arguments = command("consume", "-n", cluster.namesrv, "-g", "piped", "--json", "piped")
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment()
    ) as process:
        assert process.stdout is not None
        seen = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (128 + signal.SIGPIPE, "")
    assert len({message["messageId"] for message in seen}) == 3
    rest = consume(cluster, "-g", "piped", "--timeout", "1s", "piped")
    assert all(message["reconsumeTimes"] == 0 for message in rest)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["orders"], 2, "--group"),
        (["-g", "billing"], 2, "TOPICS"),
        (["-g", "billing", "--from", "monday", "orders"], 2, "'monday' is not a time"),
        (["-g", "billing", "--timeout", "soon", "orders"], 2, "'soon' is not a duration"),
        (["-g", "a b", "orders"], 2, "the group 'a b' contains characters"),
        (["-g", "DEFAULT_CONSUMER", "orders"], 1, "choose another name"),
        (["-n", "127.0.0.1:1", "-g", "billing", "orders"], 1, "127.0.0.1:1"),
    ],
)
def test_what_is_wrong_is_reported(cluster: Cluster, arguments: list[str], exit_code: int, words: str) -> None:
    done = call("consume", *arguments, NAMESRV_ADDR=cluster.namesrv)
    assert done.returncode == exit_code
    assert words in one_line(done.stderr) if exit_code == 1 else words in done.stderr
