"""`staticfire fault`, `/faults` of the control endpoint and `cluster.faults`, on real processes and in a thread."""

import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from staticfire import (
    BrokerAnswer,
    ClientSettings,
    Cluster,
    Message,
    NetworkError,
    Producer,
    ProducerSettings,
    PullConsumer,
    StaticfireError,
    UsageError,
)
from staticfire.cli import control_client, main
from staticfire.faults.gate import HITS_NOTED_MAX
from staticfire.runtime.exit_codes import EXIT_USAGE
from tests.cli.commands import ROOT, TIMEOUT_S, call, get, one_line
from tests.cli.fault_command import Say, fault_of, port_taken

pytestmark = pytest.mark.row("S2")

ONE_TRY = ProducerSettings(
    retry_times_when_send_failed=0, send_msg_timeout_ms=1_000, client=ClientSettings(instance_name="till-1")
)


@pytest.fixture(scope="module")
def processes() -> Iterator[Cluster]:
    with Cluster(isolation="process") as cluster:
        yield cluster


@pytest.fixture
def thread() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=1)
        yield cluster


@pytest.fixture
def fault(processes: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    return fault_of(processes, capsys, monkeypatch)


def bodies(cluster: Cluster) -> list[str]:
    with PullConsumer("peek", cluster.namesrv) as consumer:
        (queue,) = consumer.queues("orders")
        return [message.body.decode() for message in consumer.pull(queue, 0).messages]


def test_rules_meet_a_producer_of_real_processes(processes: Cluster, fault: Say) -> None:
    with Producer("tills", processes.namesrv, ONE_TRY) as till:
        till.send(Message("orders", b"before"))
        sends = "--code", "SEND_MESSAGE", "--topic", "orders", "--times", "1"
        added = fault("add", *sends, "--answer", "SYSTEM_BUSY")
        number, _, words = added.partition("  ")
        assert words == "SEND_MESSAGE of topic orders: respond with SYSTEM_BUSY, once (broker-a)\n"
        with pytest.raises(BrokerAnswer, match=f"SYSTEM_BUSY by fault rule {number}"):
            till.send(Message("orders", b"busy"))
        assert fault("list").split("  ")[-1] == "broker-a 1\n"
        fault("add", *sends, "--client", "till-1", "--drop", "answer")
        with pytest.raises(NetworkError, match="no response"):
            till.send(Message("orders", b"twice"))
        till.send(Message("orders", b"twice"))
        assert bodies(processes) == ["before", "twice", "twice"]
        fault("remove", number)
        assert [view.number for view in processes.faults.all()] == [int(number) + 1]
        fault("add", "--broker", "broker-a", "--disk-full")
        with pytest.raises(BrokerAnswer, match="a fault rule makes the disk full"):
            till.send(Message("orders", b"full"))
        assert fault("clear") == "removed 2 rules\n"
        till.send(Message("orders", b"after"))
    assert bodies(processes) == ["before", "twice", "twice", "after"]


def test_process_is_frozen_and_killed_until_the_rule_is_gone(processes: Cluster, fault: Say) -> None:
    number, _, words = fault("add", "--broker", "broker-a", "--freeze", "1h").partition("  ")
    assert words == "the process: freeze, for 1h (broker-a)\n"
    with Producer("tills", processes.namesrv, ONE_TRY) as till:
        with pytest.raises(NetworkError):
            till.send(Message("orders", b"frozen"))
        fault("remove", number)
        till.send(Message("orders", b"thawed"))
        pid = processes.pids["broker-a"]
        with processes.faults.add(broker="broker-a", kill=True):
            assert "broker-a" not in processes.pids
            with pytest.raises(NetworkError):
                till.send(Message("orders", b"killed"))
        assert processes.pids["broker-a"] != pid
        till.send(Message("orders", b"restarted"))
    assert processes.deaths == []


def test_process_that_is_killed_while_it_is_frozen_is_frozen_again(processes: Cluster, fault: Say) -> None:
    with processes.faults.add(broker="broker-a", freeze="1h"):
        with processes.faults.add(broker="broker-a", kill=True):
            pass
        with Producer("tills", processes.namesrv, ONE_TRY) as till, pytest.raises(NetworkError):
            till.send(Message("orders", b"frozen"))
    with Producer("tills", processes.namesrv, ONE_TRY) as till:
        till.send(Message("orders", b"thawed"))


def test_end_of_a_block_reports_that_its_process_cant_be_restarted(processes: Cluster, fault: Say) -> None:
    killing = processes.faults.add(broker="broker-a", kill=True)
    with port_taken(processes, "broker-a"), pytest.raises(StaticfireError, match="is in use"), killing:
        pass
    fault("clear")
    assert "broker-a" in processes.pids


def test_rule_that_cant_be_undone_isnt_an_unknown_rule_over_http(processes: Cluster, fault: Say) -> None:
    number = processes.faults.add(broker="broker-a", kill=True).number
    with port_taken(processes, "broker-a"):
        status, reported = get(f"{processes.control}/faults/{number}", "DELETE")
        assert (status, f"rule {number} isn't undone: broker-a: port" in reported["error"]) == (502, True)
        assert get(f"{processes.control}/faults", "DELETE")[0] == 502
        assert "is in use" in fault("remove", str(number), exit_code=1)
    assert get(f"{processes.control}/faults/{number}", "DELETE") == (200, {"removed": 1})
    assert get(f"{processes.control}/faults/{number}", "DELETE")[0] == 404


def test_nameserver_thaws_by_itself(processes: Cluster) -> None:
    added = processes.faults.add(broker="nameserver", freeze="300ms")
    assert processes.members("nobody") == []  # Answered when it is thawed.
    assert added.hits == {}
    assert processes.faults.all() == []


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["add", "--code", "SEND_MESAGE", "--drop", "answer"], 2, "did you mean SEND_MESSAGE?"),
        (["add", "--broker", "broker-x", "--freeze", "1s"], 2, "no broker-x in this cluster; it has nameserver"),
        (["remove", "77"], 1, "there is no fault rule 77"),
        (["remove", "x"], 2, "'x' is not the number of a rule"),
        (["add", "--broker", "broker-a", "--freeze", "0s"], 2, "freeze=0s: the time must be above 0"),
        (["add", "--answer=--5"], 2, "'--5' is not a response code"),
        (["add", "--answer", "99999999999999999999999999"], 2, "codes are 1 to 32,767"),
        (["add", "--broker", ",", "--close"], 2, "write names"),
        (["add", "--partition", "broker-a,broker-x/nameserver"], 2, "did you mean broker-a"),
        (["add", "--topic", "orders"], 2, "the rule has no action"),
        (["add", "--code", "", "--close"], 2, "--code is empty, like an unset variable: without the flag, a rule hits"),
        (["add", "--client", "", "--close"], 2, "a rule hits every client"),
    ],
)  # fmt: skip
def test_wrong_words_are_refused_in_one_line(fault: Say, arguments: list[str], exit_code: int, words: str) -> None:
    assert words in fault(*arguments, exit_code=exit_code)


