"""Dead letters sent again, with all that they have; interrupted, nothing is lost and nothing comes twice."""

import asyncio

import pytest

from staticfire.client import (
    ClientError,
    ConsumeStatus,
    DeadLetterQueue,
    Message,
    PushConsumer,
    ResendInterrupted,
    ResendReport,
    SimpleConsumer,
    SimpleSettings,
    SubscriptionGroupConfig,
    UsageError,
)
from staticfire.client.admin.dead_letters import HISTORY, read_history
from staticfire.protocol.names import retry_topic
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS, NATIVE, ROCKETMQ
from tests.scenarios.burying import DEAD, bury, dlq, fine, put_stray
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Heard, Shop

__all__ = ["dlq"]

pytestmark = pytest.mark.row("A5")


# -- sending again -----------------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
async def test_a_letter_sent_again_is_the_same_message_with_its_history(
    world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue
) -> None:
    message = Message(
        TOPIC, b"unlucky" * 2_000, tags="paid", keys=["42", "eu"], flag=5, properties={"origin": "shop"},
        sharding_key="customer-7",
    )  # fmt: skip
    await bury(world, shop, message, queue=3)
    (letter,) = await dlq.letters()
    assert await dlq.resend() == ResendReport({TOPIC: 1})
    await shop.start("healed", fine)
    await shop.until_heard(1)
    (again,) = shop.heard[0].messages
    assert (again.topic, again.queue_id, again.broker_name) == (TOPIC, 3, "broker-a")
    assert (again.body, again.tags, again.keys, again.flag) == (b"unlucky" * 2_000, "paid", ["42", "eu"], 5)
    assert (again.get("origin"), again.get("__SHARDINGKEY"), again.delay_level) == ("shop", "customer-7", 0)
    assert (again.message_id, again.born_ms) == (letter.message.message_id, letter.message.born_ms)
    assert again.reconsume_times == 0
    assert again.get("ORIGIN_MESSAGE_ID") == letter.origin_message_id
    assert again.get(HISTORY) == f"billing broker-a/0/0 {letter.as_json()['diedAt']} 1"
    assert read_history(again.get(HISTORY)) == (letter.death,)
    assert again.get("RETRY_TOPIC") is None
    (still_there,) = await dlq.letters()
    assert (still_there.place, still_there.is_resent) == (letter.place, True)


@BOTH_PROTOCOLS
async def test_what_dies_again_has_both_deaths_and_all_its_tries(
    world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue
) -> None:
    await bury(world, shop, Message(TOPIC, b"unlucky"), queue=0)
    await dlq.resend()
    tries: list[int] = []

    async def fail_twice(heard: Heard) -> ConsumeStatus:
        tries.append(heard.message.reconsume_times)
        heard.context.delay_level_when_next_consume = 1 if heard.message.reconsume_times == 0 else -1
        return ConsumeStatus.RECONSUME_LATER

    await shop.start("unlucky", fail_twice)
    await world.until(lambda: shop.ends(DEAD)["broker-a", 0] == 2, 60_000)
    assert tries == [0, 1]
    first, second = await dlq.letters()
    assert first.message.message_id == second.message.message_id
    assert (first.is_resent, second.is_resent) == (True, False)
    assert (second.failed_times, second.earlier_deaths) == (2, (first.death,))
    await dlq.resend()
    await world.until(lambda: shop.ends(DEAD)["broker-a", 0] == 3, 60_000)
    assert (await dlq.find("broker-a/0/2")).earlier_deaths == (first.death, second.death)


@BOTH_PROTOCOLS
async def test_each_is_sent_once_unless_again_is_requested(
    world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue
) -> None:
    await bury(world, shop, *(Message(TOPIC, b"%d" % number) for number in range(10)))
    assert (await dlq.resend()).count == 10
    assert (await dlq.resend()).count == 0
    await shop.start("healed", fine)
    await shop.until_heard(10)
    await world.stop("healed")
    await bury(world, shop, Message(TOPIC, b"10"))
    assert (await dlq.resend()).count == 1
    assert (await dlq.resend(again=True)).count == 11


@BOTH_PROTOCOLS
async def test_some_by_their_ids_and_each_once(world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue) -> None:
    await bury(world, shop, *(Message(TOPIC, b"%d" % number) for number in range(4)), queue=0)
    second = await dlq.find("broker-a/0/1")
    report = await dlq.resend(["broker-a/0/3", second.message.message_id, second.id])
    assert report.count == 2
    await shop.start("healed", fine)
    await shop.until_heard(2)
    assert shop.bodies == [b"3", b"1"]
    assert not any(letter.is_resent for letter in await dlq.letters())
    assert (await dlq.resend("broker-a/0/0")).count == 1
    with pytest.raises(ClientError, match="has no dead letter nonsense:"):
        await dlq.resend("nonsense")


