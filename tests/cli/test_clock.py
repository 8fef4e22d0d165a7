"""Message time as people reach it: `staticfire clock`, the control endpoint, `Cluster.clock`."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from staticfire import Cluster
from staticfire.client import ClockReport, ConsumeStatus, Message, Producer, PushConsumer
from staticfire.protocol.errors import BrokerAnswer, NotAtRest, UsageError
from tests.cli.commands import TIMEOUT_S, call, get, one_line

pytestmark = pytest.mark.row("S1")

HOUR_MS = 3_600_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        yield cluster


@asynccontextmanager
async def stuck_consumer(cluster: Cluster) -> AsyncIterator[None]:
    """A group whose listener hangs with one message, so that its cluster never comes to rest."""
    cluster.create_topic("orders", queues=1)
    hanging, release = asyncio.Event(), asyncio.Event()
    consumer = PushConsumer("billing", cluster.namesrv)
    consumer.subscribe("orders")

    @consumer.listener
    async def bill(messages: Any, context: Any) -> ConsumeStatus:
        hanging.set()
        await release.wait()
        return ConsumeStatus.CONSUME_SUCCESS

    async with consumer, Producer("senders", cluster.namesrv) as producer:
        await producer.send(Message("orders", b"1"))
        await hanging.wait()
        yield
        release.set()


async def has_mode(cluster: Cluster, mode: str) -> None:
    """Return when message time has this mode."""
    async with asyncio.timeout(TIMEOUT_S):
        while (await asyncio.to_thread(cluster.clock.now)).mode != mode:
            pass


def post(url: str, body: object) -> tuple[int, Any]:
    """Send JSON, or text that is none."""
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())


# -- Cluster.clock -----------------------------------------------------------------------------------------------------


def test_two_hours_pass_while_the_machine_waits_for_nothing(cluster: Cluster) -> None:
    """Otherwise the test would take two hours."""
    before = cluster.clock.now()
    after = cluster.clock.advance(hours=2)
    assert isinstance(after, ClockReport)
    assert abs(after.message_ms - before.message_ms - 2 * HOUR_MS) < 10_000
    assert after.mode == "real"


async def test_a_delayed_message_is_consumed_when_the_advance_returns(cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=1)
    consumed: list[bytes] = []
    consumer = PushConsumer("billing", cluster.namesrv)
    consumer.subscribe("orders")

    @consumer.listener
    async def bill(messages: Any, context: Any) -> ConsumeStatus:
        consumed.extend(message.body for message in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    async with consumer, Producer("senders", cluster.namesrv) as producer:
        await producer.send(Message("orders", b"in two hours", delay_level=18))
        loop = asyncio.get_running_loop()
        report = await loop.run_in_executor(None, lambda: cluster.clock.advance("2h"))
        assert (report.delivered, consumed) == (1, [b"in two hours"])


def test_every_way_to_say_how_far(cluster: Cluster) -> None:
    clock = cluster.clock
    begin = clock.freeze().message_ms
    advances: list[Callable[[], ClockReport]] = [
        lambda: clock.advance(hours=1),
        lambda: clock.advance(minutes=59, seconds=60),
        lambda: clock.advance(timedelta(hours=1)),
        lambda: clock.advance("1h", settle="5s"),
        lambda: clock.advance(to=begin + 5 * HOUR_MS),
        lambda: clock.advance(to=datetime.fromtimestamp(begin / 1_000, UTC) + timedelta(hours=6)),
    ]
    for further in advances:
        begin_of_step = clock.now().message_ms
        assert abs(further().message_ms - begin_of_step - HOUR_MS) <= 1
    assert clock.advance(hours=0).mode == "frozen"


def test_how_time_continues(cluster: Cluster) -> None:
    clock = cluster.clock
    assert [report.mode for report in (clock.freeze(), clock.scale(60), clock.skip(), clock.run())] == [
        "frozen",
        "scaled",
        "skipping",
        "real",
    ]


def test_what_is_no_advance_is_refused(cluster: Cluster) -> None:
    with pytest.raises(UsageError, match="needs exactly one of"):
        cluster.clock.advance()
    with pytest.raises(UsageError, match="needs exactly one of"):
        cluster.clock.advance("1h", hours=1)
    with pytest.raises(UsageError, match="is not a duration"):
        cluster.clock.advance("soon")
    with pytest.raises(UsageError, match=r'advance: 5 has no unit; write advance\(seconds=5\), advance\("5s"\)'):
        cluster.clock.advance(5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r'settle: 0\.5 has no unit; write settle="0\.5s"'):
        cluster.clock.advance("1h", settle=0.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="hours='2' is not a number"):
        cluster.clock.advance(hours="2")  # type: ignore[arg-type]
    for too_far in (1e300, float("nan"), float("inf")):
        with pytest.raises(UsageError, match=r"advance\(days="):
            cluster.clock.advance(days=too_far)
    with pytest.raises(UsageError, match=r"to=1\.5 is not a time; write a datetime, or 2026"):
        cluster.clock.advance(to=1.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="how many times faster"):
        cluster.clock.scale("fast")  # type: ignore[arg-type]
    with pytest.raises(BrokerAnswer, match="can't go back"):
        cluster.clock.advance(hours=-1)
    with pytest.raises(BrokerAnswer, match="can't go back"):
        cluster.clock.advance(to="2020-01-01")
    with pytest.raises(BrokerAnswer, match="ten years"):
        cluster.clock.advance(days=36_000)
    with pytest.raises(BrokerAnswer, match="rate"):
        cluster.clock.scale(0)


def test_processes_have_one_clock_as_well() -> None:
    with Cluster(brokers=2, isolation="process") as cluster:
        assert cluster.clock.advance(hours=2).ahead_ms >= 2 * HOUR_MS - 1_000


# -- the control endpoint ----------------------------------------------------------------------------------------------


def test_http_shows_and_moves_message_time(cluster: Cluster) -> None:
    url = f"{cluster.control}/clock"
    status, shown = get(url)
    assert (status, shown["mode"], shown["nextDueMs"]) == (200, "real", None)
    assert post(url, {"mode": "frozen"})[1]["mode"] == "frozen"
    status, moved = get(f"{url}/advance?by=2h", "POST")
    assert (status, moved["delivered"], moved["steps"]) == (200, 0, 0)
    assert abs(moved["messageMs"] - shown["messageMs"] - 2 * HOUR_MS) < 10_000
    status, there = get(f"{url}/advance?to={moved['messageMs'] + 5}&settle=1s", "POST")
    assert (status, there["messageMs"]) == (200, moved["messageMs"] + 5)
    assert post(url, {"mode": "scaled", "rate": 60})[1]["rate"] == 60
    assert post(url, {"mode": "skipping"})[1]["mode"] == "skipping"
    assert post(url, {"mode": "real"})[1]["mode"] == "real"
    assert get(f"{url}?mode=frozen", "POST")[1]["mode"] == "frozen"
    assert get(f"{url}?mode=scaled&rate=2.5", "POST")[1]["rate"] == 2.5
    assert get(f"{url}?mode=real", "POST")[1]["mode"] == "real"
    assert {"GET /clock", "POST /clock", "POST /clock/advance"} <= get(cluster.control)[1]["paths"].keys()


def test_http_refuses_in_words(cluster: Cluster) -> None:
    url = f"{cluster.control}/clock"
    for body, words in (
        ("", 'no mode is given; write {"mode": "frozen"} or ?mode=frozen'),
        ("no json", "frozen"),
        ("[" * 100_000, "frozen"),
        ({}, "missing required field `mode`"),
        ({"mode": "backwards"}, "backwards"),
        ({"mode": "scaled"}, "a rate goes with scaled"),
        ({"mode": "real", "rate": 2}, "a rate goes with scaled"),
        ({"mode": "real", "speed": 2}, "'speed' is unknown here; there are mode, rate"),
        ({"mode": "scaled", "rate": -1}, "the rate -1.0"),
    ):
        status, refused = post(url, body)
        assert status == 400, refused
        assert words in refused["error"]
    for query, words in (
        ("?mode=freeze", "mode=freeze is unknown: did you mean frozen; write"),
        ("?mode=scaled", "a rate goes with scaled"),
        ("?mode=scaled&rate=fast", "`$.rate`"),
        ("?speed=2", "'speed' is unknown here; there are mode, rate"),
        ("?rate=2", "missing required field `mode`"),
    ):
        status, refused = get(f"{url}{query}", "POST")
        assert status == 400, refused
        assert words in refused["error"]
    assert post(f"{url}?mode=real", {"mode": "real"})[0] == 400
    for query, words in (
        ("", "one of them"),
        ("?by=2h&to=1", "one of them"),
        ("?by=2", "is not a duration"),
        ("?by=2h&settle=x", "is not a duration"),
        ("?to=later", "is not a time"),
        ("?for=2h", "'for' is unknown here"),
        ("?to=2020-01-01", "can't go back"),
    ):
        status, refused = get(f"{url}/advance{query}", "POST")
        assert status == 400, refused
        assert words in refused["error"]
    assert get(f"{url}/advance")[0] == 405
    assert get(f"{url}/advance?by=2h", "POST", Origin="https://elsewhere.example")[0] == 403


# -- the command line --------------------------------------------------------------------------------------------------


def test_commands_show_and_move_message_time(cluster: Cluster) -> None:
    def moved(*arguments: str) -> dict[str, Any]:
        done = call("clock", *arguments, "--json", NAMESRV_ADDR=cluster.namesrv)
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(one_line(done.stdout))
        return report

    frozen = moved("freeze")
    assert moved("advance", "1h30m")["messageMs"] == frozen["messageMs"] + HOUR_MS * 3 // 2
    assert moved("advance", "--to", str(frozen["messageMs"] + 2 * HOUR_MS), "--settle", "2s")["mode"] == "frozen"
    assert moved("scale", "60")["rate"] == 60
    assert moved("skip")["mode"] == "skipping"
    assert moved("run")["mode"] == "real"


def test_a_report_is_a_few_plain_lines(cluster: Cluster) -> None:
    done = call("clock", "advance", "+2h", "-n", cluster.namesrv)
    assert done.returncode == 0, done.stderr
    lines = dict(line.split("  ", 1) for line in done.stdout.splitlines())
    assert list(lines) == ["message time", "wall time", "mode", "next due", "delivered"]
    assert lines["message time"].endswith(" ahead)")
    assert lines["delivered"].strip() == "0 messages in 0 steps"
    assert lines["next due"].strip() == "nothing"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["advance"], 2, "give either a duration (like 2h) or --to TIME"),
        (["advance", "2h", "--to", "2030-01-01"], 2, "give either a duration (like 2h) or --to TIME"),
        (["advance", "2"], 2, "'2' is not a duration; write 2h, 1h30m"),
        (["advance", "2h", "--settle", "long"], 2, "'long' is not a duration"),
        (["advance", "--to", "2020-01-01T00:00:00Z"], 1, "can't go back"),
        (["scale", "fast"], 2, "'fast' is not a valid float"),
        (["scale", "0"], 2, "the rate must be above 0"),
        (["rewind"], 2, "rewind"),
        (["now", "-n", "127.0.0.1:1"], 1, "127.0.0.1:1"),
    ],
)
def test_what_is_wrong_is_one_line(shared: Cluster, arguments: list[str], exit_code: int, words: str) -> None:
    done = call("clock", *arguments, NAMESRV_ADDR=shared.namesrv)
    assert (done.returncode, done.stdout) == (exit_code, ""), done.stderr
    assert words in one_line(done.stderr)


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


# -- no rest -----------------------------------------------------------------------------------------------------------


async def test_the_client_that_keeps_the_cluster_from_resting_is_reported_everywhere(cluster: Cluster) -> None:
    who = "group billing, queue 0 of orders on broker-"
    loop = asyncio.get_running_loop()
    async with stuck_consumer(cluster):
        with pytest.raises(NotAtRest, match=who):
            await loop.run_in_executor(None, lambda: cluster.clock.advance("1h", settle="100ms"))
        advance = f"{cluster.control}/clock/advance?by=1h&settle=100ms"
        status, refused = await loop.run_in_executor(None, get, advance, "POST")
        assert (status, refused["code"]) == (409, "NOT_AT_REST")
        assert who in refused["error"]
        arguments = ("clock", "advance", "1h", "--settle", "100ms", "-n", cluster.namesrv)
        done = await loop.run_in_executor(None, call, *arguments)
        assert (done.returncode, done.stdout) == (3, "")
        assert who in one_line(done.stderr)


async def test_of_two_drivers_at_once_one_is_refused(cluster: Cluster) -> None:
    loop = asyncio.get_running_loop()
    async with stuck_consumer(cluster):
        advance = f"{cluster.control}/clock/advance?by=1h&settle=1s"
        answers = await asyncio.gather(*(loop.run_in_executor(None, get, advance, "POST") for _ in range(2)))
    assert [status for status, _ in answers] == [409, 409]
    assert sorted(refused["code"] for _, refused in answers) == ["CLOCK_BUSY", "NOT_AT_REST"]


@pytest.mark.parametrize(
    ("path", "form"), [("/clock/advance?by=5h&settle=10m", b""), ("/ui/do/advance", b"by=5h&settle=10m")]
)
async def test_an_advance_ends_when_its_caller_closes_the_connection(cluster: Cluster, path: str, form: bytes) -> None:
    """Otherwise, time would jump by five hours as soon as the consumer is done, perhaps in the next test."""
    address = urlsplit(cluster.control)
    headers = f"Host: {address.netloc}\r\nOrigin: {cluster.control}\r\nContent-Length: {len(form)}\r\n"
    kind = "Content-Type: application/x-www-form-urlencoded\r\n" if form else ""
    async with stuck_consumer(cluster):
        _, caller = await asyncio.open_connection("127.0.0.1", address.port)
        caller.write(f"POST {path} HTTP/1.1\r\n{headers}{kind}\r\n".encode() + form)
        await has_mode(cluster, "frozen")
        caller.close()
        await has_mode(cluster, "real")
    assert (await asyncio.to_thread(cluster.clock.now)).ahead_ms < HOUR_MS