def test_list_has_a_line_of_json_for_each_rule(processes: Cluster, fault: Say) -> None:
    fault("add", "--topic", "orders", "--close")
    fault("add", "--broker", "broker-a", "--disk-full")
    reported = [json.loads(line) for line in fault("list", "--json").splitlines()]
    assert [one["words"] for one in reported] == [view.words for view in processes.faults.all()]
    fault("clear")
    assert fault("list", "--json") == ""


def test_without_a_control_endpoint_requests_go_to_the_servers(processes: Cluster) -> None:
    added = call("fault", "add", "--topic", "ordrs", "--close", NAMESRV_ADDR=processes.namesrv)
    assert (added.returncode, "no broker has topic ordrs yet" in added.stderr) == (0, True)
    assert call("fault", "clear", NAMESRV_ADDR=processes.namesrv).stdout == "removed 1 rule\n"
    refused = call("fault", "add", "--broker", "broker-a", "--kill", NAMESRV_ADDR=processes.namesrv)
    assert refused.returncode == 1
    assert "--control URL" in one_line(refused.stderr)


def test_rules_over_http(thread: Cluster) -> None:
    url = f"{thread.control}/faults"
    assert get(f"{url}?code=SEND_MESSAGE&delay=1s&direction=answer", "POST")[1]["number"] == 1
    body = json.dumps({"client": "billing-2", "drop": "request", "probability": 0.5}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=TIMEOUT_S) as answer:
        assert json.load(answer)["notes"] == ["no client billing-2 is connected yet: the rule waits for it"]
    status, there = get(url)
    assert (status, [one["number"] for one in there["faults"]], there["silent"]) == (200, [1, 2], {})
    assert get(f"{url}/1", "DELETE") == (200, {"removed": 1})
    assert get(f"{url}/1", "DELETE")[0] == 404
    assert get(f"{url}?drop=request&frequency=3", "POST")[0] == 400
    assert get(f"{url}?broker=broker-a&kill=true", "POST")[1]["error"].startswith("this cluster runs in a thread")
    for words in (
        {"topic": {"a": 1}, "delay": "1s"}, {"answer": "--5"}, {"answer": 3_000_000_000}, {"answer": "9" * 26},
        {"drop": True, "lifetime": "0s"}, {"drop": True, "until": "1970-01-01T00:00:00Z"},
    ):  # fmt: skip
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(urllib.request.Request(url, json.dumps(words).encode()), timeout=TIMEOUT_S)
    assert get(url, "DELETE") == (200, {"removed": 1})


