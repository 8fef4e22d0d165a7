"""`staticfire dlq`, the control endpoint's /dlq, and `cluster.dlq()`: dead letters of a cluster of real processes."""

import base64
import json
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from staticfire import (
    ClientError,
    Cluster,
    ConsumeContext,
    ConsumeStatus,
    DeadLetter,
    DeadLetterQueue,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from tests.cli.commands import TIMEOUT_S, call, get, one_line
from tests.protocols import PROTOCOLS

pytestmark = pytest.mark.row("A5")
BODIES = [b"[bold]not markup[/bold]", b"two\x1b[31m", bytes(range(256))]


def bury(namesrv: str, topic: str, group: str, *messages: Message) -> None:
    """Let messages die of a group, one after the other, so that their dead letters are in this order."""
    with Producer("shop", namesrv) as producer:
        for message in messages:
            producer.send(message)
            _bury_next(namesrv, topic, group)


def _bury_next(namesrv: str, topic: str, group: str) -> None:
    consumer = PushConsumer(group, namesrv)
    consumer.subscribe(topic)
    died = threading.Event()

    @consumer.listener
    def listen(_: tuple[ReceivedMessage, ...], context: ConsumeContext) -> ConsumeStatus:
        context.delay_level_when_next_consume = -1
        died.set()
        return ConsumeStatus.RECONSUME_LATER

    with consumer:  # It leaves when the broker has the dead letter.
        assert died.wait(TIMEOUT_S)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=1)
        cluster.create_topic("elsewhere", queues=1)
        messages = [
            Message("orders", body, tags="paid", keys=["42"], properties={"number": str(number)})
            for number, body in enumerate(BODIES)
        ]
        bury(cluster.namesrv, "orders", "billing", *messages)
        assert cluster.dead_letters() == {"billing": 3}
        yield cluster


