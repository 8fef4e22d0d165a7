"""Topics that tools make, one or many at a time."""

from collections.abc import AsyncIterator

import pytest

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.requests.topics import GetTopicConfig, TopicConfig, TopicConfigList, UpdateTopic, UpdateTopics
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import BrokerStand


@pytest.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    stand = BrokerStand(world)
    await stand.start()
    yield stand
    await stand.close()


async def config_of(stand: BrokerStand, topic: str) -> TopicConfig | None:
    answer = await stand.ask(GetTopicConfig(topic))
    config: TopicConfig | None = answer.body
    return config


async def test_all_topics_of_a_list_are_made_and_survive_a_kill(stand: BrokerStand) -> None:
    wanted = [TopicConfig("a", 2, 2), TopicConfig("b", 3, 3, 4, attributes={"+message.type": "FIFO"})]
    assert (await stand.ask(UpdateTopics(body=TopicConfigList(wanted)))).code == 0
    await stand.kill_and_start()
    assert await config_of(stand, "a") == TopicConfig("a", 2, 2)
    assert await config_of(stand, "b") == TopicConfig("b", 3, 3, 4, attributes={"message.type": "FIFO"})


@pytest.mark.parametrize("bad", [TopicConfig("b c"), TopicConfig("b", 10**6)], ids=["name", "queues"])
async def test_no_topic_of_a_list_is_made_when_one_of_them_cannot_be(stand: BrokerStand, bad: TopicConfig) -> None:
    answer = await stand.ask(UpdateTopics(body=TopicConfigList([TopicConfig("a"), bad])))
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert await config_of(stand, "a") is None


async def test_mixed_message_types_are_refused(stand: BrokerStand) -> None:
    answer = await stand.ask(UpdateTopic("a", 1, 1, 6, attributes="+message.type=MIXED"))
    assert (answer.code, answer.remark) == (ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")
    assert await config_of(stand, "a") is None


@pytest.mark.parametrize(
    ("attributes", "remark"),
    [
        ("message.type=FIFO", "add/alter attribute format is wrong: message.type"),
        ("+message.type", "delete attribute format is wrong: +message.type"),
        ("+nope=1", "unsupported key: nope"),
    ],
)
async def test_attributes_that_cannot_be_read_are_refused(stand: BrokerStand, attributes: str, remark: str) -> None:
    answer = await stand.ask(UpdateTopic("a", 1, 1, 6, attributes=attributes))
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)


@pytest.mark.parametrize(
    ("queues", "perm", "code", "words"),
    [
        (2**31 - 1, 6, ResponseCode.INVALID_PARAMETER, "a can't"),
        (65_537, 6, ResponseCode.INVALID_PARAMETER, "a can't"),
        (4, 2**40, ResponseCode.SYSTEM_ERROR, "Expected `int` <= 2147483647 - at `perm`"),
        (-(2**40), 6, ResponseCode.SYSTEM_ERROR, "Expected `int` >= -2147483648 - at `readQueueNums`"),
    ],
)
async def test_numbers_that_no_topic_can_have_are_refused(
    stand: BrokerStand, queues: int, perm: int, code: ResponseCode, words: str
) -> None:
    answer = await stand.ask(UpdateTopic("a", queues, 4, perm))
    assert answer.code == code
    assert words in (answer.remark or "")
    assert await config_of(stand, "a") is None