@BOTH_PROTOCOLS
async def test_other_groups_get_them_too_and_are_named(world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue) -> None:
    await shop.start("other", fine, group="shipping")
    await bury(world, shop, Message(TOPIC, b"unlucky"))
    assert (await dlq.resend()).other_groups == ["shipping"]
    await shop.until_heard(1)
    assert shop.bodies_of("other") == [b"unlucky"]


@BOTH_PROTOCOLS
async def test_only_its_group_gets_it_when_requested(world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue) -> None:
    await shop.start("other", fine, group="shipping")
    await bury(world, shop, Message(TOPIC, b"unlucky", tags="paid"))
    (letter,) = await dlq.letters()
    assert await dlq.resend(only_group=True) == ResendReport({TOPIC: 1})
    await shop.start("healed", fine)
    await shop.until_heard(1)
    await world.run_for(seconds=1)
    ((heard),) = shop.heard
    assert (heard.who, heard.message.topic, heard.message.tags) == ("healed", TOPIC, "paid")
    assert (heard.message.message_id, heard.message.reconsume_times) == (letter.message.message_id, 0)
    assert read_history(heard.message.get(HISTORY)) == (letter.death,)


async def test_a_group_that_consumes_in_order_cant_have_it_alone(
    world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue
) -> None:
    await bury(world, shop, Message(TOPIC, b"unlucky"))
    consumer = PushConsumer(GROUP, "10.0.0.1:9876", machine=world.machine("ordered"))
    consumer.subscribe(TOPIC)
    consumer.ordered_listener(lambda messages, context: None)
    await world.start("ordered", consumer)
    with pytest.raises(ClientError, match="consumes in order"):
        await dlq.resend(only_group=True)


async def let_die_unacknowledged(shop: Shop) -> None:
    """Let a message die at a simple consumer that never acknowledges it."""
    await configure(shop, b"popDeadLetters=true")
    await shop.admin.create_group(SubscriptionGroupConfig(GROUP, retry_max_times=1))
    machine = shop.world.machine("popper", host="10.0.4.2")
    consumer = SimpleConsumer(GROUP, NAMESRV, SimpleSettings(client=shop.settings, invisible_ms=1_000), machine)
    consumer.subscribe(TOPIC)
    await shop.world.start("popper", consumer)
    await shop.send(b"unlucky", queue=0)
    for _ in range(2):
        assert len(await consumer.receive(1, await_ms=5_000)) == 1
        await shop.world.run_for(seconds=2)


@BOTH_PROTOCOLS
async def test_a_group_that_pops_gets_it_in_its_topic_only(shop: Shop, dlq: DeadLetterQueue) -> None:
    await let_die_unacknowledged(shop)
    with pytest.raises(ClientError, match="no member of billing reads %RETRY%billing: simple consumers and gRPC"):
        await dlq.resend(only_group=True)
    await shop.world.stop("popper")
    with pytest.raises(ResendInterrupted, match="broker-a/0/0 failed: it was popped, and no member that reads"):
        await dlq.resend(only_group=True)
    assert sum(shop.ends(retry_topic(GROUP)).values()) == 0
    assert (await dlq.resend()).count == 1


@BOTH_PROTOCOLS
async def test_another_topic_takes_them(world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue) -> None:
    await shop.admin.create_topic("investigated", 1)
    await bury(world, shop, Message(TOPIC, b"unlucky"))
    before = shop.ends()
    assert await dlq.resend(to="investigated") == ResendReport({"investigated": 1})
    assert sum(shop.ends("investigated").values()) == 1
    assert shop.ends() == before


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"to": "no such topic"}, "illegal characters"),
        ({"to": "never-made"}, "no route to topic never-made"),
        ({"to": "%RETRY%billing"}, "it belongs to a group"),
        ({"to": DEAD}, "it belongs to a group"),
        ({"to": "SCHEDULE_TOPIC_XXXX"}, "it is RocketMQ's own"),
        ({"to": TOPIC, "only_group": True}, "choose either another topic"),
    ],
)
async def test_a_target_that_cant_be_sent_to_is_reported_before_anything_is_sent(
    world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue, choices: dict[str, str], words: str
) -> None:
    await bury(world, shop, Message(TOPIC, b"unlucky"))
    with pytest.raises((ClientError, UsageError, Exception), match=words):
        await dlq.resend(**choices)  # type: ignore[arg-type]
    assert await dlq.resend() == ResendReport({TOPIC: 1})


async def test_what_cant_be_sent_stays_and_is_reported_and_the_others_go(
    world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue
) -> None:
    await shop.admin.create_topic("refunds", 1)
    await bury(world, shop, Message(TOPIC, b"1"), queue=0)
    broker = shop.brokers["broker-a"]
    await put_stray(shop)
    await bury(world, shop, Message(TOPIC, b"2"), queue=0)
    assert broker.state.store.queue(DEAD, 0).max_offset == 3
    report = await dlq.resend()
    assert report.resent == {TOPIC: 2}
    ((left),) = report.left
    assert left.id == "broker-a/0/1"
    assert "doesn't contain its original topic" in left.reason
    assert await dlq.resend() == ResendReport(skipped=1, left=[left])
    assert (await dlq.resend(["broker-a/0/1"], to="refunds")).resent == {"refunds": 1}