def test_example_shows_where_duplicates_come_from() -> None:
    printed = subprocess.run(
        [sys.executable, "examples/faults/duplicates.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert printed.stdout == "60 orders, 7 lost answers, 67 messages consumed, 7 of them again\n", printed.stderr


def test_rule_lasts_as_long_as_the_with(thread: Cluster) -> None:
    with Producer("tills", thread.namesrv, ONE_TRY) as till:
        with thread.faults.add(code="SEND_MESSAGE", topic="orders", answer="SYSTEM_BUSY") as busy:
            with pytest.raises(BrokerAnswer):
                till.send(Message("orders", b"one"))
            assert busy.hits == {"broker-a": 1}
        till.send(Message("orders", b"two"))
    with pytest.raises(UsageError, match="did you mean delay"):
        thread.faults.add(dealy="1s")


def test_journal_has_the_hits_of_a_rule_and_leaves_space_for_other_events(thread: Cluster) -> None:
    busy = thread.faults.add(code="SEND_MESSAGE", topic="orders", answer="SYSTEM_BUSY", after=1)
    with Producer("tills", thread.namesrv, ONE_TRY) as till:
        till.send(Message("orders", b"one"))
        for _ in range(HITS_NOTED_MAX + 5):
            with pytest.raises(BrokerAnswer):
                till.send(Message("orders", b"two"))
    assert busy.hits == {"broker-a": HITS_NOTED_MAX + 5}
    hits = thread.journal("ruleHit", topic="orders")
    assert len(hits) == HITS_NOTED_MAX
    assert hits[0].client
    details = {"rule": busy.number, "action": "answer with", "direction": "request", "code": "SEND_MANY"}
    assert hits[0].details == details


async def test_rule_is_awaited_where_the_cluster_is() -> None:
    async with Cluster() as cluster:
        async with cluster.faults.add(code="PULL_MESSAGE", group="billing", drop="answer", probability=0.1) as dropped:
            assert (dropped.number, await dropped.hits()) == (1, {"broker-a": 0})
        added = await cluster.faults.add(drop="request", code="HEART_BEAT", lifetime="1h")
        assert [view.left_ms > 0 for view in await cluster.faults.all()] == [True]
        await added.remove()
        assert await cluster.faults.clear() == 0


def test_rule_that_stays_does_not_count_as_removed(thread: Cluster) -> None:
    staying = thread.faults.add(code="SEND_MESSAGE", delay="1ms", stays=True)
    thread.faults.add(code="PULL_MESSAGE", delay="1ms")
    assert thread.faults.clear() == 1
    assert [one.number for one in thread.faults.all()] == [staying.number]
    staying.remove()


def test_endpoint_of_another_cluster_at_the_usual_port_is_left_alone(
    thread: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with refusing_endpoint() as url:
        monkeypatch.setattr(control_client, "CONTROL_URL", url)
        assert main(["fault", "add", "-n", thread.namesrv, "--code", "SEND_MESSAGE", "--drop", "request"]) == 0
        assert main(["fault", "clear", "-n", thread.namesrv]) == 0
        assert "removed 1 rule" in capsys.readouterr().out
        assert main(["fault", "clear", "-n", thread.namesrv, "--control", url]) == EXIT_USAGE


@pytest.mark.parametrize("reply", ["{}", '{"namesrv": ""}', '{"namesrv": 1}', "[]"])
def test_another_program_at_the_usual_port_is_left_alone(
    thread: Cluster, monkeypatch: pytest.MonkeyPatch, reply: str
) -> None:
    monkeypatch.setattr(json, "load", lambda _: json.loads(reply))
    monkeypatch.setattr(control_client, "CONTROL_URL", thread.control)  # Something responds there.
    assert main(["fault", "clear", "-n", thread.namesrv]) == 0


def test_a_nameserver_in_the_command_line_counts_more_than_an_endpoint_in_the_environment(
    thread: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cluster() as other:
        monkeypatch.setenv("STATICFIRE_CONTROL", other.control)
        flags = ["-n", thread.namesrv]
        assert main(["fault", "add", *flags, "--code", "SEND_MESSAGE", "--delay", "1ms"]) == 0
        assert ([len(one.faults.all()) for one in (thread, other)]) == ([1, 0])
        other.faults.add(code="PULL_MESSAGE", delay="1ms")
        capsys.readouterr()
        assert main(["fault", "list", *flags]) == 0
        shown = capsys.readouterr().out
        assert ("SEND_MESSAGE" in shown, "PULL_MESSAGE" in shown) == (True, False)
        assert main(["fault", "clear", *flags]) == 0
        assert ([len(one.faults.all()) for one in (thread, other)]) == ([0, 1])
        capsys.readouterr()
        assert main(["fault", "add", *flags, "--broker", "broker-a", "--freeze", "1s"]) == 1
        refused = one_line(capsys.readouterr().err)
        assert f"{other.control} isn't that of {thread.namesrv}, or doesn't respond: give --control URL" in refused
        for control in (other.control, "http://127.0.0.1:1"):  # An endpoint in the command line is the user's choice.
            assert main(["fault", "list", *flags, "--control", control]) == (control != other.control)
    assert main(["fault", "list", *flags]) == 0  # The other cluster has ended.


def test_an_endpoint_is_found_by_another_name_of_its_nameserver(
    processes: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the endpoint can freeze a process."""
    monkeypatch.setattr(control_client, "CONTROL_URL", processes.control)
    flags = ["-n", processes.namesrv.replace("127.0.0.1", " LocalHost")]
    assert main(["fault", "add", *flags, "--broker", "broker-a", "--freeze", "20s"]) == 0
    capsys.readouterr()
    assert main(["fault", "list", *flags]) == 0
    assert "freeze" in capsys.readouterr().out
    assert main(["fault", "clear", *flags]) == 0
    assert capsys.readouterr().out == "removed 1 rule\n"


@pytest.mark.parametrize(
    "url", [" ", "nonsense", "localhost:8082", "http://", "http://[x", "http://h:99999", "file:///"]
)
def test_what_isnt_the_address_of_a_control_endpoint_is_refused(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATICFIRE_CONTROL", url)
    assert main(["fault", "list"]) == EXIT_USAGE
    assert one_line(capsys.readouterr().err).startswith(f"staticfire: {url!r} isn't the address of a control endpoint")


@pytest.mark.parametrize("ending", ["\n", "\udcff", "\u20ac", " x"])
def test_a_token_that_cant_be_sent_is_refused_and_not_shown(
    ending: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATICFIRE_CONTROL_TOKEN", f"s3cret-token{ending}")
    for control in ([], ["--control", "http://127.0.0.1:1"]):
        assert main(["fault", "list", *control]) == EXIT_USAGE
        said = one_line(capsys.readouterr().err)
        assert "use letters, digits and signs only (STATICFIRE_CONTROL_TOKEN)" in said
        assert "s3cret" not in said


@contextmanager
def refusing_endpoint() -> Iterator[str]:
    """An endpoint that wants a token."""

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(401)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()
