"""Which requests rules match, how often they hit, and which rule ends a request."""

from typing import Any

import msgspec
import pytest

from staticfire.faults.book import RuleBook
from staticfire.faults.matching import FaultPeer, Subject, is_meant, subject_of
from staticfire.faults.parsing import parse_fault
from staticfire.protocol.command import Request, declaration_of
from staticfire.protocol.requests.brokers import BrokerHeartbeat
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, ProducerData, SubscriptionData
from staticfire.protocol.requests.faults import FaultRule
from staticfire.protocol.requests.locks import LockQueues, MessageQueue, QueuesOfClient
from staticfire.protocol.requests.pull import PullMessage
from staticfire.protocol.requests.send import ManyMessage, SendMany, SendMessageV2
from staticfire.protocol.times import MessageMs, UptimeMs

CLIENT = "10.0.0.9@billing-2@unit"
PULL = PullMessage("billing", "orders", 3, 7, 32, 3)
SEND = SendMessageV2("shop", "orders", "TBW102", 4, 1, 0, 5, 0, "")
PLACES = [("orders", 0), ("bills", 1), ("orders", 1)]
MANY = SendMany("shop", "TBW102", 4, body=[ManyMessage(topic, queue_id, b"", b"") for topic, queue_id in PLACES])
LOCK = LockQueues(body=QueuesOfClient("billing", "another@client", [MessageQueue("orders", "broker-a", 1)]))
CONSUMER = ConsumerData("billing", subscription_data_set=[SubscriptionData("orders")])
HEARTBEAT = Heartbeat(body=HeartbeatData("10.0.0.9@new", [ProducerData("shop")], [CONSUMER]))


def subject(request: Request, client: str | None = CLIENT, address: str = "10.0.0.9:4711") -> Subject:
    return subject_of(declaration_of(type(request)).code, request, FaultPeer(address, 9, client))


def rule(**given: Any) -> FaultRule:
    return parse_fault({"drop": True, **given}).rule


@pytest.mark.parametrize(
    ("given", "request_", "is_about"),
    [
        ({}, PULL, True),
        ({"code": "PULL_MESSAGE"}, PULL, True),
        ({"code": "PULL_MESSAGE"}, SEND, False),
        ({"code": "SEND_MESSAGE"}, MANY, True),
        ({"code": 10}, SEND, False),
        ({"client": CLIENT}, PULL, True),
        ({"client": "billing-2"}, PULL, True),
        ({"client": "billing"}, PULL, False),
        ({"client": "new"}, HEARTBEAT, True),
        ({"group": "billing"}, PULL, True),
        ({"group": "billing"}, HEARTBEAT, True),
        ({"group": "shop"}, HEARTBEAT, True),
        ({"group": "billing"}, LOCK, True),
        ({"group": "shop"}, SEND, True),
        ({"group": "orders"}, SEND, False),
        ({"topic": "orders"}, LOCK, True),
        ({"topic": "orders"}, HEARTBEAT, True),
        ({"topic": "bills"}, MANY, True),
        ({"topic": "bills", "queue": 0}, MANY, False),
        ({"topic": "orders", "queue": 1}, MANY, True),
        ({"queue": 3}, PULL, True),
        ({"queue": 3}, HEARTBEAT, False),
        ({"address": "10.0.0.9"}, PULL, True),
        ({"address": "10.0.0.9:4711"}, PULL, True),
        ({"address": "10.0.0.9:4712"}, PULL, False),
        ({"address": "10.0.0.90"}, PULL, False),
        ({"language": "GO"}, PULL, True),
        ({"language": "JAVA"}, PULL, False),
    ],
)  # fmt: skip
def test_which_requests_a_rule_matches(given: dict[str, Any], request_: Request, is_about: bool) -> None:
    assert is_meant(rule(**given), subject(request_)) is is_about


def test_a_client_is_known_by_its_heartbeat_or_by_what_it_asks() -> None:
    assert not is_meant(rule(client="client"), subject(PULL, client=None))
    assert is_meant(rule(client="client"), subject(LOCK, client=None))
    peer = FaultPeer("10.0.0.9:1")
    subject_of(34, HEARTBEAT, peer)
    assert peer.client == "10.0.0.9@new"


def test_sides_of_a_partition_are_clients_addresses_and_brokers() -> None:
    cut = FaultRule(action="partition", direction="everything", parties=["billing-2", "10.0.0.7", "broker-b"])
    assert is_meant(cut, subject(PULL))
    assert is_meant(cut, subject(PULL, client=None, address="10.0.0.7:99"))
    assert not is_meant(cut, subject(PULL, client=None))
    broker = FaultPeer("10.0.0.3:5")
    subject_of(904, BrokerHeartbeat("cluster", "10.0.0.3:10911", "broker-b"), broker)
    assert is_meant(cut, broker.unknown())