async def test_a_topic_that_is_gone_is_not_created_again(
    world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue
) -> None:
    await bury(world, shop, Message(TOPIC, b"1"), queue=0)
    await shop.admin.delete_topic(TOPIC)
    report = await dlq.resend()
    assert (report.count, [left.id for left in report.left]) == (0, ["broker-a/0/0"])
    assert TOPIC not in await shop.admin.topics()


async def test_a_queue_of_letters_that_was_created_again_is_sent_from_its_start(
    world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue
) -> None:
    await bury(world, shop, *(Message(TOPIC, b"%d" % number) for number in range(5)), queue=0)
    await shop.admin.delete_topic(DEAD)
    await bury(world, shop, Message(TOPIC, b"5"), queue=0)
    offsets = shop.brokers["broker-a"].tables.groups.offsets
    offsets.commit("TOOLS_CONSUMER", DEAD, 0, 5)  # as brokers have it that forget no offsets
    assert (await dlq.resend()).count == 1


# -- interrupted -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("only_group", "shop"),
    [(False, NATIVE), (True, ROCKETMQ)],
    ids=["all-staticfire", "group-rocketmq"],
    indirect=["shop"],
)
@pytest.mark.parametrize("sent", [1, 29])
@pytest.mark.parametrize("how", ["cancelled", "broker killed", "power lost"])
async def test_an_interrupted_resend_continues_where_it_was(
    world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue, how: str, sent: int, only_group: bool
) -> None:
    wanted = [b"%d" % number for number in range(30)]
    await bury(world, shop, *(Message(TOPIC, body) for body in wanted), queue=0)
    await world.run_for(seconds=6)  # the group's offsets are saved every 5 s, and a kill shall not move it back
    topic = retry_topic(GROUP) if only_group else TOPIC
    before = sum(shop.ends(topic).values())
    resending = world.loop.create_task(dlq.resend(only_group=only_group))
    await world.until(lambda: sum(shop.ends(topic).values()) >= before + sent, 1_000)
    if how == "cancelled":
        resending.cancel()
        await world.loop.create_task(asyncio.wait([resending]))
    else:
        world.kill("broker-a", power_loss=how == "power lost")
        with pytest.raises(ResendInterrupted, match="To continue there, resend all again"):
            await resending
        await shop.start_broker("broker-a")
        await world.run_for(seconds=3)
    report = await dlq.resend(only_group=only_group)
    assert report.count <= (30 if how == "power lost" else 30 - sent)
    await shop.start("healed", fine)
    await world.until(lambda: len(shop.bodies) >= 30, 60_000)
    await world.run_for(seconds=1)
    assert shop.bodies == wanted


@BOTH_PROTOCOLS
async def test_one_that_comes_twice_can_be_recognized(world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue) -> None:
    await bury(world, shop, Message(TOPIC, b"unlucky"), queue=0)
    (letter,) = await dlq.letters()
    await dlq.resend([letter.id])
    await dlq.resend([letter.id])
    await shop.start("healed", fine)
    await shop.until_heard(2)
    one, two = (heard.message for heard in shop.heard)
    assert one.message_id == two.message_id == letter.message.message_id
    assert one.get(HISTORY) == two.get(HISTORY)


async def test_a_resend_that_a_broker_refuses_says_how_far_it_came(
    world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue
) -> None:
    await shop.admin.create_topic(TOPIC, 4, order=True)
    await bury(world, shop, *(Message(TOPIC, b"%d" % number) for number in range(30)), queue=0)
    resending = world.loop.create_task(dlq.resend())
    await world.until(lambda: shop.ends()["broker-a", 0] == 40, 1_000)
    await set_permission(shop, 4)
    with pytest.raises(
        ResendInterrupted, match=r"sent 1\d dead letters, then broker-a/0/1\d failed: NO_PERM"
    ) as reported:
        await resending
    sent = reported.value.report.count
    assert reported.value.report.resent == {TOPIC: sent}
    await set_permission(shop, 6)
    assert (await dlq.resend()).count == 30 - sent


async def set_permission(shop: Shop, permission: int) -> None:
    """Let a broker take messages for its ordered topics, or refuse them."""
    await configure(shop, b"brokerPermission=%d" % permission)


async def configure(shop: Shop, setting: bytes) -> None:
    request = UpdateBrokerConfig(body=setting)
    assert (await shop.producer.client.pool.ask("10.0.1.1:10911", request, 3_000)).code == 0
