"""What isn't built is refused in words: never stored as something else, never answered with a success."""

from typing import Any

import pytest

from staticfire.protocol.properties import format_properties
from staticfire.protocol.requests.send import ManyMessage, SendMany, SendMessage
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.protocol.rocketmq_record import BatchMessage, encode_batch
from tests.scenarios.broker_stand import BrokerStand

OK, SYSTEM_ERROR, ILLEGAL, NO_PERMISSION = 0, 1, 13, 16
TIMER_WORDS = "accurate timer message is not enabled, timerWheelEnable is false"
HALF_WORDS = "the broker[10.0.0.2] sending transaction message is forbidden"

TIMERS = [{"TIMER_DELAY_SEC": "5"}, {"TIMER_DELAY_MS": "1"}, {"TIMER_DELIVER_MS": "1"}]


async def send_as(stand: BrokerStand, sys_flag: int, reconsume_times: int = 0, **properties: Any) -> Any:
    request = SendMessage(
        "producers", "orders", "TBW102", 4, 0, sys_flag, 0, 0, format_properties(properties).decode(),
        reconsume_times, body=b"x",
    )  # fmt: skip
    return await stand.ask(request)


@pytest.mark.row("D4")
@pytest.mark.parametrize("timer", TIMERS, ids=lambda timer: next(iter(timer)))
async def test_a_delivery_time_where_it_is_switched_off(stand: BrokerStand, timer: dict[str, Any]) -> None:
    await stand.restart(timer_wheel_enable=False)
    alone = await stand.send("orders", b"x", **timer)
    with_id = await stand.send("orders", b"x", UNIQ_KEY="A", **timer)
    below_one = await stand.send("orders", b"x", DELAY="0", **timer)
    assert {answer.code for answer in (alone, with_id, below_one)} == {SYSTEM_ERROR}
    assert (alone.remark or "").startswith(TIMER_WORDS)
    properties = format_properties(timer)
    many = await stand.ask(SendMany("producers", "TBW102", 4, body=[ManyMessage("orders", 0, properties, b"x")]))
    assert [(result.code, result.remark[: len(TIMER_WORDS)]) for result in many.body] == [(SYSTEM_ERROR, TIMER_WORDS)]
    assert await stand.bodies("orders") == []


@pytest.mark.row("D1")
async def test_a_delay_level_counts_before_a_delivery_time(stand: BrokerStand) -> None:
    assert (await stand.send("orders", b"x", DELAY="1", TIMER_DELIVER_MS="5")).code == OK
    assert (await stand.send("orders", b"y", STATE="MODEL of a TIMER_DELIVERY")).code == OK
    await stand.world.run_for(seconds=2)
    assert sorted(await stand.bodies("orders")) == [b"x", b"y"]


@pytest.mark.parametrize(
    ("of_batch", "of_message", "code"),
    [
        ({}, {"DELAY": "3"}, ILLEGAL),
        ({}, {"TIMER_DELIVER_MS": "5"}, ILLEGAL),
        ({"TIMER_DELIVER_MS": "5"}, {}, ILLEGAL),
        ({}, {"DELAY": "0", "MODEL": "x"}, OK),
        ({}, {"TRAN_MSG": "true"}, ILLEGAL),
        ({"TRAN_MSG": "True"}, {}, ILLEGAL),
        ({"TRAN_MSG": "false"}, {"TRAN_MSG": "no"}, OK),
    ],
)
async def test_a_batch_that_wants_to_come_later_or_is_half(
    stand: BrokerStand, of_batch: dict[str, str], of_message: dict[str, str], code: int
) -> None:
    """RocketMQ stores the messages of such a batch for everybody to see at once, unless its sysFlag says it, too."""
    messages = [BatchMessage(0, b"a", b""), BatchMessage(0, b"b", format_properties(of_message))]
    request = SendMessage(
        "producers", "orders", "TBW102", 4, 0, 0, 0, 0, format_properties(of_batch).decode(), 0, batch=True,
        body=encode_batch(messages),
    )  # fmt: skip
    assert (await stand.ask(request)).code == code
    assert len(await stand.bodies("orders")) == (2 if code == OK else 0)


@pytest.mark.row("F5")
@pytest.mark.parametrize(("sys_flag", "half"), [(4, "true"), (0, "True"), (4, ""), (12, "")])
async def test_half_messages_where_they_are_rejected(stand: BrokerStand, sys_flag: int, half: str) -> None:
    await stand.restart(reject_transaction_message=True)
    mark: dict[str, Any] = {"TRAN_MSG": half} if half else {}
    answer = await send_as(stand, sys_flag, UNIQ_KEY="A", PGROUP="producers", **mark)
    assert answer.code == NO_PERMISSION
    assert (answer.remark or "").startswith(HALF_WORDS)
    body = [ManyMessage("orders", 0, f"UNIQ_KEY\x01A\x02TRAN_MSG\x01{half}\x02".encode(), b"x", sys_flag=sys_flag)]
    many = await stand.ask(SendMany("producers", "TBW102", 4, body=body))
    assert [result.code for result in many.body] == [NO_PERMISSION]


@pytest.mark.parametrize("sys_flag", [4, 12])
async def test_a_half_message_that_only_its_sys_flag_knows_of(stand: BrokerStand, sys_flag: int) -> None:
    """RocketMQ stores it, and nobody ever gets it."""
    answer = await send_as(stand, sys_flag, UNIQ_KEY="A", PGROUP="producers")
    assert (answer.code, answer.remark) == (
        ILLEGAL,
        "the sysFlag marks a half message, but TRAN_MSG is missing: no consumer would get it",
    )


async def test_a_retry_that_an_old_client_sent_with_the_mark_of_a_half_message(stand: BrokerStand) -> None:
    answer = await send_as(stand, 0, reconsume_times=1, TRAN_MSG="true", DELAY="1")
    assert answer.code == OK
    assert (await send_as(stand, 0, TRAN_MSG="false")).code == OK


@pytest.mark.parametrize("sys_flag", [0x80, 0xC0, 0x81])
async def test_a_batch_in_one_message(stand: BrokerStand, sys_flag: int) -> None:
    many = await stand.ask(
        SendMany("producers", "TBW102", 4, body=[ManyMessage("orders", 0, b"", b"x", sys_flag=sys_flag)])
    )
    assert [result.code for result in many.body] == [ILLEGAL]
    for is_batch in (False, True):
        request = SendMessage("producers", "orders", "TBW102", 4, 0, sys_flag, 1, 7, "", 0, batch=is_batch, body=b"x")
        answer = await stand.ask(request)
        assert answer.code == ILLEGAL
    assert await stand.bodies("orders") == []


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [
        ("queue.type=BatchCQ", "each message of a batch is stored separately here, so that every client can read it"),
        ("cleanup.policy=COMPACTION", "it isn't supported yet"),
    ],
)
async def test_kinds_of_topics(stand: BrokerStand, attribute: str, reason: str) -> None:
    topic = UpdateTopic("orders", 4, 4, 6, attributes=f"+{attribute}")
    answer = await stand.ask(topic)
    assert answer.code == SYSTEM_ERROR
    assert answer.remark == f"{attribute} is not supported: {reason}; leave the attribute out"
    usual = attribute.replace("BatchCQ", "SimpleCQ").replace("COMPACTION", "DELETE")
    assert (await stand.ask(UpdateTopic("orders", 4, 4, 6, attributes=f"+{usual}"))).code == OK
