"""Pulls by conditions over properties (SQL92). RocketMQ: ExpressionMessageFilter, ConsumerFilterManager."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
import pytest_asyncio

from staticfire.broker.pulls import choosing
from staticfire.broker.pulls.checks import PullChecks
from staticfire.broker.pulls.choosing import KEPT_CHARACTERS_MAX, Choice, ConditionTable
from staticfire.protocol.codecs import JSON, NATIVE, ROCKETMQ
from staticfire.protocol.command import Answer
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, SubscriptionData
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.connections import CheckClientConfig, ClientConfig
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, FLAG_SUSPEND, PullMessage
from staticfire.protocol.requests.send import ManyMessage, SendMany
from staticfire.protocol.tags import TagExpression
from staticfire.runtime.connection import Connection
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.broker_stand import ADDRESS, NAME, BrokerStand

pytestmark = pytest.mark.row("P6")

FOUND, ERROR, NOT_FOUND, RETRY, UNPARSED, NO_FILTER = 0, 1, 19, 20, 23, 27
UNKNOWN = "The broker's consumer filter data is not exist!Your expression may be wrong!"
OFF = "The broker does not support consumer to filter message by SQL92"


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    stand = BrokerStand(world)
    await stand.start()
    await stand.put_topic("orders", 1)
    yield stand
    await stand.close()


def a_pull(condition: str | None, offset: int = 0, **changes: Any) -> PullMessage:
    pull = PullMessage("billing", "orders", 0, offset, 32, FLAG_SUBSCRIPTION, 0, 15_000, condition)
    pull.expression_type = "SQL92"
    for name, value in changes.items():
        setattr(pull, name, value)
    return pull


def bodies(answer: Answer) -> list[bytes]:
    return [record.body for record in answer.body.records] if answer.body else []


async def send_prices(stand: BrokerStand, prices: range, body_bytes: int = 0) -> None:
    """Send a message for each price, many at once."""
    messages = [
        ManyMessage("orders", 0, b"price\x01%d\x02" % price, b"%d" % price + bytes(body_bytes)) for price in prices
    ]
    await stand.ask(SendMany("producers", "TBW102", 4, body=messages))


async def heartbeat(stand: BrokerStand, condition: str, version: int = 1, expression_type: str = "SQL92") -> None:
    subscription = SubscriptionData("orders", condition, sub_version=version, expression_type=expression_type)
    data = ConsumerData("billing", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET", [subscription])
    assert (await stand.ask(Heartbeat(body=HeartbeatData(client_id="c", consumer_data_set=[data])))).code == 0


def by_heartbeat(offset: int = 0, version: int = 1) -> PullMessage:
    return a_pull(None, offset, sys_flag=0, sub_version=version)


# -- what is found -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec_byte", [NATIVE, JSON, ROCKETMQ])
async def test_a_pull_gets_what_its_condition_wants(world: SimulatedWorld, stand: BrokerStand, codec_byte: int) -> None:
    await stand.send("orders", b"cheap", price="3", region="eu")
    await stand.send("orders", b"far", price="300", region="asia")
    await stand.send("orders", b"good", price="300", region="eu")
    await stand.send("orders", b"no price", region="eu")
    pool = ConnectionPool(world.machine("puller"), codec_byte=codec_byte)
    answer: Any = await pool.ask(ADDRESS, a_pull("price > 100 AND region IN ('eu', 'us')"), 1_000)
    await pool.close()
    assert (answer.code, bodies(answer), answer.next_begin_offset) == (FOUND, [b"good"], 4)


@pytest.mark.parametrize(
    ("condition", "chosen"),
    [
        ("TAGS = 'paid'", [b"0"]),
        ("KEYS = 'k1'", [b"1"]),
        ("MSG_REGION = 'DefaultRegion'", [b"0", b"1"]),  # the broker itself has put it there
        ("UNIQ_KEY IS NOT NULL", [b"0", b"1"]),
    ],
)
async def test_properties_of_the_system_are_properties(stand: BrokerStand, condition: str, chosen: list[bytes]) -> None:
    await stand.send("orders", b"0", TAGS="paid")
    await stand.send("orders", b"1", KEYS="k1")
    assert bodies(await stand.ask(a_pull(condition))) == chosen


@pytest.mark.parametrize(
    ("wanted", "offset", "expected"), [(5, 0, 5), (32, 10, 32), (1, 95, 1), (32, 95, 5), (0, 99, 1)]
)
async def test_a_response_has_no_more_than_was_requested_and_the_next_continues_behind_it(
    stand: BrokerStand, wanted: int, offset: int, expected: int
) -> None:
    await send_prices(stand, range(100))
    answer = await stand.ask(a_pull("price >= 0", offset, max_msg_nums=wanted))
    assert len(bodies(answer)) == expected
    assert answer.next_begin_offset == offset + expected


async def test_an_answer_has_no_more_bytes_than_one_without_a_condition(stand: BrokerStand) -> None:
    await send_prices(stand, range(8), body_bytes=100_000)
    for condition, kind in (("price <> 1", "SQL92"), ("*", "TAG")):
        answer = await stand.ask(a_pull(condition, expression_type=kind))
        assert 2 <= len(bodies(answer)) < 4
    answer = await stand.ask(a_pull("price <> 1"))
    assert [body.rstrip(b"\0") for body in bodies(answer)] == [b"0", b"2"]
    assert answer.next_begin_offset == 3


@pytest.mark.parametrize("restarts", [False, True])
async def test_one_of_thousands_is_found_by_going_on(stand: BrokerStand, restarts: bool) -> None:
    await send_prices(stand, range(3_000))
    if restarts:
        await stand.restart()
    offset, answers = 0, []
    while offset < 3_000:
        answer = await stand.ask(a_pull("price = 2345", offset))
        assert answer.next_begin_offset - offset <= 800
        offset = answer.next_begin_offset
        answers.append((answer.code, bodies(answer)))
    assert answers == [(RETRY, []), (RETRY, []), (FOUND, [b"2345"]), (RETRY, [])]


async def test_one_look_reads_no_more_than_a_few_megabytes(stand: BrokerStand) -> None:
    for _ in range(4):
        await send_prices(stand, range(40), body_bytes=100_000)
    answer = await stand.ask(a_pull("price > 1000"))
    assert answer.code == RETRY
    assert 80 <= answer.next_begin_offset < 160


async def test_a_condition_of_very_many_terms_is_held_against_fewer_messages_at_a_time(stand: BrokerStand) -> None:
    await send_prices(stand, range(200))
    answer = await stand.ask(a_pull(" OR ".join(["price = 4000"] * 2_000)))
    assert (answer.code, answer.next_begin_offset) == (RETRY, choosing.EXAMINED_TERMS_MAX // 4_000)


async def test_a_damaged_message_is_passed_over(stand: BrokerStand) -> None:
    for price in ("1", "2", "3"):
        await stand.send("orders", price.encode(), price=price)
    second = (await stand.stored("orders"))[1]
    await stand.restart(scrub_bytes_per_second=0)
    inode = stand.world.disk(NAME).files["/store/commitlog/" + "0" * 20]
    inode.content[second.log_position + second.record_bytes - 1] ^= 1
    answer = await stand.ask(a_pull("price > 0"))
    assert (bodies(answer), answer.next_begin_offset) == ([b"1", b"3"], 3)


# -- held pulls --------------------------------------------------------------------------------------------------------


async def test_a_held_pull_waits_for_a_message_that_it_wants(world: SimulatedWorld, stand: BrokerStand) -> None:
    waiting = world.loop.create_task(stand.ask(a_pull("price > 100", sys_flag=FLAG_SUBSCRIPTION | FLAG_SUSPEND)))
    await world.run_for(ms=10)
    await stand.send("orders", b"cheap", price="3")
    await world.run_for(ms=100)
    assert not waiting.done()
    await stand.send("orders", b"dear", price="300")
    answer = await waiting
    assert (bodies(answer), answer.next_begin_offset) == ([b"dear"], 2)


async def test_a_held_pull_whose_message_never_comes_gets_the_next_offset(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    waiting = world.loop.create_task(stand.ask(a_pull("price > 100", sys_flag=FLAG_SUBSCRIPTION | FLAG_SUSPEND)))
    await world.run_for(ms=10)
    await stand.send("orders", b"cheap", price="3")
    began_ms = world.uptime_ms
    answer = await waiting
    assert (answer.code, answer.next_begin_offset) == (RETRY, 1)
    assert world.uptime_ms - began_ms <= 5_500


@pytest.mark.parametrize(("condition", "kind"), [("price = 999", "SQL92"), ("paid", "TAG")])
async def test_a_burst_that_is_too_long_for_one_look_is_gone_through_at_once(
    world: SimulatedWorld, stand: BrokerStand, condition: str, kind: str
) -> None:
    pull = a_pull(condition, sys_flag=FLAG_SUBSCRIPTION | FLAG_SUSPEND, expression_type=kind)
    waiting = world.loop.create_task(stand.ask(pull))
    await world.run_for(ms=10)
    began_ms = world.uptime_ms
    messages = [ManyMessage("orders", 0, b"price\x01%d\x02" % price, b"x") for price in range(999)]
    messages.append(ManyMessage("orders", 0, b"price\x01999\x02TAGS\x01paid\x02", b"the last"))
    await stand.ask(SendMany("producers", "TBW102", 4, body=messages))
    answer = await waiting
    assert (answer.code, answer.next_begin_offset) == (RETRY, 800)
    assert bodies(await stand.ask(a_pull(condition, 800, expression_type=kind))) == [b"the last"]
    assert world.uptime_ms - began_ms < 1_000


# -- subscriptions of heartbeats ---------------------------------------------------------------------------------------


async def test_without_its_own_a_pull_uses_the_condition_of_its_group(stand: BrokerStand) -> None:
    await send_prices(stand, range(6))
    await heartbeat(stand, "price > 3", version=5)
    assert bodies(await stand.ask(by_heartbeat(version=5))) == [b"4", b"5"]
    assert (await stand.ask(by_heartbeat(version=6))).code == 25
    await heartbeat(stand, "price < 1", version=6)
    assert bodies(await stand.ask(by_heartbeat(version=6))) == [b"0"]
    await heartbeat(stand, "price IN ('2')", version=6)  # no newer one
    assert bodies(await stand.ask(by_heartbeat(version=6))) == [b"0"]
    await heartbeat(stand, "*", version=7, expression_type="TAG")
    assert len(bodies(await stand.ask(by_heartbeat(version=7)))) == 6


async def test_a_group_with_a_wrong_condition_gets_nothing_until_it_has_a_right_one(stand: BrokerStand) -> None:
    await send_prices(stand, range(6))
    await heartbeat(stand, "price > 3", version=1)
    await heartbeat(stand, "price >", version=2)
    for version in (1, 2):
        answer = await stand.ask(by_heartbeat(version=version))
        assert (answer.code, answer.remark) == (NO_FILTER, UNKNOWN)
    await heartbeat(stand, "price > 4", version=3)
    assert bodies(await stand.ask(by_heartbeat(version=3))) == [b"5"]


async def test_the_condition_of_a_group_survives_the_broker_with_its_heartbeats(stand: BrokerStand) -> None:
    await send_prices(stand, range(6))
    await heartbeat(stand, "price > 3")
    await stand.kill_and_start()
    assert (await stand.ask(by_heartbeat())).code == 24
    await heartbeat(stand, "price > 3")
    assert bodies(await stand.ask(by_heartbeat())) == [b"4", b"5"]


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "kind", "words"),
    [
        ("price >", "SQL92", 'Encountered "<EOF>" at line 1, column 7.'),
        ("'x' > 3", "SQL92", "Value ''x'' cannot be compared."),
        ("NOT (" * 4_000 + "a" + ")" * 4_000, "SQL92", "levels of nested terms"),
        ("a" * 40_000, "SQL92", "40000 characters"),
        ("", "SQL92", "Encountered"),
        ("a", "XPATH", "unknown expression type XPATH"),
    ],
)
async def test_a_pull_with_a_condition_that_is_none_gets_nothing(
    stand: BrokerStand, condition: str, kind: str, words: str
) -> None:
    await stand.send("orders", b"x", a="1")
    for _ in range(2):
        answer = await stand.ask(a_pull(condition, expression_type=kind))
        assert answer.code == UNPARSED
        assert answer.remark.startswith("parse the consumer's subscription failed: ")
        assert words in answer.remark
    await heartbeat(stand, condition, expression_type=kind)
    assert (await stand.ask(by_heartbeat())).code == NO_FILTER


async def test_whoever_starts_can_ask_whether_a_condition_is_one(stand: BrokerStand) -> None:
    def check(condition: str, kind: str = "SQL92") -> CheckClientConfig:
        wanted = SubscriptionData("orders", condition, expression_type=kind)
        return CheckClientConfig(body=ClientConfig("c", "billing", wanted))

    assert (await stand.ask(check("price > 3"))).code == FOUND
    answer = await stand.ask(check("price > TRUE"))
    assert (answer.code, answer.remark) == (UNPARSED, "java.lang.RuntimeException: Value 'TRUE' cannot be compared.")
    assert (await stand.ask(check("a", "XPATH"))).code == UNPARSED
    assert (await stand.ask(check("||", "TAG"))).code == FOUND


async def test_conditions_can_be_switched_off(stand: BrokerStand) -> None:
    await send_prices(stand, range(6))
    await heartbeat(stand, "price > 3")
    assert (await stand.ask(UpdateBrokerConfig(body=b"enablePropertyFilter=false"))).remark is None
    for pull in (by_heartbeat(), a_pull("price > 3"), a_pull("price >")):
        answer = await stand.ask(pull)
        assert (answer.code, answer.remark) == (ERROR, OFF)
    check = CheckClientConfig(
        body=ClientConfig("c", "billing", SubscriptionData("orders", "a", expression_type="SQL92"))
    )
    assert (await stand.ask(check)).remark == OFF
    await stand.ask(UpdateBrokerConfig(body=b"enablePropertyFilter=true"))
    assert bodies(await stand.ask(by_heartbeat())) == [b"4", b"5"]


# -- what is kept ------------------------------------------------------------------------------------------------------


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The conditions that were compiled, in order."""
    compiled: list[str] = []
    make = choosing.make_choice

    def make_choice(text: str, kind: str) -> Choice | str:
        compiled.append(text)
        return make(text, kind)

    monkeypatch.setattr(choosing, "make_choice", make_choice)
    return compiled


