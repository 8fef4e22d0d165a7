"""Fault rules on a running cluster: what clients see of each, and that it is over when the rule is gone."""

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from staticfire.client import (
    AnswerTimeout,
    BrokerAnswer,
    ClientError,
    ClientSettings,
    Message,
    NetworkError,
    Producer,
    UsageError,
)
from staticfire.cluster.fault_rules import ClusterFaults
from staticfire.control.reset import reset
from staticfire.control.whole_cluster import KnownBrokers
from staticfire.faults.outlet import Outlet
from staticfire.protocol.codecs import JSON, NATIVE, ROCKETMQ, codec_for
from staticfire.protocol.requests.offsets import GetMaxOffset
from staticfire.protocol.requests.send import SendMessageV2
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.link import LinkQuality
from tests.cases import first_and_slow
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC
from tests.scenarios.faulty_shop import BROKER, ONE_TRY, FaultyShop

pytestmark = pytest.mark.row("S2")


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[FaultyShop]:
    shop = FaultyShop(world, getattr(request, "param", ClientSettings()))
    await shop.open(brokers=1, queues=1)
    await shop.send(b"before")
    yield shop
    await shop.close()


@pytest_asyncio.fixture
async def till(shop: FaultyShop) -> AsyncIterator[Producer]:
    async with Producer("tills", NAMESRV, ONE_TRY, shop.world.machine("till", host="10.0.4.1")) as producer:
        await producer.send(Message(TOPIC, b"before"))
        yield producer


@BOTH_PROTOCOLS
async def test_sends_get_the_code_of_a_rule_as_often_as_it_says_and_retries_get_through(shop: FaultyShop) -> None:
    added = await shop.add(code="SEND_MESSAGE", topic=TOPIC, answer="SYSTEM_BUSY", times=2)
    assert added.words == f"SEND_MESSAGE of topic {TOPIC}: respond with SYSTEM_BUSY, 2 times"
    assert list(added.hits) == ["broker-a"]  # No nameserver stores messages.
    await shop.send(b"one")
    assert (await shop.hits(), shop.stored()) == ([2], 2)


async def test_who_tries_once_gets_code_and_remark(shop: FaultyShop, till: Producer) -> None:
    await shop.add(code="SEND_MESSAGE", answer="SERVICE_NOT_AVAILABLE", remark="closed for lunch")
    with pytest.raises(BrokerAnswer, match="closed for lunch") as refused:
        await till.send(Message(TOPIC, b"one"))
    assert refused.value.code == 14
    await shop.faults.remove(1)
    await till.send(Message(TOPIC, b"two"))
    assert await shop.hits() == []


async def test_of_a_bundle_only_what_is_meant_is_refused_and_counted(shop: FaultyShop, till: Producer) -> None:
    await shop.admin.create_topic("bills", queues=1)
    await shop.add(code="SEND_MESSAGE", topic="bills", answer="SYSTEM_BUSY", times=2)
    topics = ["bills", TOPIC, "bills", "bills", TOPIC]
    results = await till.send_many(
        [Message(topic, b"%d" % place) for place, topic in enumerate(topics)], return_exceptions=True
    )
    assert [isinstance(result, BrokerAnswer) for result in results] == [True, False, True, False, False]
    assert await shop.hits() == [2]


@pytest.mark.parametrize("direction", ["request", "answer"])
async def test_delays_hold_up_a_client_and_no_other(shop: FaultyShop, till: Producer, direction: str) -> None:
    added = await shop.add(client="till-1", code="SEND_MESSAGE", delay="200ms", direction=direction)
    assert added.notes == []
    with shop.takes(200):
        await till.send(Message(TOPIC, b"slow"))
    with shop.takes(0):
        await shop.send(b"quick")
    assert await shop.hits() == [1]


