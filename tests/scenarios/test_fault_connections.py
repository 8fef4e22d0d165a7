"""Fault rules and connections: which of them are meant, and what their frames do to each other."""

import pytest

from staticfire.client import AnswerTimeout
from staticfire.protocol.command import Request
from staticfire.protocol.requests.offsets import GetMaxOffset, GetMinOffset
from staticfire.protocol.requests.pull import PullMessage
from staticfire.runtime.pool import ConnectionPool
from tests.scenarios.consuming import TOPIC
from tests.scenarios.faulty_shop import BROKER, FaultyShop, one_queue_shop

__all__ = ["one_queue_shop"]

pytestmark = pytest.mark.row("S2")

# A pull with this flag waits for a message, and the group is one without a subscription on the broker.
HELD = 2 | 4


@pytest.mark.parametrize("said", [{"address": "10.0.4.1", "drop": "request"}, {"partition": "broker-a/10.0.4.1"}])
async def test_address_of_a_connection_that_is_made_while_there_is_a_rule_is_meant(
    shop: FaultyShop, said: dict[str, str]
) -> None:
    await shop.add(**said)
    pool = ConnectionPool(shop.world.machine("till", host="10.0.4.1"))
    with pytest.raises(AnswerTimeout):
        await pool.ask(BROKER, GetMaxOffset(TOPIC, 0), 1_000)
    assert await shop.hits() == [1]
    await shop.send(b"from elsewhere")
    await pool.close()


async def test_delayed_request_holds_up_no_answer_to_another(shop: FaultyShop) -> None:
    await shop.add(code="GET_MAX_OFFSET", delay="4s")
    connection = await shop.producer.client.pool.connection(BROKER)
    asked_first = connection.ask(GetMaxOffset(TOPIC, 0), 10_000)
    await shop.world.run_for(ms=100)
    await shop.add(code="GET_MIN_OFFSET", direction="answer", delay="100ms")
    with shop.takes(100):
        await connection.ask(GetMinOffset(TOPIC, 0), 10_000)
    assert not asked_first.done()
    with shop.takes(3_800, within_ms=10):
        await asked_first


async def test_delayed_requests_keep_their_order_and_delayed_answers_keep_theirs(shop: FaultyShop) -> None:
    connection, answered = await shop.producer.client.pool.connection(BROKER), list[str]()

    def ask(name: str, request: Request) -> None:
        connection.ask(request, 10_000).add_done_callback(lambda _: answered.append(name))

    for direction in ("request", "answer"):
        await shop.add(code="GET_MAX_OFFSET", direction=direction, delay="1s")
        await shop.add(code="GET_MIN_OFFSET", direction=direction, delay="10ms")
        ask("slow", GetMaxOffset(TOPIC, 0))
        ask("quick", GetMinOffset(TOPIC, 0))
        await shop.world.run_for(ms=2_000)
        await shop.faults.remove(0)
    assert answered == ["slow", "quick"] * 2


async def test_rule_by_group_applies_to_a_pull_that_waited_before_the_rule_existed(
    shop: FaultyShop,
) -> None:
    await shop.add(code="SEND_MESSAGE", topic="bills", answer="SYSTEM_BUSY")
    connection = await shop.pool.connection(BROKER)
    pulls = [
        connection.ask(PullMessage(group, TOPIC, 0, 0, 32, HELD, suspend_timeout_millis=2_000), 10_000)
        for group in ("billing", "audit")
    ]
    await shop.world.run_for(ms=100)
    await shop.add(code="PULL_MESSAGE", group="billing", drop="answer")
    await shop.world.run_for(ms=5_000)
    assert [pull.done() for pull in pulls] == [False, True]
    assert await shop.hits() == [0, 1]
    with pytest.raises(AnswerTimeout):
        await pulls[0]


async def test_rule_that_has_reached_its_number_of_hits_is_about_nothing(shop: FaultyShop) -> None:
    await shop.add(code="GET_MAX_OFFSET", delay="1s", times=1)
    for delay_ms in (1_000, 0):
        with shop.takes(delay_ms):
            await shop.pool.ask(BROKER, GetMaxOffset(TOPIC, 0), 10_000)
    assert await shop.hits() == [1]
