"""A broker's settings, and message time, as any RocketMQ admin client reads and changes them: requests 25 and 26."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.protocol.java_properties import read_properties
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.config import BrokerConfigAnswer, GetBrokerConfig, UpdateBrokerConfig
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, FLAG_SUSPEND, PullMessage
from staticfire.protocol.requests.routes import GetRoute, RouteAnswer
from staticfire.protocol.requests.send import SendMessageV2
from staticfire.simulation.world import SimulatedWorld
from tests.nameserver.asking import Asking
from tests.scenarios.broker_stand import BrokerStand
from tests.scenarios.stand import NAMESERVER, BareConsumer, Stand

HOUR_MS = 3_600_000
INVALID, NOT_AT_REST, CLOCK_BUSY = 29, 9001, 9002


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[Stand]:
    stand = await Stand(world).start()
    yield stand
    await stand.close()


async def update(stand: Stand, text: str) -> Any:
    return await stand.ask(stand.brokers["broker-a"], UpdateBrokerConfig(body=text.encode()), HOUR_MS)


async def config(stand: Stand) -> dict[str, str]:
    answer = await stand.ask(stand.brokers["broker-a"], GetBrokerConfig())
    return read_properties(answer.body.decode())


async def version(stand: Stand) -> dict[str, int]:
    answer = await stand.ask(stand.brokers["broker-a"], GetBrokerConfig())
    assert isinstance(answer, BrokerConfigAnswer)
    moved: dict[str, int] = json.loads(answer.version or "")
    return moved


async def perm(stand: Stand, topic: str) -> int:
    answer = await stand.ask(NAMESERVER, GetRoute(topic))
    assert isinstance(answer, RouteAnswer)
    assert answer.body is not None
    return int(answer.body.queue_datas[0].perm)


async def send_code(stand: Stand, topic: str) -> int:
    request = SendMessageV2("program", topic, "TBW102", 4, 0, 0, 0, 0, "", body=b"x")
    return int((await stand.ask(stand.brokers["broker-a"], request)).code)


# -- settings ----------------------------------------------------------------------------------------------------------


async def test_settings_are_read_under_rocketmqs_names_as_a_java_client_does(
    world: SimulatedWorld, stand: Stand
) -> None:
    header, body = await Asking(world.machine("mqadmin", "10.0.0.8"), 0, stand.brokers["broker-a"]).raw(26)
    assert header["code"] == 0
    assert json.loads(header["extFields"]["version"]) == {"counter": 0, "stateVersion": 0, "timestamp": 0}
    properties = read_properties(body.decode())
    assert properties["brokerName"] == "broker-a"
    assert properties["brokerPermission"] == "6"
    assert properties["autoCreateTopicEnable"] == "true"
    assert properties["staticfireClock"].startswith("real 20")


async def test_topics_are_created_by_sends_or_not(stand: Stand) -> None:
    assert (await update(stand, "autoCreateTopicEnable=false")).code == 0
    assert await send_code(stand, "unheard-of") == 17
    assert (await update(stand, "autoCreateTopicEnable=true")).code == 0
    assert await send_code(stand, "unheard-of") == 0
    assert (await config(stand))["autoCreateTopicEnable"] == "true"


@pytest.mark.parametrize("stand_settings", [{"auto_create_topic_enable": False}])
async def test_a_broker_that_began_without_auto_creation_learns_it(
    world: SimulatedWorld, stand_settings: dict[str, Any]
) -> None:
    stand = await Stand(world, **stand_settings).start()
    assert await send_code(stand, "unheard-of") == 17
    await update(stand, "autoCreateTopicEnable=true")
    assert await send_code(stand, "unheard-of") == 0
    assert await perm(stand, "TBW102") == 7
    await stand.close()


async def test_a_changed_permission_is_in_the_routes_when_it_is_answered(stand: Stand) -> None:
    await stand.create_topic("orders")
    assert await perm(stand, "orders") == 6
    await update(stand, "brokerPermission=4")
    assert await perm(stand, "orders") == 4
    await update(stand, "brokerPermission=6")
    assert await perm(stand, "orders") == 6


async def test_a_change_during_a_registration_is_registered_too(world: SimulatedWorld, stand: Stand) -> None:
    await stand.create_topic("orders")
    for wait_us in range(0, 1_000, 50):
        first = world.loop.create_task(update(stand, "brokerPermission=4"))
        await world.run_for(ms=wait_us / 1_000)
        await update(stand, "brokerPermission=6")
        await first
        assert await perm(stand, "orders") == 6


async def test_a_change_is_answered_while_the_nameserver_is_away(world: SimulatedWorld, stand: Stand) -> None:
    await stand.create_topic("orders")
    world.kill("nameserver")
    assert (await update(stand, "brokerPermission=4")).code == 0
    await stand.start_nameserver()
    await world.run_for(seconds=3)
    assert await perm(stand, "orders") == 4


async def test_an_unreadable_broker_answers_no_pulls(stand: Stand) -> None:
    await stand.create_topic("orders")
    pull = PullMessage("billing", "orders", 0, 0, 32, FLAG_SUBSCRIPTION, 0, 0, "*")
    await update(stand, "brokerPermission=2")
    assert (await stand.ask(stand.brokers["broker-a"], pull)).code == 16
    await update(stand, "brokerPermission=6")
    assert (await stand.ask(stand.brokers["broker-a"], pull)).code == 19


async def test_without_long_polling_a_pull_is_held_for_a_moment(world: SimulatedWorld, stand: Stand) -> None:
    await stand.create_topic("orders")
    await update(stand, "longPollingEnable=false\nshortPollingTimeMills=700")
    pull = PullMessage("billing", "orders", 0, 0, 32, FLAG_SUBSCRIPTION | FLAG_SUSPEND, 0, 15_000, "*")
    began_ns = world.loop.uptime_ns
    assert (await stand.ask(stand.brokers["broker-a"], pull, 20_000)).code == 19
    assert 700 <= (world.loop.uptime_ns - began_ns) / 1e6 < 1_000


async def test_groups_are_created_by_pulls_or_not(stand: Stand) -> None:
    await stand.create_topic("orders")
    await update(stand, "autoCreateSubscriptionGroup=false")
    pull = PullMessage("newcomers", "orders", 0, 0, 32, FLAG_SUBSCRIPTION, 0, 0, "*")
    assert (await stand.ask(stand.brokers["broker-a"], pull)).code == 26


async def test_each_update_moves_the_version(stand: Stand) -> None:
    assert (await version(stand))["counter"] == 0
    await update(stand, "dlqPerm=2")
    await update(stand, "dlqPerm=6\nholdMsMax=1000")
    assert (await version(stand))["counter"] == 2
    assert (await version(stand))["timestamp"] > 0
    await update(stand, "")
    assert (await version(stand))["counter"] == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("noSuchThing=1", "noSuchThing=1: there is no such setting"),
        ("haListenPort=1", "haListenPort=1: this setting of RocketMQ has no effect here"),
        ("brokerPermission=all", "brokerPermission=all: it must be a whole number from 0 to 7"),
        ("brokerName=broker-z", "brokerName=broker-z: it is read only at the start, and is broker-a"),
        ("event=1\nself=2", "event=1: there is no such setting; self=2: there is no such setting"),
        ("dlqPerm=" + "9" * 5_000, f"dlqPerm={'9' * 100}...: it must be a whole number from 0 to 7"),
        ("fileReservedTime=-1", "fileReservedTime=-1: it must be a whole number from 0 to 1000000"),
        ("cleanResourceInterval=-5", "cleanResourceInterval=-5: it must be a whole number from 1 to 2147483647"),
        ("traceOn=maybe", "traceOn=maybe: it must be true or false"),
        ("regionId=a\\u0001b", "regionId=a?b: it must be text of 0 to 255 characters without control ones"),
    ],
)
async def test_what_cannot_count_is_refused_with_all_that_came_along(stand: Stand, text: str, words: str) -> None:
    before = await config(stand)
    answer = await update(stand, f"shortPollingTimeMills=1071\n{text}\nstaticfireClock=freeze")
    assert (answer.code, answer.remark) == (INVALID, f"nothing was changed; {words}")
    after = await config(stand)
    assert after["staticfireClock"].startswith("real")
    assert {**after, "staticfireClock": ""} == {**before, "staticfireClock": ""}


@pytest.mark.parametrize("text", ["", "brokerName=broker-a"])
async def test_what_changes_nothing_is_fine(stand: Stand, text: str) -> None:
    answer = await update(stand, text)
    assert (answer.code, answer.remark) == (0, None)


async def test_all_settings_can_be_sent_as_they_were_read(stand: Stand) -> None:
    """So tools do that read them, let somebody change one, and send all of them."""
    settings = await config(stand)
    del settings["staticfireClock"]
    text = "".join(f"{key}={value}\n" for key, value in settings.items())
    assert (await update(stand, text)).code == 0
    assert (await config(stand)) == {**settings, "staticfireClock": (await config(stand))["staticfireClock"]}


async def test_however_many_names_are_unknown_an_answer_is_short_and_soon(stand: Stand) -> None:
    names = "".join(f"setting{number}=1\n" for number in range(14_000))
    answer = await update(stand, names)
    assert answer.code == INVALID
    assert answer.remark.endswith("; and 13990 more")
    assert len(answer.remark) < 1_000


@pytest.mark.parametrize("key", ["brokerConfigPath", "rocketmqHome", "configBlackList"])
async def test_a_black_listed_name_refuses_all_that_came_along(stand: Stand, key: str) -> None:
    answer = await update(stand, f"{key}=x\ndlqPerm=2\nstaticfireClock=freeze")
    assert (answer.code, answer.remark) == (16, "Can not update config in black list.")
    after = await config(stand)
    assert after["dlqPerm"] == "6"
    assert after["staticfireClock"].startswith("real")


# -- message time ------------------------------------------------------------------------------------------------------


@pytest.mark.row("S1")
async def test_message_time_jumps_by_a_java_admins_update(world: SimulatedWorld, stand: Stand) -> None:
    await stand.create_topic("orders")
    seen: list[bytes] = []

    def listener(record: StoredRecord) -> bool:
        seen.append(record.body)
        return True

    consumer = await BareConsumer(stand, "billing", {"orders": 1}, listener).start()
    await stand.send("orders", b"later", properties="DELAY\x0118\x02")
    before = (await stand.clock("now")).message_ms
    admin = Asking(world.machine("mqadmin", "10.0.0.8"), 0, stand.brokers["broker-a"])
    header, _ = await admin.raw(25, b"staticfireClock=+3h\n")
    assert header["code"] == 0
    assert seen == [b"later"]
    assert 0 <= (await stand.clock("now")).message_ms - before - 3 * HOUR_MS < 1_000
    await consumer.stop()


@pytest.mark.row("S1")
@pytest.mark.parametrize(
    ("words", "mode"),
    [("freeze", "frozen "), ("skip", "skipping "), ("60x", "60x "), ("run", "real "), ("now", "real")],
)
async def test_message_time_continues_as_the_property_says(stand: Stand, words: str, mode: str) -> None:
    assert (await update(stand, f"staticfireClock={words}")).code == 0
    assert (await config(stand))["staticfireClock"].startswith(mode)


@pytest.mark.row("S1")
@pytest.mark.parametrize("words", ["soon", "-2h", "+2 fortnights", ""])
async def test_words_that_are_none_change_nothing(stand: Stand, words: str) -> None:
    answer = await update(stand, f"dlqPerm=2\nstaticfireClock={words}")
    assert answer.code == INVALID
    assert "write +2h, freeze, run, skip, 60x" in str(answer.remark)
    assert (await config(stand))["dlqPerm"] == "6"


@pytest.mark.row("S1")
async def test_refusals_of_the_nameserver_are_passed_on(world: SimulatedWorld, stand: Stand) -> None:
    answer = await update(stand, "staticfireClock=2020-01-01T00:00:00Z")
    assert answer.code == INVALID
    assert "can't go back" in str(answer.remark)
    await stand.create_topic("orders", queues=2)
    consumer = await BareConsumer(stand, "billing", {"orders": 1}, lambda _: True).start()
    await stand.send("orders", queue_id=1)
    first = world.loop.create_task(update(stand, "staticfireClock=+1h"))
    await world.run_for(ms=100)
    assert (await update(stand, "staticfireClock=freeze")).code == CLOCK_BUSY
    assert (await first).code == NOT_AT_REST
    await consumer.stop()


@pytest.mark.row("S1")
async def test_a_nameserver_that_is_away_is_named(world: SimulatedWorld, stand: Stand) -> None:
    world.kill("nameserver")
    answer = await update(stand, "staticfireClock=+1h")
    assert answer.code == 1
    assert NAMESERVER in str(answer.remark)


@pytest.mark.row("S1")
async def test_a_broker_without_nameservers_says_that_one_is_needed(world: SimulatedWorld) -> None:
    stand = BrokerStand(world)
    await stand.start()
    answer = await stand.ask(UpdateBrokerConfig(body=b"staticfireClock=+1h"))
    assert answer.code == 1
    assert "message time is controlled by a nameserver" in answer.remark
    await stand.close()
