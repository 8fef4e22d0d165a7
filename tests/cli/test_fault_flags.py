"""Each flag of `staticfire fault add`, by the line that describes the rule, and by what the rule does."""

from collections.abc import Iterator

import pytest

from staticfire import (
    BrokerAnswer,
    ClientError,
    ClientSettings,
    Cluster,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    PullConsumer,
)
from tests.cli.fault_command import Say, fault_of

pytestmark = pytest.mark.row("S2")

ONE_TRY = ProducerSettings(retry_times_when_send_failed=0, client=ClientSettings(instance_name="till-1"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
def fault(cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    return fault_of(cluster, capsys, monkeypatch)


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ("--drop request --address 127.0.0.1", "every request from 127.0.0.1: drop"),
        ("--drop request --language java", "every request in JAVA: drop"),
        ("--drop request --group billing --queue 0", "every request of group billing of queue 0: drop"),
        ("--delay 1s --direction answer", "every request: delay its response by 1s"),
        ("--delay 1s --jitter 200ms", "every request: delay by 1s ± 200ms"),
        ("--delay 1s --probability 0.25", "every request: delay by 1s, with probability 0.25"),
        ("--delay 1s --after 2", "every request: delay by 1s, after 2 of them"),
        ("--delay 1s --lifetime 1h", "every request: delay by 1s, for 1h"),
        ("--drop request --from 2030-01-02T03:04:05Z", "every request: drop, from 2030-01-02T03:04:05.000Z"),
        ("--drop request --until 2030-01-02T03:04:05Z", "every request: drop, until 2030-01-02T03:04:05.000Z"),
        ("--corrupt", "every request: corrupt its response"),
        ("--duplicate", "every request: duplicate"),
        ("--bandwidth 10k", "every request: 10,000 bytes per second for its response"),
        ("--client till-1 --skew -2h", "every request of client till-1: clock 2h slow"),
        ("--code SEND_MESSAGE --code PULL_MESSAGE --close", "SEND_MESSAGE,PULL_MESSAGE: close the connection"),
    ],
)  # fmt: skip
def test_the_line_of_a_rule_has_what_each_flag_says(fault: Say, flags: str, line: str) -> None:
    assert fault("add", *flags.split(), "--broker", "broker-b").partition("  ")[2] == f"{line} (broker-b)\n"


def test_a_rule_for_two_codes_hits_both(fault: Say, cluster: Cluster) -> None:
    codes = "--code", "SEND_MESSAGE", "--code", "PULL_MESSAGE"
    fault("add", *codes, "--topic", "orders", "--answer", "SYSTEM_BUSY", "--remark", "closed for lunch")
    with Producer("tills", cluster.namesrv, ONE_TRY) as till, pytest.raises(BrokerAnswer, match="closed for lunch"):
        till.send(Message("orders", b"one"))
    with PullConsumer("peek", cluster.namesrv) as consumer, pytest.raises(BrokerAnswer, match="closed for lunch"):
        consumer.pull(MessageQueue("orders", "broker-a", 0), 0)


def test_producers_see_a_read_only_broker_in_the_route(fault: Say, cluster: Cluster) -> None:
    fault("add", "--broker", "broker-a,broker-b", "--read-only")
    perms = "broker-a: perm 4, broker-b: perm 4"
    with Producer("tills", cluster.namesrv, ONE_TRY) as till, pytest.raises(ClientError, match=perms):
        till.send(Message("orders", b"one"))


def refused_of(cluster: Cluster, count: int) -> list[bool]:
    """Send messages; return which of them were refused."""
    refused = []
    with Producer("tills", cluster.namesrv, ONE_TRY) as till:
        (queue, *_) = till.queues("orders")
        for number in range(count):
            try:
                till.send(Message("orders", b"%d" % number), queue=queue)
                refused.append(False)
            except BrokerAnswer:
                refused.append(True)
    return refused


def test_the_same_seed_repeats_the_series_of_hits(fault: Say, cluster: Cluster) -> None:
    series = []
    for seed in ("5", "5", "6"):
        fault("add", "--code", "SEND_MESSAGE", "--answer", "SYSTEM_ERROR", "--probability", "0.5", "--seed", seed)
        series.append(refused_of(cluster, 24))
        fault("clear")
    assert series[0] == series[1]
    assert series[0] != series[2]
