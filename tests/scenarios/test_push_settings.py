"""Settings of push consumers, each with another value than its default: what listeners and brokers see of it."""

from itertools import pairwise
from typing import Any

import pytest

from staticfire.client import ClientSettings, ConsumeFromWhere, ConsumeStatus, Message, OrderedStatus
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.groups import SubscriptionGroupConfig
from staticfire.simulation.world import LinkQuality, SimulatedWorld
from tests.scenarios.consuming import GROUP, TOPIC, Heard, Shop, forever, later, taking
from tests.scenarios.logged import LogLine
from tests.scenarios.ordering import SUSPEND, Ordering, Turn, own
from tests.scenarios.polling import QUEUE

FIRST, TIMESTAMP = ConsumeFromWhere.FIRST_OFFSET, ConsumeFromWhere.TIMESTAMP
READ_ONLY, READ_WRITE = 4, 6


async def permit(shop: Shop, perm: int) -> None:
    """Change what the first broker allows."""
    address = f"10.0.1.1:{shop.brokers['broker-a'].port}"
    answer = await shop.producer.client.pool.ask(address, UpdateBrokerConfig(body=b"brokerPermission=%d" % perm))
    assert answer.code == 0, answer.remark


# -- where it starts, and what is done ---------------------------------------------------------------------------------


async def test_a_group_starts_at_the_time_of_the_settings(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"before", queue=0)
    await world.run_for(minutes=5)
    since_ms = world.machine("shop").clock.wall_ms()
    await shop.send(b"after", queue=0)
    await shop.start("one", consume_from_where=TIMESTAMP, consume_timestamp_ms=since_ms, skip_young_history=True)
    await world.run_for(seconds=5)
    assert shop.bodies == [b"after"]


@pytest.mark.parametrize(("honours", "again"), [(False, 4), (True, 2)])
@pytest.mark.parametrize("is_popped", [False, True], ids=["pulled", "popped"])
async def test_whether_an_ack_index_counts_for_a_batch_that_failed(
    world: SimulatedWorld, shop: Shop, is_popped: bool, honours: bool, again: int
) -> None:
    async def half(heard: Heard) -> ConsumeStatus:
        heard.context.ack_index = 1
        is_first = heard.message.reconsume_times == 0
        return ConsumeStatus.RECONSUME_LATER if is_first else ConsumeStatus.CONSUME_SUCCESS

    bodies = [b"0", b"1", b"2", b"3"]
    if is_popped:
        await shop.admin.set_consume_mode(TOPIC, GROUP, "POP")
    await shop.send(*bodies, queue=0)
    await shop.start(
        "one", half, client_rebalance=not is_popped, consume_from_where=FIRST, consume_message_batch_max_size=4,
        reconsume_later_honours_ack_index=honours,
    )  # fmt: skip
    await shop.until_heard(4 + again)
    await world.run_for(minutes=2)
    assert shop.bodies[:4] == bodies
    assert sorted(set(shop.bodies[4:])) == bodies[4 - again :]


@pytest.mark.parametrize("pause_ms", [1_000, 20_000])
async def test_when_a_message_is_consumed_again_that_no_broker_takes_back(world: SimulatedWorld, pause_ms: int) -> None:
    shop = await Shop(world, broker_settings={"refuse_retries_when_read_only": True}).open()
    await shop.send(b"unlucky", queue=0)
    await permit(shop, READ_ONLY)
    await shop.start("one", later, retry_here_ms=pause_ms)
    await shop.until_heard(4, within_ms=80_000)
    times = [heard.uptime_ms for heard in shop.heard]
    assert all(pause_ms <= second - first <= pause_ms + 50 for first, second in pairwise(times))
    await permit(shop, READ_WRITE)
    await shop.close()


# -- locks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "heard_ms"),
    [
        ({}, 40_000),
        ({"lock_interval_ms": 50_000}, 50_000),
        ({"lock_interval_ms": 50_000, "lock_max_live_time_ms": 45_000}, 40_000),
    ],
    ids=["renewed", "renewed late", "trusted longer"],
)
async def test_a_lock_is_trusted_until_it_must_be_renewed(
    world: SimulatedWorld, group: Ordering, settings: dict[str, Any], heard_ms: int
) -> None:
    """A message that comes 40 s after the start waits for the next renewal if the lock isn't trusted any more."""
    began_ms = world.uptime_ms
    await group.start("one", **settings)
    await world.run_for(ms=40_000 - (world.uptime_ms - began_ms))
    await group.shop.send(b"0", queue=0)
    await group.until(1)
    assert heard_ms <= group.turns[0].began_ms - began_ms <= heard_ms + 500


@pytest.mark.parametrize(("settings", "count"), [({}, 0), ({"lock_timeout_ms": 2_500}, 4)], ids=["default", "longer"])
async def test_how_long_a_broker_may_take_to_lock_queues(
    world: SimulatedWorld, group: Ordering, settings: dict[str, Any], count: int
) -> None:
    consumer = group.consumer("one", **settings)
    world.set_link("one", "broker-a", LinkQuality(delay_ms=600))
    await world.start("one", consumer)
    await world.run_for(seconds=20)
    assert len(own(consumer)) == count