async def test_delays_with_jitter_keep_the_order_of_a_connection(shop: FaultyShop) -> None:
    await shop.add(code="GET_MAX_OFFSET", delay="50ms", jitter="50ms", seed=3)
    pool, answered = shop.producer.client.pool, list[int]()
    connection = await pool.connection(BROKER)
    futures = [connection.ask(GetMaxOffset(TOPIC, 0), 5_000) for _ in range(50)]
    for number, future in enumerate(futures):
        future.add_done_callback(lambda _, number=number: answered.append(number))  # type: ignore[misc]
    await shop.world.run_for(ms=200)
    assert answered == list(range(50))


async def test_dropped_request_is_not_carried_out(shop: FaultyShop, till: Producer) -> None:
    await shop.add(code="SEND_MESSAGE", drop="request")
    with pytest.raises(NetworkError, match="no response"):
        await till.send(Message(TOPIC, b"lost"))
    assert (await shop.hits(), shop.stored()) == ([1], 2)


@BOTH_PROTOCOLS
@pytest.mark.parametrize("how", ["drop", "close"])
async def test_lost_answer_makes_a_duplicate_of_the_retry(shop: FaultyShop, how: str) -> None:
    await shop.add(code="SEND_MESSAGE", times=1, **{how: "answer"})
    try:
        await shop.send(b"one")
    except AnswerTimeout:
        await shop.send(b"one")  # The producer has waited for its answer as long as it may.
    await shop.start("clerk")
    await shop.until_heard(3)
    assert shop.bodies == [b"before", b"one", b"one"]


@pytest.mark.parametrize(("direction", "stored"), [("request", 2), ("answer", 3)])
async def test_closed_connection_is_opened_again(shop: FaultyShop, till: Producer, direction: str, stored: int) -> None:
    await shop.add(code="SEND_MESSAGE", close=direction, times=1)
    with pytest.raises(NetworkError, match="lost before the response"):
        await till.send(Message(TOPIC, b"one"))
    assert shop.stored() == stored
    await till.send(Message(TOPIC, b"two"))


async def test_corrupt_answer_has_another_bit(shop: FaultyShop) -> None:
    await shop.add(code="PULL_MESSAGE", corrupt=True, times=1, seed=5)
    await shop.send(b"x" * 2_000)
    await shop.start("clerk")
    await shop.until_heard(2)
    spoilt = shop.bodies[1]
    assert sum(byte != ord("x") for byte in spoilt) == 1
    assert (len(spoilt), await shop.hits()) == (2_000, [1])


async def test_limited_bandwidth_delays_a_frame_and_all_after_it(shop: FaultyShop) -> None:
    await shop.send(Random(1).randbytes(20_000))
    await shop.add(code="PULL_MESSAGE", group=GROUP, bandwidth="10k")
    began_ms = shop.world.uptime_ms
    await shop.start("clerk")
    await shop.until_heard(2)
    assert 2_000 < shop.world.uptime_ms - began_ms < 2_600


async def test_duplicated_send_is_stored_twice_and_answered_once(shop: FaultyShop, till: Producer) -> None:
    await shop.add(code="SEND_MESSAGE", duplicate=True, times=1)
    await till.send(Message(TOPIC, b"one"))
    assert shop.stored() == 4
    await shop.add(code="SEND_MESSAGE", duplicate=True, direction="answer")
    await till.send(Message(TOPIC, b"two"))
    assert shop.stored() == 5


async def test_times_of_a_client_with_a_wrong_clock_are_shifted(shop: FaultyShop, till: Producer) -> None:
    await shop.add(client="till-1", skew="-1h")
    await till.send(Message(TOPIC, b"old"))
    await shop.start("clerk")
    await shop.until_heard(3)
    message = shop.heard[-1].messages[-1]
    assert message.body == b"old"
    assert message.stored_ms - message.born_ms == pytest.approx(3_600_000, abs=50)


async def test_requests_of_the_server_itself_are_dropped(shop: FaultyShop) -> None:
    await shop.start("clerk-1")
    await shop.world.run_for(ms=1_000)
    await shop.add(code="NOTIFY_CONSUMER_IDS_CHANGED", group=GROUP, drop=True)
    await shop.start("clerk-2")
    await shop.world.run_for(ms=1_000)
    assert (await shop.hits())[0] >= 1


