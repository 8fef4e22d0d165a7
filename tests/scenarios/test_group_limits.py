"""What a consumer group can't be: refused when it is made, not when its first member comes."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.protocol.requests.groups import (
    GetGroupConfig,
    GroupConfigList,
    SubscriptionGroupConfig,
    UpdateGroup,
    UpdateGroups,
)
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.broker_stand import BrokerStand

INVALID = 29
TOO_MANY = SubscriptionGroupConfig("billing", retry_queue_nums=65_537)


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    stand = BrokerStand(world, auto_create_subscription_group=False)
    await stand.start()
    yield stand
    await stand.close()


@pytest.mark.parametrize(
    "request_",
    [
        UpdateGroup(body=TOO_MANY),
        UpdateGroups(body=GroupConfigList([SubscriptionGroupConfig("ledger"), TOO_MANY])),
    ],
    ids=["one", "in a list"],
)
async def test_more_retry_queues_than_a_topic_may_have(
    stand: BrokerStand, request_: UpdateGroup | UpdateGroups
) -> None:
    answer = await stand.ask(request_)
    words = "group billing can't have retryQueueNums=65537: a topic can have at most 65536 queues"
    assert (answer.code, answer.remark) == (INVALID, words)
    for group in ("billing", "ledger"):
        assert (await stand.ask(GetGroupConfig(group))).code == 26
