"""A topic is there again after a kill, however early: what was acknowledged can be consumed."""

import pytest

from staticfire.protocol.requests.send import ManyMessage, SendMany
from staticfire.protocol.requests.topics import DeleteTopic, GetTopicConfig
from staticfire.simulation.world import ProcessKilled, SimulatedWorld
from tests.scenarios.broker_stand import NAME, BrokerStand

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
