"""Messages given back: 36, and queue locks: 41, 42."""

from collections.abc import Iterator
from dataclasses import replace

from tests.oracle.cases.common import send
from tests.oracle.cases.pulls import pull
from tests.oracle.step import Ask, Pause, Step, Value, with_each, without_each

GROUP = "{run}failing"
FIELDS: dict[str, Value] = {
    "offset": "{position}",
    "group": GROUP,
    "delayLevel": "0",
    "originMsgId": "x",
    "originTopic": "{run}failed",
    "unitMode": "false",
    "maxReconsumeTimes": "16",
}


def back(name: str, **changes: Value) -> Ask:
    return Ask(name, 36, {**FIELDS, **changes})


def steps() -> Iterator[Step]:
    """The steps of this family."""
    first = send(
        "send what will fail", b"fails", topic="{run}failed", properties="TAGS\x01a\x02UNIQ_KEY\x01u-failed\x02"
    )
    yield replace(first, keep={"position": "position"})
    yield Pause(100)
    base = back("give back", delayLevel="1")
    yield base
    yield from without_each(base)
    yield from with_each(base, ["x", "", None], ["offset", "delayLevel", "maxReconsumeTimes"])
    yield back("give back to the dead letters", delayLevel="-1")
    yield back("give back for the last time", maxReconsumeTimes="0")
    yield back("give back with a negative maximum", maxReconsumeTimes="-1")
    yield replace(back("give back as an old client", maxReconsumeTimes="0"), header={"version": 120})
    yield back("give back at a far level", delayLevel="99")
    yield back("give back what there isn't", offset="99999999999")
    yield back("give back something negative", offset="-1")
    yield back("give back to a bad group", group="a$b c")
    yield back("give back to a new group", group="{run}failing-2", delayLevel="1")
    for name in (f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"):
        yield Ask(f"topic {name}", 351, {"topic": name})
    yield Ask("group without retries", 200, {}, {"groupName": "{run}no-retries", "retryQueueNums": 0})
    yield back("give back to a group without retries", group="{run}no-retries")
    yield Pause(1500)
    yield pull("stored dead letters", topic=f"%DLQ%{GROUP}")
    yield replace(pull("stored retries", topic=f"%RETRY%{GROUP}", maxMsgNums="4"), apart=("maxOffset",))
    yield from _locks()


def _locks() -> Iterator[Step]:
    queues = [{"brokerName": "broker-a", "queueId": number, "topic": "{run}orders"} for number in range(2)]
    one = {"clientId": "{run}one", "consumerGroup": GROUP, "mqSet": queues, "onlyThisBroker": False}
    two = {**one, "clientId": "{run}two"}
    yield Ask("lock", 41, {}, one)
    yield Ask("lock again", 41, {}, one)
    yield Ask("lock by another", 41, {}, two)
    yield Ask("unlock by another", 42, {}, two)
    yield Ask("lock by another after that", 41, {}, two)
    yield Ask("unlock", 42, {}, {**one, "mqSet": queues[:1]})
    yield Ask("lock what is free", 41, {}, two)
    yield Ask("lock nothing", 41, {}, {**one, "mqSet": []})
    yield Ask("lock without body", 41, {})
    yield Ask("lock without fields", 41, None, one)
    yield Ask("unlock without body", 42, {})
    yield Ask("lock from garbage", 41, {}, b"garbage")
    yield Ask("lock without a client", 41, {}, {"consumerGroup": GROUP, "mqSet": queues})
    yield Ask("lock without queues", 41, {}, {"consumerGroup": GROUP, "clientId": "c"})
