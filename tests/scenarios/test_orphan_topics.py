"""A topic is there again after a kill, however early: what was acknowledged can be consumed."""

from typing import Any

import pytest

from staticfire.protocol.names import HALF_TOPIC
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.send import ManyMessage, SendMany
from staticfire.protocol.requests.topics import DeleteTopic, GetTopicConfig
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.protocol.sys_flag import TransactionKind
from staticfire.simulation.world import ProcessKilled, SimulatedWorld
from tests.scenarios.broker_stand import NAME, BrokerStand
from tests.scenarios.logged import LogLine

TOPIC_NOT_EXIST = 17


async def send_and_kill(world: SimulatedWorld, stand: BrokerStand, *queue_ids: int, queues: int = 4) -> None:
    """Send the first messages of a topic; the broker is killed when it is about to write topics.json."""

    def on_write(path: str, *_: object) -> None:
        if path.endswith("/topics.json"):
            world.disk(NAME).on_write = None
            world.kill(NAME)
            raise ProcessKilled

    world.disk(NAME).on_write = on_write
    messages = [ManyMessage("orders", queue_id, b"", b"acknowledged") for queue_id in queue_ids]
    answer = await stand.ask(SendMany("producers", "TBW102", queues, body=messages))
    assert [result.code for result in answer.body] == [0] * len(queue_ids)
    await world.run_for(10)
    assert world.disk(NAME).on_write is None


async def queues_of(stand: BrokerStand, topic: str = "orders") -> tuple[int, int, int]:
    config = (await stand.ask(GetTopicConfig(topic))).body
    return config.read_queue_nums, config.write_queue_nums, config.perm


@pytest.mark.row("F4")
@pytest.mark.parametrize(("queue_ids", "queues"), [((0,), 4), ((3, 1), 4), ((6,), 7)])
async def test_a_topic_whose_configuration_was_not_written_is_put_back(
    world: SimulatedWorld, stand: BrokerStand, queue_ids: tuple[int, ...], queues: int
) -> None:
    await send_and_kill(world, stand, *queue_ids, queues=8)
    await stand.start()
    assert await queues_of(stand) == (queues, queues, 6)
    for queue_id in queue_ids:
        assert await stand.bodies("orders", queue_id) == [b"acknowledged"]
    assert (await stand.send("orders", b"next", 3)).code == 0
    await world.run_for(10)
    await stand.kill_and_start()
    assert await queues_of(stand) == (queues, queues, 6)


async def test_its_queues_count_when_they_are_in_files_as_well(world: SimulatedWorld, stand: BrokerStand) -> None:
    await send_and_kill(world, stand, 6, queues=8)
    await stand.start()
    await world.run_for(seconds=5)
    await world.stop(NAME)
    world.disk(NAME).remove("/store/config/topics.json")
    await stand.start()
    assert await queues_of(stand) == (7, 7, 6)


async def test_a_topic_that_was_deleted_stays_deleted(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"x")
    await world.run_for(seconds=5)
    assert (await stand.ask(DeleteTopic("orders"))).code == 0
    for _ in range(2):
        await stand.kill_and_start()
        assert (await stand.ask(GetTopicConfig("orders"))).code == TOPIC_NOT_EXIST


async def delete_while_one_waits(world: SimulatedWorld, stand: BrokerStand, **properties: Any) -> None:
    """Delete a topic while a message waits for its time or its commit, and let it wait no longer."""
    await stand.put_topic("orders", 2)
    half = await stand.send("orders", b"later", UNIQ_KEY="U1", **properties)
    assert (await stand.ask(DeleteTopic("orders"))).code == 0
    if "TRAN_MSG" in properties:
        position = int((half.msg_id or "")[-16:], 16)
        end = EndTransaction("shop", half.queue_offset or 0, position, TransactionKind.COMMIT)
        assert (await stand.ask(end)).code == 0
    await world.run_for(seconds=12)
    assert (await stand.ask(GetTopicConfig("orders"))).code == TOPIC_NOT_EXIST