async def test_read_only_broker_refuses_and_its_routes_say_so_until_the_rule_is_gone(
    shop: FaultyShop, till: Producer
) -> None:
    await shop.add(broker="broker-a", read_only=True)
    with pytest.raises(BrokerAnswer, match="forbidden"):
        await till.send(Message(TOPIC, b"one"))
    await shop.world.run_for(ms=1_000)
    assert {queues.perm for queues in (await shop.admin.route(TOPIC)).queue_datas} == {4}
    await shop.faults.remove(0)
    await shop.world.run_for(ms=1_000)
    assert {queues.perm for queues in (await shop.admin.route(TOPIC)).queue_datas} == {6}
    await till.send(Message(TOPIC, b"two"))


async def test_full_disk_refuses_sends_until_the_rule_ends(shop: FaultyShop, till: Producer) -> None:
    await shop.add(disk_full=True, lifetime="5s")
    with pytest.raises(BrokerAnswer, match="fault rule"):
        await till.send(Message(TOPIC, b"one"))
    assert (await shop.faults.views())[0].left_ms > 0
    await shop.world.run_for(ms=5_001)
    assert await shop.faults.views() == []
    await till.send(Message(TOPIC, b"two"))


async def test_partition_cuts_a_client_off_and_heals(shop: FaultyShop, till: Producer) -> None:
    await shop.add(partition="broker-a/till-1")
    with pytest.raises(NetworkError):
        await till.send(Message(TOPIC, b"one"))
    await shop.send(b"another client")
    await shop.faults.remove(1)
    await till.send(Message(TOPIC, b"two"))


async def test_partition_from_an_address_cuts_off_routes_too(shop: FaultyShop, till: Producer) -> None:
    added = await shop.add(partition="broker-a,nameserver/10.0.4.1")
    assert sorted(added.hits) == ["broker-a", "nameserver"]
    for topic in (TOPIC, "another"):
        with pytest.raises(NetworkError):
            await till.send(Message(topic, b"one"))
    await shop.send(b"from elsewhere")


async def test_nameserver_loses_a_broker_that_is_cut_off(shop: FaultyShop) -> None:
    added = await shop.add(partition="broker-a/nameserver", lifetime="3m")
    assert list(added.hits) == ["nameserver"]  # Only it receives requests of the other side.
    await shop.world.run_for(ms=150_000)
    with pytest.raises(ClientError, match="no broker is registered"):
        await shop.admin.masters()
    await shop.world.run_for(ms=120_000)
    assert list(await shop.admin.masters()) == ["broker-a"]


async def test_partition_is_shown_with_all_that_are_cut_off(shop: FaultyShop, till: Producer) -> None:
    added = await shop.add(partition="broker-a/nameserver,till-1", lifetime="3m")
    assert (added.words, sorted(added.hits)) == (
        "cut off from broker-a, till-1: partition, for 3m",
        ["broker-a", "nameserver"],
    )
    assert [view.words for view in await shop.faults.views()] == [added.words]


async def test_rule_about_routes_is_the_nameservers(shop: FaultyShop) -> None:
    added = await shop.add(code="GET_ROUTEINFO_BY_TOPIC", answer="SYSTEM_ERROR")
    assert list(added.hits) == ["nameserver"]


async def test_rule_that_drops_everything_can_be_removed(shop: FaultyShop) -> None:
    for direction in ("request", "answer", "server"):
        await shop.add(drop=direction)
    assert await shop.hits() == [0, 0, 0]
    assert await shop.faults.remove(0) == {"nameserver": 3, "broker-a": 3}
    await shop.send(b"after")


