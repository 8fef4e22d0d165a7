"""Topics: 17, 215, 351."""

from collections.abc import Iterator
from dataclasses import replace

from tests.oracle.cases.common import send, topic
from tests.oracle.step import Ask, Step, with_each, without_each

ATTRIBUTES = (
    "+message.type=FIFO",
    "+message.type=FIFO,+queue.type=SimpleCQ",
    "+message.type=NOPE",
    "+nope=1",
    "message.type=FIFO",
    "+message.type",
    "-message.type",
    "+message.type=MIXED",
    "+queue.type=BatchCQ",
    "+cleanup.policy=COMPACTION",
    "+reserve.time=5",
    "+reserve.time=x",
    "",
)


def steps() -> Iterator[Step]:
    """The steps of this family."""
    base = topic("{run}made", 3)
    yield base
    yield Ask("config of a topic", 351, {"topic": "{run}made"})
    yield replace(base, name="create it again")
    yield replace(topic("{run}made", 2, 4, order="true"), name="change it")
    yield Ask("config of a changed topic", 351, {"topic": "{run}made"})
    yield from without_each(base)
    yield from with_each(base, ["x", "-1", "0", "99", ""], ["readQueueNums", "perm", "topicSysFlag"])
    yield from with_each(base, ["x", "", "MULTI_TAG"], ["topicFilterType"])
    yield from with_each(
        base, ["", " ", "a b", "t" * 128, "TBW102", "SELF_TEST_TOPIC", "rmq_sys_x", "DefaultCluster"], ["topic"]
    )
    yield from with_each(base, ["RMQ_SYS_TRACE_TOPIC", "broker-a", "%RETRY%{run}x", "OFFSET_MOVED_EVENT"], ["topic"])
    for index, attributes in enumerate(ATTRIBUTES):
        yield replace(topic(f"{{run}}attributed-{index}", attributes=attributes), name=f"create with {attributes}")
        yield Ask(f"config after {attributes}", 351, {"topic": f"{{run}}attributed-{index}"})
    yield replace(topic("{run}attributed-0", attributes="+queue.type=BatchCQ"), name="change an unchangeable attribute")
    yield replace(topic("{run}attributed-0", attributes="-message.type"), name="remove an attribute")
    yield Ask("config after removal", 351, {"topic": "{run}attributed-0"})
    yield Ask("config of an unknown topic", 351, {"topic": "{run}unknown"})
    yield Ask("config of no topic", 351, {})
    yield Ask("config with mapping", 351, {"topic": "{run}made", "lo": "true"})
    yield Ask("config of TBW102", 351, {"topic": "TBW102"})
    yield from _deletions()


def _deletions() -> Iterator[Step]:
    yield send("send to what will be deleted", topic="{run}deleted")
    yield Ask("delete a topic", 215, {"topic": "{run}deleted"})
    yield Ask("config of a deleted topic", 351, {"topic": "{run}deleted"})
    yield Ask("delete it again", 215, {"topic": "{run}deleted"})
    yield replace(topic("{run}deleted", 4), name="create it anew")
    yield Ask("its end", 30, {"topic": "{run}deleted", "queueId": "0"})
    yield Ask("delete nothing", 215, {})
    yield Ask("delete a blank", 215, {"topic": " "})
    yield Ask("delete a system topic", 215, {"topic": "TBW102"})
    yield Ask("delete another system topic", 215, {"topic": "SCHEDULE_TOPIC_XXXX"})
    yield Ask(
        "create topics from a list",
        18,
        {},
        {"topicConfigList": [{"topicName": "{run}listed-1"}, {"topicName": "{run}listed-2", "perm": 4}]},
    )
    yield Ask("config of a listed topic", 351, {"topic": "{run}listed-2"})
    yield Ask(
        "create topics from a list with a bad one",
        18,
        {},
        {"topicConfigList": [{"topicName": "{run}listed-3"}, {"topicName": "a b"}]},
    )
    yield Ask("config of one listed beside a bad one", 351, {"topic": "{run}listed-3"})
    yield Ask("create topics from nothing", 18, {})