@pytest.mark.parametrize(
    "properties", [{"DELAY": "3"}, {"TIMER_DELAY_SEC": "10"}, {"TRAN_MSG": "true", "PGROUP": "shop"}]
)
async def test_a_topic_stays_deleted_when_messages_that_waited_for_it_are_due(
    world: SimulatedWorld, stand: BrokerStand, properties: dict[str, Any], logged: list[LogLine]
) -> None:
    await delete_while_one_waits(world, stand, **properties)
    for start in (stand.restart, stand.kill_and_start):
        await start()
        assert (await stand.ask(GetTopicConfig("orders"))).code == TOPIC_NOT_EXIST
    lines = [line.fields["topic"] for line in logged if line.event == "topic_stays_deleted"]
    assert lines == ["orders", "orders"]
    await stand.put_topic("orders", 3)
    assert await stand.bodies("orders") == [b"later"]
    await stand.restart()
    assert await queues_of(stand) == (3, 3, 6)


async def test_it_stays_deleted_when_the_log_begins_after_its_deletion(world: SimulatedWorld) -> None:
    stand = BrokerStand(world, mapped_file_size_commit_log=16 * 1024)
    await stand.start()
    await delete_while_one_waits(world, stand, DELAY="3")
    for _ in range(2):
        await stand.send("others", bytes(12_000))
    await world.run_for(seconds=5)
    store = stand.broker.state.store
    assert store.remove_segments_before(store.max_position) > 0
    assert store.min_position > store.deletions["orders"]
    for _ in range(3):
        await stand.restart()
        assert (await stand.ask(GetTopicConfig("orders"))).code == TOPIC_NOT_EXIST
    await stand.close()


async def test_a_topic_that_was_deleted_and_created_again_is_put_back(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await delete_while_one_waits(world, stand, DELAY="3")
    await send_and_kill(world, stand, 1)
    await stand.start()
    assert await queues_of(stand) == (4, 4, 6)
    assert await stand.bodies("orders", 1) == [b"acknowledged"]
    assert await stand.bodies("orders", 0) == [b"later"]


async def test_dead_letters_have_the_permission_that_is_set(world: SimulatedWorld) -> None:
    stand = BrokerStand(world, dlq_perm=2)
    await stand.start()
    await stand.put_group("billing")
    await stand.send("orders", b"x")
    (record,) = await stand.stored("orders")
    await stand.send_back(record, delay_level=-1)
    await world.stop(NAME)
    world.disk(NAME).remove("/store/config/topics.json")
    await stand.start()
    assert await queues_of(stand, "%DLQ%billing") == (1, 1, 2)
    await stand.close()


@pytest.mark.row("S1")
async def test_a_reset_removes_what_a_deleted_topic_got_later(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.put_topic("orders")
    assert (await stand.send("orders", b"delayed", DELAY="2")).code == 0
    assert (await stand.send("orders", b"timed", TIMER_DELAY_SEC="6")).code == 0
    half = await stand.send("orders", b"committed", TRAN_MSG="true", PGROUP="producers", UNIQ_KEY="id")
    assert (await stand.ask(DeleteTopic("orders"))).code == 0
    assert half.code == 0
    (waiting,) = await stand.stored(HALF_TOPIC)
    end = EndTransaction("producers", waiting.queue_offset, waiting.log_position, int(TransactionKind.COMMIT))
    assert (await stand.ask(end)).code == 0
    await world.run_for(seconds=12)
    stand.broker.state.machine.files.make_folder("/store/consumequeue/lost+found")
    assert (await stand.ask(Reset())).code == 0
    for _ in range(2):
        await stand.put_topic("orders")
        assert await stand.bodies("orders") == []
        await stand.restart()
    assert stand.broker.state.machine.files.exists("/store/consumequeue/lost+found")
