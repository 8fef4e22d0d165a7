"""A program's own strategy that returns something else than a list of queues."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from staticfire.client import ConsumeFromWhere, MessageQueue, PushConsumer
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import TOPIC, Shop
from tests.scenarios.logged import LogLine

pytestmark = [pytest.mark.row("R1"), pytest.mark.row("R3")]


def failing(queues: list[MessageQueue]) -> Iterator[MessageQueue]:
    yield queues[0]
    raise ZeroDivisionError("out of luck")


WRONG: dict[str, Callable[[list[MessageQueue]], object]] = {
    "nothing": lambda queues: None,
    "a generator that fails": failing,
    "names": lambda queues: [str(queue) for queue in queues],
}


class Moody:
    """Returns all queues, or for one topic something that is no list of queues."""

    name = "MOODY"

    def __init__(self, answer: str) -> None:
        self.is_wrong = False
        self._answer = WRONG[answer]

    def allocate(self, group: str, client_id: str, queues: list[MessageQueue], client_ids: list[str]) -> Any:
        return self._answer(queues) if self.is_wrong and queues[0].topic == TOPIC else queues


def owned(consumer: PushConsumer, topic: str) -> int:
    return len([queue for queue in consumer.assignment if queue.topic == topic])


@pytest.mark.parametrize("answer", WRONG)
async def test_its_topic_stays_as_it_is_and_other_topics_are_shared(
    world: SimulatedWorld, shop: Shop, answer: str
) -> None:
    await shop.admin.create_topic("refunds", queues=1)
    consumer = await shop.start(
        "one", consume_from_where=ConsumeFromWhere.FIRST_OFFSET, allocate_strategy=(moody := Moody(answer))
    )
    assert owned(consumer, TOPIC) == 8
    moody.is_wrong = True
    consumer.subscribe("refunds")
    await world.run_for(seconds=3)
    assert (owned(consumer, TOPIC), owned(consumer, "refunds")) == (8, 2)
    await shop.send(b"0", queue=0)
    await shop.until_heard(1, within_ms=1_000)


@pytest.mark.parametrize("answer", WRONG)
async def test_a_consumer_starts_and_gets_its_queues_when_the_strategy_is_right(
    world: SimulatedWorld, shop: Shop, logged: list[LogLine], answer: str
) -> None:
    moody = Moody(answer)
    moody.is_wrong = True
    consumer = await shop.start("one", allocate_strategy=moody)
    assert owned(consumer, TOPIC) == 0
    assert {line.fields["topic"] for line in logged if line.event == "strategy_failed"} == {TOPIC}
    moody.is_wrong = False
    await world.run_for(seconds=3)
    assert owned(consumer, TOPIC) == 8
