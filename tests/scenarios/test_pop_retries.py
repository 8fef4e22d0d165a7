"""What popped messages come back to: their retry topics, under which names, when they are looked at."""

import pytest

from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.journal import GetJournal
from staticfire.protocol.requests.queries import ViewMessage
from staticfire.protocol.requests.topics import DeleteTopic, GetTopicConfig
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import BrokerStand, text
from tests.scenarios.popping import INVISIBLE_MS, Popper, handles

pytestmark = pytest.mark.row("G1")


async def send(stand: BrokerStand, count: int) -> None:
    for index in range(count):
        await stand.send("orders", b"%d" % index)


async def test_the_retry_topic_goes_with_its_topic(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    await send(stand, 3)
    answer = await popper.pop(invisible_ms=1_000, count=1)
    await world.run_for(1_100)
    await popper.pop(count=1)
    assert (await stand.ask(GetTopicConfig("%RETRY%billing_orders"))).body.read_queue_nums == 1
    await stand.ask(DeleteTopic("orders"))
    assert (await stand.ask(GetTopicConfig("%RETRY%billing_orders"))).code == 17
    await stand.put_topic("orders")
    await stand.send("orders", b"new")
    await popper.ack(0, handles(answer)[0])
    await stand.kill_and_start()
    await world.run_for(2 * INVISIBLE_MS)
    assert await popper.bodies() == [b"new"]


@pytest.mark.parametrize("version", [1, 2])
async def test_the_name_of_the_retry_topic(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, version: int
) -> None:
    await stand.restart(enable_retry_topic_v2=version == 2, retrieve_message_from_pop_retry_topic_v1=False)
    await send(stand, 1)
    await popper.pop(invisible_ms=1_000)
    await world.run_for(1_100)
    answer = await popper.pop()
    (record,) = answer.body.records
    assert (record.topic, (text(record, "POP_CK") or "").split()[4]) == ("orders", str(version))
    assert answer.msg_offset_info == f"{version} 0 0"
    name = f"%RETRY%billing{'_+'[version - 1]}orders"
    direct = await Popper(stand, topic=name).pop()
    assert direct.code == 210


async def test_returned_messages_under_their_own_topics_name(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper
) -> None:
    await stand.restart(pop_response_return_actual_retry_topic=True)
    await send(stand, 1)
    await popper.pop(invisible_ms=1_000)
    await world.run_for(1_100)
    (record,) = (await popper.pop()).body.records
    assert (record.topic, text(record, "POP_CK")) == ("%RETRY%billing_orders", None)


@pytest.mark.parametrize(("percent", "first"), [(100, b"0"), (0, b"1")])
async def test_how_often_what_came_back_is_looked_at_first(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, percent: int, first: bytes
) -> None:
    await send(stand, 2)
    await popper.pop(count=1, invisible_ms=1_000)
    await world.run_for(1_100)
    assert (await stand.ask(UpdateBrokerConfig(body=b"popFromRetryProbability=%d\n" % percent))).code == 0
    assert (await popper.bodies(count=1)) == [first]


async def test_the_journal_knows_who_got_what(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    await stand.restart(journal_enable=True)
    await send(stand, 3)
    await popper.pop(count=2, invisible_ms=1_000)
    await world.run_for(1_100)
    await popper.pop()
    page = (await stand.ask(GetJournal(kinds="delivered", group="billing"))).body
    got = [(one.topic, one.queue_offset) for one in page.records]
    assert got[0] == ("orders", 0)
    assert set(got[1:]) == {("orders", 2), ("%RETRY%billing_orders", 0)}


@pytest.mark.row("G5")
@pytest.mark.parametrize("redelivered", [0, 2])
async def test_a_dead_letter_leads_to_the_message_that_was_given_up(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, redelivered: int
) -> None:
    await stand.restart(pop_dead_letters=True)
    await stand.put_group("billing", retry_max_times=redelivered)
    await stand.send("orders", b"a", UNIQ_KEY="U1")
    for _ in range(redelivered + 1):
        assert await popper.bodies(invisible_ms=1_000) == [b"a"]
        await world.run_for(1_100)
    (letter,) = await stand.stored("%DLQ%billing")
    _, position = parse_offset_id(text(letter, "ORIGIN_MESSAGE_ID") or "")
    (found,) = (await stand.ask(ViewMessage(position))).body.records
    assert (found.body, text(found, "UNIQ_KEY"), found.reconsume_times) == (b"a", "U1", redelivered)


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("body_bytes", [10, 9_000])
async def test_copies_keep_all_that_messages_have_wherever_the_log_has_room(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, filtered: bool, body_bytes: int
) -> None:
    """Copies go from segment to segment; those that a filter has let through don't lie side by side."""
    await stand.restart(mapped_file_size_commit_log=64 * 1024)
    bodies = [b"%03d" % number + bytes(body_bytes) for number in range(24)]
    for number, body in enumerate(bodies):
        await stand.send("orders", body, TAGS="AB"[number % 2], KEYS=f"k{number}")
    wanted = bodies[::2] if filtered else bodies
    exp = "A" if filtered else None
    first = None
    for round_number in range(3):
        answer = await popper.pop(invisible_ms=1_000, exp=exp)
        first = first or answer.pop_time
        records = answer.body.records
        assert [record.body for record in records] == wanted
        assert {(record.reconsume_times, record.topic, record.flag) for record in records} == {
            (round_number, "orders", 7)
        }
        if round_number:
            assert {text(record, "1ST_POP_TIME") for record in records} == {str(first)}
            assert [text(record, "KEYS") for record in records] == [f"k{int(record.body[:3])}" for record in records]
        await world.run_for(1_100)
    await stand.kill_and_start()
    assert await popper.bodies(exp=exp) == wanted