class Bench:
    """A book, and its decisions."""

    def __init__(self, *rules: FaultRule, name: str = "broker-a") -> None:
        self.book = RuleBook(name)
        for number, one in enumerate(rules, 1):
            self.book.add(msgspec.structs.replace(one, number=number), UptimeMs(0))

    def judge(
        self, request: Request = PULL, direction: str = "request", uptime_ms: int = 0, message_ms: int = 0
    ) -> Any:
        return self.book.judge(direction, subject(request), UptimeMs(uptime_ms), MessageMs(message_ms))

    def ends(self, count: int, **choices: Any) -> list[bool]:
        rulings = [self.judge(**choices) for _ in range(count)]
        return [ruling is not None and ruling.end is not None for ruling in rulings]

    def hits(self) -> list[int]:
        return [state.hits for state in self.book.states(UptimeMs(0))]


def test_a_rule_hits_as_often_as_it_may() -> None:
    bench = Bench(rule(times=2))
    assert bench.ends(4) == [True, True, False, False]
    assert bench.hits() == [2]


def test_chance_is_a_series_that_a_seed_repeats_and_each_server_has_its_own() -> None:
    series = Bench(rule(probability=0.3, seed=7)).ends(200)
    assert 30 < sum(series) < 90
    assert Bench(rule(probability=0.3, seed=7)).ends(200) == series
    assert Bench(rule(probability=0.3, seed=8)).ends(200) != series
    assert Bench(rule(probability=0.3, seed=7), name="broker-b").ends(200) != series


def test_lifetime_runs_on_uptime_and_the_schedule_on_message_time() -> None:
    bench = Bench(rule(lifetime="1s"))
    assert bench.ends(1, uptime_ms=999) == [True]
    assert bench.ends(1, uptime_ms=1_000) == [False]
    bench = Bench(rule(**{"from": 500, "until": 600}))
    assert [bench.ends(1, message_ms=ms)[0] for ms in (499, 500, 599, 600)] == [False, True, True, False]


def test_directions_are_apart() -> None:
    bench = Bench(rule(drop="answer"))
    assert bench.ends(1) == [False]
    assert bench.ends(1, direction="answer") == [True]
    everything = Bench(FaultRule(action="partition", direction="everything", parties=["billing-2"]))
    assert [everything.ends(1, direction=one)[0] for one in ("request", "answer", "server")] == [True] * 3


def test_delays_add_up_and_the_first_that_ends_it_has_the_last_word() -> None:
    slow = parse_fault({"delay": "20ms"}).rule
    bench = Bench(slow, slow, parse_fault({"answer": "SYSTEM_BUSY"}).rule, rule(), slow)
    ruling = bench.judge()
    assert (ruling.delay_ms, ruling.end.answer_code) == (40, 2)
    assert bench.hits() == [1, 1, 1, 0, 0]


def test_jitter_lies_around_the_delay() -> None:
    bench = Bench(parse_fault({"delay": "100ms", "jitter": "30ms"}).rule)
    delays = {bench.judge().delay_ms for _ in range(300)}
    assert (min(delays), max(delays)) == (70, 130)


def test_each_message_of_a_bundle_is_a_send_of_its_own() -> None:
    busy = parse_fault({"code": "SEND_MESSAGE", "topic": "orders", "answer": "SYSTEM_BUSY", "times": 3}).rule
    bench = Bench(busy)
    assert list(bench.judge(MANY).refused) == [0, 2]
    assert list(bench.judge(MANY).refused) == [0]
    assert bench.judge(MANY) is None
    assert bench.hits() == [3]


def test_rule_lets_its_number_of_matching_requests_pass_first() -> None:
    book = RuleBook("broker-a")
    book.add(rule(code="SEND_MESSAGE", topic="orders", after=2, times=1), UptimeMs(0))
    requests = [SEND, PULL, SEND, SEND, SEND]
    hits = [book.judge("request", subject(one), UptimeMs(0), MessageMs(0)) is not None for one in requests]
    assert hits == [False, False, False, True, False]


def test_rule_counts_the_messages_of_a_bundle_that_pass_first() -> None:
    book = RuleBook("broker-a")
    book.add(parse_fault({"topic": "orders", "answer": "SYSTEM_BUSY", "after": 1, "times": 1}).rule, UptimeMs(0))
    ruling = book.judge("request", subject(MANY), UptimeMs(0), MessageMs(0))
    assert ruling is not None
    assert list(ruling.refused) == [2]


def test_book_returns_whether_a_rule_is_about_a_code() -> None:
    book, code = RuleBook("broker-a"), declaration_of(SendMessageV2).code
    assert not book.concerns(code)
    once = parse_fault({"code": "SEND_MESSAGE", "answer": "SYSTEM_BUSY", "times": 1}).rule
    book.add(msgspec.structs.replace(once, number=1), UptimeMs(0))
    assert (book.concerns(code), book.concerns(declaration_of(PullMessage).code)) == (True, False)
    book.judge("request", subject(SEND), UptimeMs(0), MessageMs(0))
    assert not book.concerns(code)  # It has reached its number of hits.
    book.add(msgspec.structs.replace(rule(group="billing"), number=2), UptimeMs(0))
    assert book.concerns(code)  # A rule without a code is about all of them.
    book.remove(2)
    assert not book.concerns(code)
