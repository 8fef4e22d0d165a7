"""Static topics: 513, and what is said of logical queues. One broker has all stretches: it led, lost and leads them."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.oracle.cases.common import PULL, batch, send, send_v2
from tests.oracle.step import Ask, Step, Value

UPDATE_STATIC_TOPIC, GET_TOPIC_CONFIG, DELETE_TOPIC, GET_ROUTE = 513, 351, 215, 105
MAX_OFFSET, MIN_OFFSET, SEARCH_OFFSET, EARLIEST, QUERY_OFFSET, UPDATE_OFFSET = 30, 31, 29, 32, 14, 15
CONSUME_STATS, TOPIC_STATS = 208, 202
TOPIC = "{run}static"
EPOCH = 1_700_000_000_000
BLOCK = 10_000


def item(gen: int, queue_id: int, logic_offset: int, broker: str = "broker-a") -> dict[str, Any]:
    return {
        "gen": gen, "queueId": queue_id, "bname": broker, "logicOffset": logic_offset, "startOffset": 0,
        "endOffset": -1, "timeOfStart": -1, "timeOfEnd": -1,
    }  # fmt: skip


def mapping(hosted: Mapping[int, list[dict[str, Any]]], epoch: int = EPOCH, total: int = 3) -> dict[str, Any]:
    queues = {str(queue_id): items for queue_id, items in hosted.items()}
    return {
        "topic": TOPIC, "bname": "broker-a", "totalQueues": total, "epoch": epoch, "scope": "__global__",
        "dirty": False, "hostedQueues": queues,
    }  # fmt: skip


def update(name: str, body: object, queues: int = 4, **changes: Value) -> Ask:
    fields: dict[str, Value] = {
        "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues),
        "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "force": "false",
    }  # fmt: skip
    return Ask(name, UPDATE_STATIC_TOPIC, {**fields, **changes}, body)


def pull(name: str, queue_id: int, offset: int) -> Ask:
    fields: dict[str, Value] = {
        "consumerGroup": "{run}clerks", "topic": TOPIC, "queueId": str(queue_id), "queueOffset": str(offset),
        "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*",
        "subVersion": "0", "expressionType": "TAG",
    }  # fmt: skip
    return Ask(name, PULL, fields, reads="records")


def of_queue(name: str, code: int, queue_id: int, **more: Value) -> Ask:
    return Ask(f"{name} of static queue {queue_id}", code, {"topic": TOPIC, "queueId": str(queue_id), **more})


FIRST = {0: [item(0, 0, 0)], 1: [item(0, 1, 0)], 2: [item(0, 0, 0, "broker-z")]}
SECOND = {**FIRST, 0: [item(0, 0, 0), item(1, 2, BLOCK)], 1: [item(0, 1, 0), item(1, 3, -1)]}


def steps() -> Iterator[Step]:
    """The steps of this family."""
    yield update("static topic", mapping(FIRST))
    yield Ask("config of a static topic", GET_TOPIC_CONFIG, {"topic": TOPIC, "lo": "true"})
    yield Ask("config of a static topic without its mapping", GET_TOPIC_CONFIG, {"topic": TOPIC})
    yield update("static topic again", mapping(FIRST))
    yield update("static topic with an older epoch", mapping(FIRST, EPOCH - 1))
    yield update("static topic with another scope", {**mapping(FIRST), "scope": "here"})
    yield update("static topic without a queue, same epoch", mapping({0: FIRST[0]}))
    yield update("static topic named like a system topic", mapping(FIRST), topic="TBW102")
    yield update("static topic with a bad item", mapping({**FIRST, 0: [item(-1, 0, 0)]}))
    yield update("static topic with an undecided past", mapping({**FIRST, 0: [item(0, 0, -1), item(1, 2, 5)]}))
    yield update("static topic that goes back", mapping({**FIRST, 0: [item(0, 0, 5), item(1, 2, 5)]}))
    yield update("static topic with another leader, same epoch", mapping(SECOND))
    yield from _used("one stretch", 0)
    yield send("send to a static queue that another broker leads", topic=TOPIC, queueId="2")
    yield send("send to a static queue that isn't there", topic=TOPIC, queueId="7")
    yield update("static topic mapped anew", mapping(SECOND, EPOCH + 1))
    yield Ask("config of a static topic mapped anew", GET_TOPIC_CONFIG, {"topic": TOPIC, "lo": "true"})
    yield from _used("two stretches", 0)
    yield from _used("undecided", 1)
    yield pull("pull between stretches", 0, 5_000)
    yield pull("pull at the second stretch", 0, BLOCK)
    yield pull("pull beyond the second stretch", 0, BLOCK + 70)
    yield Ask("figures of a static topic", TOPIC_STATS, {"topic": TOPIC})
    yield Ask("figures of a group of a static topic", CONSUME_STATS, {"consumerGroup": "{run}clerks", "topic": TOPIC})
    yield Ask("delete a static topic", DELETE_TOPIC, {"topic": TOPIC})
    yield Ask("config of a deleted static topic", GET_TOPIC_CONFIG, {"topic": TOPIC, "lo": "true"})


def _used(when: str, queue_id: int) -> Iterator[Step]:
    group = "{run}clerks"
    for number in range(2):
        yield send(f"send {number} to static queue {queue_id}, {when}", topic=TOPIC, queueId=str(queue_id))
    yield send_v2(f"send V2 to static queue {queue_id}, {when}", topic=TOPIC, queueId=str(queue_id))
    yield send_v2(
        f"batch to static queue {queue_id}, {when}", batch(2), 320, topic=TOPIC, queueId=str(queue_id), batch="true",
        properties="UNIQ_KEY\x01batch\x02",
    )  # fmt: skip
    yield pull(f"pull static queue {queue_id}, {when}", queue_id, 0)
    yield pull(f"pull the end of static queue {queue_id}, {when}", queue_id, 5)
    for name, code in (("max", MAX_OFFSET), ("min", MIN_OFFSET)):
        yield of_queue(f"{name}, {when},", code, queue_id)
        yield of_queue(f"{name} without mapping, {when},", code, queue_id, lo="false")
    yield of_queue(f"offset at time 0, {when},", SEARCH_OFFSET, queue_id, timestamp="0")
    yield of_queue(f"group offset, {when},", QUERY_OFFSET, queue_id, consumerGroup=group)
    yield of_queue(f"commit, {when},", UPDATE_OFFSET, queue_id, consumerGroup=group, commitOffset="3")
    yield of_queue(f"group offset after a commit, {when},", QUERY_OFFSET, queue_id, consumerGroup=group)