@pytest.mark.parametrize("pause_ms", [200, 9_000])
async def test_how_long_a_queue_pauses_whose_listener_wants_that(
    world: SimulatedWorld, group: Ordering, pause_ms: int
) -> None:
    async def suspend_once(turn: Turn) -> OrderedStatus:
        return SUSPEND if turn.message.reconsume_times == 0 else OrderedStatus.SUCCESS

    await group.start("one", suspend_once, suspend_current_queue_time_ms=pause_ms)
    await group.shop.send(b"0", queue=0)
    await group.until(2)
    first, second = group.turns
    assert pause_ms <= second.began_ms - first.began_ms <= pause_ms + 50


# -- pulls -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pause_ms", "cached"), [(50, 20), (100_000, 11)])
async def test_how_soon_a_full_queue_is_pulled_again(
    world: SimulatedWorld, shop: Shop, pause_ms: int, cached: int
) -> None:
    """After the pause, or earlier if half of its limit is free."""
    await shop.send(*[b"%d" % number for number in range(100)], queue=0)
    consumer = await shop.start(
        "one", taking(world, 100), consume_from_where=FIRST, consume_threads=1, pull_batch_size=1,
        pull_threshold_for_queue=20, flow_control_pause_ms=pause_ms,
    )  # fmt: skip
    await world.until(lambda: consumer.cached.get(QUEUE, 0) > 20)
    lowest = 21
    for _ in range(40):
        await world.run_for(ms=50)
        lowest = min(lowest, consumer.cached[QUEUE])
    assert lowest == cached


@pytest.mark.parametrize(
    ("settings", "cached"),
    [
        ({}, 40),
        ({"pull_threshold_for_queue": 15}, 16),
        ({"pull_threshold_size_for_queue_mib": 1}, 11),
        ({"pull_threshold_for_topic": 120}, 13),
        ({"pull_threshold_size_for_topic_mib": 12}, 11),
        ({"consume_concurrently_max_span": 20}, 22),
    ],
    ids=lambda value: next(iter(value), "default") if isinstance(value, dict) else "",
)
async def test_how_much_of_a_queue_is_cached(
    world: SimulatedWorld, shop: Shop, settings: dict[str, Any], cached: int
) -> None:
    """The limits of a topic are divided among the ten queues of this consumer: eight, and two for retries."""
    for _ in range(40):
        await shop.send(bytes(200_000), queue=0)
    consumer = await shop.start(
        "one", forever, consume_from_where=FIRST, await_termination_ms=0, pull_batch_size=1, **settings
    )
    await world.run_for(seconds=5)
    assert consumer.cached[QUEUE] == cached
    world.kill("one")


@pytest.mark.parametrize("timeout_ms", [3_000, 60_000])
async def test_how_long_a_pull_waits_for_its_response(
    world: SimulatedWorld, shop: Shop, logged: list[LogLine], timeout_ms: int
) -> None:
    await shop.start("one", pull_timeout_ms=timeout_ms, broker_suspend_max_ms=1_000)
    world.freeze("broker-a")
    await world.run_for(ms=timeout_ms - 1_100)
    assert not failures(logged)
    await world.run_for(ms=1_200)
    assert failures(logged)
    world.thaw("broker-a")


def failures(logged: list[LogLine]) -> list[object]:
    return [
        line.fields["kind"] for line in logged if line.event == "pull_failed" and line.fields["queue"] == str(QUEUE)
    ]


@pytest.mark.parametrize(
    ("client", "settings", "count"),
    [
        ({}, {}, 4),
        ({"mq_client_api_timeout_ms": 2_000}, {}, 0),
        ({}, {"offset_timeout_ms": 2_000}, 0),
    ],
    ids=["default", "less for members", "less for offsets"],
)
async def test_how_long_a_slow_broker_may_take_to_answer_a_new_member(
    world: SimulatedWorld, client: dict[str, Any], settings: dict[str, Any], count: int
) -> None:
    shop = await Shop(world).open()
    shop.settings = ClientSettings(**client)
    consumer = shop.consumer("one", **settings)
    world.set_link("one", "broker-a", LinkQuality(delay_ms=1_400))
    await world.start("one", consumer)
    await world.run_for(seconds=60)
    assert len(own(consumer)) == count
    await shop.close()


@pytest.mark.parametrize("pause_ms", [500, 40_000])
async def test_how_soon_a_refused_pull_is_tried_again(world: SimulatedWorld, shop: Shop, pause_ms: int) -> None:
    await shop.admin.create_group(SubscriptionGroupConfig(GROUP, consume_enable=False))
    await shop.send(b"1", queue=0)
    began_ms = world.uptime_ms
    await shop.start("one", consume_from_where=FIRST, pull_error_pause_ms=pause_ms)
    await shop.admin.create_group(SubscriptionGroupConfig(GROUP))
    await shop.until_heard(1)
    assert pause_ms <= world.uptime_ms - began_ms <= pause_ms + 400