def listed(cluster: Cluster, *arguments: str) -> list[dict[str, Any]]:
    done = call("dlq", "list", "-n", cluster.namesrv, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


# -- the command line --------------------------------------------------------------------------------------------------


def test_groups_with_dead_letters_are_listed(cluster: Cluster) -> None:
    assert listed(cluster) == [{"group": "billing", "count": 3}]
    assert call("dlq", "list", "-n", cluster.namesrv).stdout == "billing  3\n"


def test_the_letters_of_a_group_are_a_table_for_people(cluster: Cluster) -> None:
    done = call("dlq", "list", "-n", cluster.namesrv, "billing", COLUMNS="160")
    head, first, second, *_ = done.stdout.splitlines()
    assert head.split() == ["id", "died", "from", "failed", "tag", "keys", "body"]
    assert first.split()[0] == "broker-a/0/0"
    assert first.split()[3:] == ["orders", "1", "paid", "42", "[bold]not", "markup[/bold]"]
    assert "\x1b" not in second


def test_the_oldest_or_the_newest_of_them(cluster: Cluster) -> None:
    assert [letter["id"] for letter in listed(cluster, "billing", "--max", "2")] == ["broker-a/0/0", "broker-a/0/1"]
    assert [letter["id"] for letter in listed(cluster, "billing", "--max", "1", "--last")] == ["broker-a/0/2"]
    assert "1 of 3" in call("dlq", "list", "-n", cluster.namesrv, "billing", "--max", "1").stdout


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_letter_is_shown_with_all_that_it_has(cluster: Cluster, protocol: str) -> None:
    flags = ["-n", cluster.namesrv, "--protocol", protocol]
    shown = json.loads(call("dlq", "show", *flags, "--json", "billing", "broker-a/0/2").stdout)
    assert base64.b64decode(shown["bodyBase64"]) == BODIES[2]
    assert (shown["originTopic"], shown["tags"], shown["properties"]["number"]) == ("orders", "paid", "2")
    text = call("dlq", "show", *flags, "billing", shown["messageId"]).stdout
    assert "from                        topic orders, first record" in text or "from " in text
    assert "property number" in text
    assert "of group billing, after 1 failures" in text


def test_a_letter_that_is_shown_sends_no_commands_to_a_terminal(cluster: Cluster) -> None:
    shown = call("dlq", "show", "-n", cluster.namesrv, "billing", "broker-a/0/1").stdout
    assert shown.endswith("bytes:\ntwo\\x1b[31m\n")
    cluster.create_topic("commands", queues=1)
    body = "lines\none\x9b31m \x7f é"
    with Producer("shop", cluster.namesrv) as producer:
        producer.send(Message("commands", body.encode(), keys=["key"], properties={"say": "\x9b31m"}))
    flags = ["-n", cluster.namesrv]
    peeked = call("peek", *flags, "commands", "--json").stdout
    consumed = call("consume", *flags, "commands", "-g", "reader", "--from", "first", "--max", "1", "--json").stdout
    found = call("message", *flags, "key", "--json").stdout
    for text in (peeked, consumed, found):
        assert not set("\x1b\x7f\x9b") & set(text)
        assert json.loads(text)["body"] == body
        assert "é" in text
    for command in (["peek", "commands"], ["message", "key"]):
        assert not set("\x1b\x7f\x9b") & set(call(command[0], *flags, *command[1:]).stdout)


def test_all_are_exported_to_a_file_or_a_pipe(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    done = call("dlq", "export", "-n", cluster.namesrv, "--to", str(path), "billing")
    assert done.stdout == f"exported 3 dead letters of billing to {path}\n"
    exported = [json.loads(line) for line in path.read_text().splitlines()]
    assert [base64.b64decode(letter["bodyBase64"]) for letter in exported] == BODIES
    assert call("dlq", "export", "-n", cluster.namesrv, "billing").stdout == path.read_text()
    assert list(tmp_path.iterdir()) == [path]


def test_an_export_that_fails_leaves_the_file_as_it_was(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    path.write_text("before")
    assert call("dlq", "export", "-n", cluster.namesrv, "--to", str(path), "nobody").returncode == 1
    assert (path.read_text(), list(tmp_path.iterdir())) == ("before", [path])


def test_some_or_all_are_sent_again() -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=1)
        cluster.create_topic("elsewhere", queues=1)
        bury(cluster.namesrv, "orders", "billing", *(Message("orders", b"%d" % number) for number in range(3)))
        resend = ["dlq", "resend", "-n", cluster.namesrv, "billing"]
        assert call(*resend, "broker-a/0/1", "--to", "elsewhere").stdout == "resent 1 to elsewhere\n"
        assert call(*resend, "--all").stdout == "resent 3 to orders\n"
        assert call(*resend, "--all").stdout == "billing has no dead letters left to resend\n"
        reported = json.loads(call(*resend, "--all", "--again", "--json").stdout)
        assert reported == {
            "resent": {"orders": 3},
            "skipped": 0,
            "left": [],
            "otherGroups": [],
            "otherGroupsUnknown": [],
        }
        assert [letter["resent"] for letter in listed(cluster, "billing")] == [True] * 3
        assert "3 of these were resent" in call("dlq", "list", "-n", cluster.namesrv, "billing").stdout
        gone = call(*resend, "broker-a/0/0", "--to", "elsewhere", "--only-group")
        assert (gone.returncode, "choose either another topic" in gone.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["list", "nobody"], 1, "no broker knows group nobody; `staticfire dlq list` shows the groups"),
        (["list", "no such group"], 1, "contains characters other than"),
        (["show", "billing", "broker-a/0/9"], 1, "ends before 3"),
        (["show", "billing", "0A01"], 1, "has no dead letter 0A01: `staticfire dlq list billing` shows the ids"),
        (["resend", "billing"], 2, "give either ids of dead letters or --all"),
        (["resend", "billing", "--all", "broker-a/0/1"], 2, "give either ids of dead letters or --all"),
        (["resend", "billing", "--again", "broker-a/0/1"], 2, "--again needs --all"),
        (["resend", "billing", "--all", "--from", "broker-a/0/1"], 2, "--from needs --again"),
        (["resend", "billing", "--all", "--to", "never-made"], 1, "no route to topic never-made"),
        (["export", "billing", "--to", "/nowhere/x"], 2, "--to /nowhere/x: No such file or directory"),
    ],
)
def test_what_is_wrong_is_reported_in_one_line(
    cluster: Cluster, arguments: list[str], exit_code: int, words: str
) -> None:
    done = call("dlq", *arguments, NAMESRV_ADDR=cluster.namesrv)
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert words in one_line(done.stderr)


def test_a_group_without_dead_letters_has_none(cluster: Cluster) -> None:
    call("mqadmin", "updateSubGroup", "-n", cluster.namesrv, "-c", "DefaultCluster", "-g", "quiet")
    assert call("dlq", "list", "-n", cluster.namesrv, "quiet").stdout == "no dead letters of quiet\n"
    done = call("dlq", "resend", "-n", cluster.namesrv, "quiet", "--all")
    assert (done.returncode, done.stdout) == (0, "quiet has no dead letters left to resend\n")


# -- the control endpoint ----------------------------------------------------------------------------------------------


def post(url: str, body: object) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, method="POST"), timeout=TIMEOUT_S) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())


def test_the_control_endpoint_shows_them(cluster: Cluster) -> None:
    assert get(f"{cluster.control}/dlq") == (200, {"groups": {"billing": 3}})
    status, shown = get(f"{cluster.control}/dlq/billing?max=2&last=1")
    assert (status, shown["count"]) == (200, 3)
    assert [letter["id"] for letter in shown["letters"]] == ["broker-a/0/1", "broker-a/0/2"]
    status, letter = get(f"{cluster.control}/dlq/billing/letters/broker-a/0/2")
    assert (status, base64.b64decode(letter["bodyBase64"])) == (200, BODIES[2])
    with urllib.request.urlopen(f"{cluster.control}/dlq/billing/export", timeout=TIMEOUT_S) as answer:
        assert [json.loads(line)["id"] for line in answer] == ["broker-a/0/0", "broker-a/0/1", "broker-a/0/2"]