async def test_names_that_do_not_exist_yet_are_noted(shop: FaultyShop) -> None:
    added = await shop.add(topic="ordrs", group="nobody", client="nobody", drop=True)
    assert [note.partition(" yet")[0] for note in added.notes] == [
        "no broker has topic ordrs", "no broker knows group nobody", "no client nobody is connected",
    ]  # fmt: skip
    assert (await shop.add(topic=TOPIC, queue=99, drop=True)).notes == [
        "no broker has a queue 99 of it yet: the rule waits for it"
    ]
    assert (await shop.add(topic=TOPIC, queue=0, drop=True)).notes == []
    assert (await shop.add(until=5, drop=True)).notes == [
        "message time is already past the rule's end: the rule hits nothing"
    ]
    cut = await shop.add(partition="broker-a/broker-z")
    assert cut.notes == [
        "no client broker-z is connected yet: the rule waits for it",
        "broker-z is treated as a client; did you mean broker-a? the servers are nameserver, broker-a",
    ]
    with pytest.raises(UsageError, match=r"there is no server broker-x.*did you mean broker-a"):
        await shop.add(partition="broker-a,broker-x/nameserver")
    with pytest.raises(UsageError, match="there is no broker-x in this cluster; it has nameserver, broker-a"):
        await shop.add(broker="broker-x", drop=True)
    with pytest.raises(UsageError, match="nameserver can't be disk-full"):
        await shop.add(broker="nameserver", disk_full=True)
    for sides in ("nameserver/till-1", "till-1/till-2"):
        with pytest.raises(UsageError, match="never connect to each other"):
            await shop.add(partition=sides)


@BOTH_PROTOCOLS
async def test_answer_that_a_pull_waits_for_already_is_meant_too(shop: FaultyShop) -> None:
    await shop.start("clerk")
    await shop.until_heard(1)
    await shop.world.run_for(ms=1_000)
    await shop.add(code="PULL_MESSAGE", topic=TOPIC, group=GROUP, drop="answer", times=1)
    await shop.send(b"after")
    await shop.world.run_for(ms=2_000)
    assert (shop.bodies, await shop.hits()) == ([b"before"], [1])
    await shop.until_heard(2)  # When the consumer has given the pull up.


async def test_numbers_do_not_come_twice_and_a_reset_removes_rules(shop: FaultyShop) -> None:
    first = await shop.add(code="SEND_MESSAGE", drop="request", lifetime="1s")
    await shop.world.run_for(ms=1_001)
    second = await shop.add(drop="request")
    assert (first.number, second.number) == (1, 2)
    await reset(shop.admin.client.pool, NAMESRV, KnownBrokers())
    assert await shop.faults.views() == []


async def test_group_view_has_the_rules_that_may_affect_it(shop: FaultyShop) -> None:
    await shop.start("clerk")
    await shop.until_heard(1)
    await shop.add(code="PULL_MESSAGE", group=GROUP, delay="1s")
    await shop.add(code="PULL_MESSAGE", group="others", drop="request")
    await shop.add(topic="others", drop="request")
    warnings = [warning.words for warning in (await shop.admin.group(GROUP)).warnings]
    assert [words.partition(" (")[0] for words in warnings] == [
        f"fault rule 1 is active: PULL_MESSAGE of group {GROUP}: delay by 1s"
    ]


async def test_restarted_broker_has_no_rules(shop: FaultyShop) -> None:
    await shop.add(code="SEND_MESSAGE", answer="SYSTEM_BUSY")
    await shop.world.stop("broker-a")
    await shop.start_broker("broker-a")
    assert await shop.faults.views() == []
    await shop.send(b"after")


async def test_after_the_last_rule_nothing_is_intercepted(shop: FaultyShop, till: Producer) -> None:
    broker = shop.brokers["broker-a"]
    handlers, hot = dict(broker.dispatcher.routes.handlers), dict(broker.dispatcher.routes.hot)
    await shop.add(code="SEND_MESSAGE", delay="10ms")
    await till.send(Message(TOPIC, b"one"))
    assert broker.dispatcher.routes.handlers != handlers
    await shop.faults.remove(0)
    assert broker.dispatcher.routes.handlers == handlers
    assert {mark: hot[mark] for mark in hot} == {mark: broker.dispatcher.routes.hot[mark] for mark in hot}
    assert not any(isinstance(one.transport, Outlet) for one in broker.connections)


