"""A server that is busy for a moment is queried again while a query is planned. No Spark."""

import pytest

from staticfire.client import Message, MessageQueue
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.pipeline.batch_plan import plan_batch
from staticfire.pipeline.errors import SourceUnreachable
from staticfire.pipeline.options import SourceOptions
from staticfire.pipeline.planning import QueueRange
from staticfire.pipeline.survey import find_ends, find_queues, patiently
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer, broker_answer
from tests.scenarios.consuming import NAMESRV, TOPIC
from tests.scenarios.faulty_shop import FaultyShop

OPTIONS = SourceOptions(NAMESRV, (TOPIC,), starting_ms=0, reconnect_timeout_ms=1_000)
QUEUE = MessageQueue(TOPIC, "broker-a", 0)


@pytest.mark.parametrize("answer", ["SYSTEM_BUSY", "SERVICE_NOT_AVAILABLE", "SYSTEM_ERROR"])
@pytest.mark.parametrize("code", ["GET_TOPIC_STATS_INFO", "SEARCH_OFFSET_BY_TIMESTAMP", "GET_ROUTEINFO_BY_TOPIC"])
async def test_a_busy_server_is_queried_again(shop: FaultyShop, client: ClusterClient, code: str, answer: str) -> None:
    await shop.producer.send(Message(TOPIC, b"1"), queue=QUEUE)
    await shop.add(code=code, answer=answer, times=2)
    assert await plan_batch(client, OPTIONS) == [QueueRange(QUEUE, 0, 1)]
    assert await shop.hits() == [2]


async def test_one_that_stays_busy_is_reported_after_a_while(shop: FaultyShop, client: ClusterClient) -> None:
    await shop.add(code="GET_TOPIC_STATS_INFO", answer="SYSTEM_BUSY")
    with shop.takes(1_000, within_ms=150), pytest.raises(SourceUnreachable, match=r"SYSTEM_BUSY .* tried for 1000 ms"):
        await plan_batch(client, OPTIONS)


async def test_what_no_later_request_would_get_is_reported_at_once(shop: FaultyShop, client: ClusterClient) -> None:
    await shop.add(code="GET_TOPIC_STATS_INFO", answer="NO_PERMISSION")
    queues = await find_queues(client, [TOPIC])
    with shop.takes(0), pytest.raises(BrokerAnswer, match="NO_PERMISSION"):
        await patiently(client, OPTIONS, lambda: find_ends(client, queues))


async def test_a_refusal_of_acl_1_is_reported_at_once(shop: FaultyShop, client: ClusterClient) -> None:
    """It has the code of a busy server."""

    async def refused() -> None:
        raise broker_answer(ResponseCode.SYSTEM_ERROR, "org.apache.rocketmq.acl.common.AclException: no such key")

    with shop.takes(0), pytest.raises(BrokerAnswer, match="no such key"):
        await patiently(client, OPTIONS, refused)