def test_the_control_endpoint_sends_them_again(cluster: Cluster) -> None:
    order = {"ids": ["broker-a/0/0"], "to": "elsewhere"}
    status, reported = post(f"{cluster.control}/dlq/billing/resend", order)
    assert (status, reported["resent"]) == (200, {"elsewhere": 1})


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("dlq/nobody", 404, "no broker knows group nobody"),
        ("dlq/billing?max=0", 400, "max=0: a whole number is needed, 1 to 10000"),
        ("dlq/billing?first=1", 400, "'first' is unknown here; there are last, match, max, skip"),
        ("dlq/billing/letters/broker-a/0/9", 404, "ends before 3"),
        ("dlq/nobody/export", 404, "no broker knows group nobody"),
    ],
)
def test_the_control_endpoint_reports_what_is_wrong(cluster: Cluster, path: str, status: int, words: str) -> None:
    reported = get(f"{cluster.control}/{path}")
    assert reported[0] == status
    assert words in reported[1]["error"]


@pytest.mark.parametrize(
    ("order", "status", "words"),
    [
        ({}, 400, "choose dead letters"),
        ({"all": True, "ids": ["x"]}, 400, "choose dead letters"),
        (
            {"alle": True},
            400,
            "'alle' is unknown here; there are ids, all, to, onlyGroup, again, from: did you mean all?",
        ),
        (b"{", 400, "truncated"),
        ({"ids": ["broker-a/0/9"]}, 404, "ends before 3"),
        ({"all": True, "to": "never-made"}, 404, "no route to topic never-made"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(cluster: Cluster, order: object, status: int, words: str) -> None:
    reported = post(f"{cluster.control}/dlq/billing/resend", order)
    assert reported[0] == status
    assert words in reported[1]["error"]


# -- Python ------------------------------------------------------------------------------------------------------------


@pytest.mark.row("A8")
def test_a_program_hears_of_each_send_back_and_each_death() -> None:
    died: queue.Queue[DeadLetter] = queue.Queue()
    given_back: list[tuple[str, int | None]] = []

    def fail(letter: DeadLetter) -> None:
        died.put(letter)
        raise ValueError("a hook that raises ends nothing")

    with Cluster() as cluster:
        cluster.create_topic("orders", queues=1)
        stop = cluster.dlq("billing").on_death(fail)
        end = cluster.on_sent_back(lambda sent: given_back.append((sent.group, sent.delay_level)))
        bury(cluster.namesrv, "orders", "billing", Message("orders", b"one"), Message("orders", b"two"))
        assert [died.get(timeout=TIMEOUT_S).message.body for _ in range(2)] == [b"one", b"two"]
        assert given_back == [("billing", None)] * 2
        end()
        stop()
        bury(cluster.namesrv, "orders", "billing", Message("orders", b"three"))
        assert cluster.dlq("billing").count() == 3
        assert len(given_back) == 2


def test_the_blocking_face_reads_and_sends(cluster: Cluster) -> None:
    with DeadLetterQueue("billing", cluster.namesrv) as dlq:
        assert [letter.message.body for letter in dlq.read()] == BODIES
        assert dlq.find("broker-a/0/1").message.body == BODIES[1]
        assert dlq.resend(["broker-a/0/1"], to="elsewhere").resent == {"elsewhere": 1}
    letters = cluster.dlq("billing").letters()
    assert [letter.id for letter in letters] == ["broker-a/0/0", "broker-a/0/1", "broker-a/0/2"]
    assert cluster.dlq("billing").find("broker-a/0/0").message.body == BODIES[0]
    assert cluster.dlq("billing").resend(["broker-a/0/1"], to="elsewhere").count == 1


async def test_the_same_awaited(cluster: Cluster) -> None:
    assert await cluster.aio.dead_letters() == {"billing": 3}
    dlq = cluster.aio.dlq("billing")
    assert await dlq.count() == 3
    assert (await dlq.find("broker-a/0/0")).message.body == BODIES[0]
    with pytest.raises(ClientError, match="ends before 3"):
        await dlq.resend(["broker-a/0/77"])


def test_hooks_need_brokers_in_this_process() -> None:
    with Cluster(isolation="process") as cluster:
        with pytest.raises(ClientError, match="needs brokers in this process"):
            cluster.on_sent_back(print)
        died: queue.Queue[DeadLetter] = queue.Queue()
        cluster.dlq("billing").on_death(died.put)
        cluster.create_topic("orders", queues=1)
        bury(cluster.namesrv, "orders", "billing", Message("orders", b"one"))
        assert died.get(timeout=TIMEOUT_S).message.body == b"one"