@pytest.mark.parametrize("seed", first_and_slow(range(4)))
async def test_whatever_goes_wrong_nothing_that_was_acknowledged_is_lost(shop: FaultyShop, seed: int) -> None:
    chance, acknowledged = Random(seed), list[bytes]()
    await shop.start("clerk-1")
    await shop.start("clerk-2")
    for number in range(60):
        if chance.random() < 0.5:
            await shop.add(**any_rule(chance), seed=chance.randrange(100))
        if chance.random() < 0.2:
            await shop.faults.remove(0)
        try:
            await shop.send(b"%d" % number)
            acknowledged.append(b"%d" % number)
        except (BrokerAnswer, NetworkError, ClientError):
            pass
        await shop.world.run_for(ms=chance.randrange(2_000))
    await shop.faults.remove(0)
    await shop.world.until(lambda: set(acknowledged) <= set(shop.bodies), 300_000, "all that was acknowledged is heard")
    await shop.world.until(shop.is_committed, 120_000, "all is committed")


def any_rule(chance: Random) -> dict[str, Any]:
    """Return something that goes wrong sometimes. Nothing is corrupt: a changed body is delivered as it is."""
    what: dict[str, Any] = chance.choice(
        [{"delay": "300ms", "jitter": "300ms"}, {"drop": "request"}, {"drop": "answer"}, {"close": "request"},
         {"close": "answer"}, {"duplicate": True}, {"bandwidth": 2_000}, {"answer": "SYSTEM_ERROR"},
         {"drop": "server"}, {"skew": "-1h"}]
    )  # fmt: skip
    code = chance.choice([None, "SEND_MESSAGE", "PULL_MESSAGE", "HEART_BEAT", "UPDATE_CONSUMER_OFFSET"])
    if what == {"drop": "server"}:
        code = chance.choice([None, "NOTIFY_CONSUMER_IDS_CHANGED"])
    return {**what, "code": code, "probability": chance.choice([0.1, 0.5, 1]), "times": chance.choice([1, 3, 20])}


@pytest.mark.parametrize("codec", [NATIVE, JSON, ROCKETMQ])
async def test_plain_sends_of_one_read_meet_rules_one_by_one(shop: FaultyShop, codec: int) -> None:
    """Without rules the compiled twin takes such a run at once, past all handlers."""
    pool = shop.producer.client.pool
    await shop.add(code="SEND_MESSAGE", drop="request", probability=0.5, seed=1)
    connection = await pool.connection(BROKER)
    connection.codec = codec_for(codec)
    properties = "UNIQ_KEY\x017F0000010539736EDB5F1234ABCD0007\x02WAIT\x01true\x02"
    request = SendMessageV2("program", TOPIC, "TBW102", 4, 0, 0, 1, 0, properties, body=b"x")
    answers = [connection.ask(request, 1_000) for _ in range(200)]
    await shop.world.run_for(ms=2_000)
    lost = sum(answer.exception() is not None for answer in answers)
    assert [lost] == await shop.hits()
    assert shop.stored() == 1 + 200 - lost


async def test_clear_waits_once_for_a_server_that_does_not_respond(world: SimulatedWorld) -> None:
    shop = await FaultyShop(world, ClientSettings()).open(brokers=2)
    await shop.add(code="SEND_MESSAGE", answer="SYSTEM_BUSY")
    await shop.add(code="SEND_MESSAGE", delay="1ms", stays=True)
    world.set_link("desk", "broker-b", LinkQuality(delay_ms=60_000))
    with shop.takes(ms=3_000):
        assert await ClusterFaults(shop.pool, NAMESRV).clear() == 1
    assert [view.number for view in await shop.faults.views()] == [2]
    await shop.close()