def test_a_condition_is_compiled_once(compiled: list[str]) -> None:
    table = ConditionTable()
    for text in ("a > 3", "a >", "a > 3", "a >"):
        table.find(text, "SQL92")
    assert compiled == ["a > 3", "a >"]


def test_what_is_kept_compiled_is_bounded(compiled: list[str]) -> None:
    table = ConditionTable()
    texts = [f"a = {number} -- {'x' * (KEPT_CHARACTERS_MAX // 10)}" for number in range(100)]
    for text in texts:
        table.find(text, "SQL92")
    compiled.clear()
    for text in reversed(texts):  # The newest are kept. Each that isn't is compiled again, and takes a place.
        table.find(text, "SQL92")
        if compiled:
            break
    kept = texts[texts.index(compiled[0]) + 1 :]
    assert 0 < sum(map(len, kept)) <= KEPT_CHARACTERS_MAX


async def test_an_expression_of_tags_is_parsed_once_also_if_it_is_long(
    stand: BrokerStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, nobody = stand.broker.tables, cast(Connection, None)
    checks = PullChecks(tables.state, tables.topics, tables.groups)
    parsed: list[str] = []
    parse = TagExpression.parse

    def noted(text: str) -> TagExpression:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(TagExpression, "parse", noted)
    long, short = " || ".join([f"tag-{number}" for number in range(10_000)]), "paid || open"
    for text in (long, short, long, short):
        assert callable(checks.wanted(a_pull(text, expression_type="TAG"), nobody))
    assert parsed == [long, short]