@pytest.mark.parametrize(("idle_ms", "is_dropped"), [(15_000, True), (90_000, False)])
async def test_after_how_long_a_queue_without_a_new_pull_counts_as_stuck(
    world: SimulatedWorld, logged: list[LogLine], idle_ms: int, is_dropped: bool
) -> None:
    """Its broker holds each pull longer than usual."""
    shop = await Shop(world, broker_settings={"hold_ms_max": 100_000}).open()
    await shop.start("one", pull_idle_ms_max=idle_ms, broker_suspend_max_ms=100_000, pull_timeout_ms=600_000)
    await world.run_for(seconds=70)
    dropped = {str(line.fields["queue"]) for line in logged if line.event == "queue_dropped"}
    assert (str(QUEUE) in dropped) is is_dropped
    await shop.close()


@pytest.mark.parametrize(("posts", "count"), [(False, 0), (True, 8)])
async def test_whose_subscription_counts_for_a_pull(world: SimulatedWorld, shop: Shop, posts: bool, count: int) -> None:
    """Members of one group that want different tags: the last heartbeat counts, or that of the pull."""
    await shop.start("one", expression="a", post_subscription_when_pull=posts)
    await world.run_for(seconds=1)
    await shop.start("two", expression="b")
    await world.run_for(seconds=25)
    await shop.producer.send_many([Message(TOPIC, b"x", tags="a") for _ in range(16)])
    await world.run_for(seconds=5)
    assert len(shop.bodies_of("one")) == count


# -- progress ----------------------------------------------------------------------------------------------------------


async def test_when_the_offset_of_a_busy_queue_is_stored(world: SimulatedWorld, shop: Shop) -> None:
    took_ms = {b"0": 0, b"1": 6_000, b"2": 10**9}

    async def listen(heard: Heard) -> ConsumeStatus:
        await world.run_for(ms=took_ms[heard.message.body])
        return ConsumeStatus.CONSUME_SUCCESS

    await shop.send(*took_ms, queue=0)
    began_ms = world.uptime_ms
    await shop.start(
        "one", listen, consume_from_where=FIRST, consume_threads=1, broker_suspend_max_ms=25_000,
        await_termination_ms=0, persist_first_ms=2_000, persist_interval_ms=12_000,
    )  # fmt: skip
    for offset, at_ms in ((1, 2_000), (2, 14_000)):
        await world.run_for(ms=at_ms - 100 - (world.uptime_ms - began_ms))
        assert shop.committed(0) < offset
        await world.until(lambda offset=offset: shop.committed(0) == offset, within_ms=200)  # type: ignore[misc]
    world.kill("one")


# -- POP and the rest --------------------------------------------------------------------------------------------------


async def test_how_many_messages_a_pop_brings(world: SimulatedWorld, shop: Shop) -> None:
    await shop.admin.set_consume_mode(TOPIC, GROUP, "POP")
    await shop.send(*[b"%d" % number for number in range(20)], queue=0)
    settings: dict[str, Any] = {"client_rebalance": False, "consume_from_where": FIRST}
    await shop.start("one", pop_batch_nums=5, consume_message_batch_max_size=32, **settings)
    await shop.until_heard(20)
    assert max(len(heard.messages) for heard in shop.heard) == 5


@pytest.mark.parametrize("shop", [ClientSettings(rebalance_min_interval_ms=5_000)], indirect=True)
async def test_how_soon_a_rebalance_may_follow_another(world: SimulatedWorld, shop: Shop) -> None:
    one = await shop.start("one")
    await world.run_for(seconds=10)
    await shop.start("two")
    await world.run_for(ms=500)
    assert len(own(one)) == 4
    await shop.start("three")
    await world.run_for(seconds=4)
    assert len(own(one)) == 4, "it has just shared its queues"
    await world.run_for(ms=1_500)
    assert len(own(one)) < 4


@pytest.mark.parametrize("interval_ms", [4_000, 60_000])
async def test_how_often_members_rebalance_by_themselves(world: SimulatedWorld, interval_ms: int) -> None:
    """Brokers don't notify them, so a member notices another one only then."""
    client = ClientSettings(rebalance_interval_ms=interval_ms)
    shop = await Shop(world, client, {"notify_consumer_ids_changed_enable": False}).open()
    one = await shop.start("one")
    began_ms = world.uptime_ms
    await world.run_for(ms=500)
    await shop.start("two")
    await world.run_for(ms=interval_ms - 200 - (world.uptime_ms - began_ms))
    assert len(own(one)) == 4
    await world.run_for(ms=700)
    assert len(own(one)) == 2
    await shop.close()


@pytest.mark.parametrize("shop", [ClientSettings(rebalance_retry_ms=9_000)], indirect=True)
async def test_how_soon_a_topic_is_looked_for_again(world: SimulatedWorld, shop: Shop) -> None:
    began_ms = world.uptime_ms
    await shop.start("one", topic="bills", consume_from_where=FIRST)
    await world.run_for(ms=500)
    await shop.admin.create_topic("bills", queues=1)
    await shop.producer.send(Message("bills", b"1"))
    await shop.until_heard(1)
    assert 9_000 <= world.uptime_ms - began_ms <= 9_500
