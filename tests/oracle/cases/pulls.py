"""Pulling: 11, 361."""

from collections.abc import Iterator
from dataclasses import replace

from tests.oracle.cases.common import PULL, send, topic
from tests.oracle.step import Ask, Close, Fetch, Pause, Step, Value, with_each, without_each

COMMIT, SUSPEND, SUBSCRIPTION, CLASS_FILTER = 1, 2, 4, 8
TOPIC = "{run}pulled"

FIELDS: dict[str, Value] = {
    "consumerGroup": "{run}pullers",
    "topic": TOPIC,
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": str(SUBSCRIPTION),
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subscription": "*",
    "subVersion": "0",
    "expressionType": "TAG",
}


def pull(name: str, **changes: Value) -> Ask:
    """A pull of what is there."""
    return Ask(name, PULL, {**FIELDS, **changes}, reads="records")


def steps() -> Iterator[Step]:
    """The steps of this family."""
    yield topic(TOPIC, 2)
    for number, tag in enumerate(("a", "b", "Aa", "", "a || b", "c")):
        properties = (f"TAGS\x01{tag}\x02" if tag else "") + f"KEYS\x01k{number}\x02UNIQ_KEY\x01u{number}\x02"
        yield send(f"send {number} to pull", f"body {number}".encode(), topic=TOPIC, properties=properties)
    yield Pause(300)
    yield from _fields()
    yield from _offsets()
    yield from _filters()
    yield from _refusals()
    yield from _without_subscription()
    yield from _held()
    yield from _stored()


def _fields() -> Iterator[Step]:
    base = pull("pull")
    yield base
    yield from without_each(base)
    yield from with_each(base, ["x", "", None], ["queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset"])
    yield from with_each(base, ["x", "", None, 5], ["suspendTimeoutMillis", "subVersion"])
    yield from with_each(base, ["0", "-1", "1", "1000"], ["maxMsgNums"])
    numbers = {key: int(str(value)) if str(value).isdigit() else value for key, value in FIELDS.items()}
    yield replace(base, name="pull with numbers as numbers", fields=numbers)
    yield Ask("pull without fields", PULL, None)
    yield replace(base, name="lite pull", code=361)
    yield pull("pull with more fields", maxMsgBytes="100", requestSource="-1", bname="broker-a", nope="x")
    yield pull("pull with a bad request source", requestSource="x")


def _offsets() -> Iterator[Step]:
    for offset in ("1", "5", "6", "7", "100", "-1", "9223372036854775807"):
        yield pull(f"pull from {offset}", queueOffset=offset)
    for offset in ("0", "1", "-1"):
        yield pull(f"pull from {offset} of an empty queue", queueId="1", queueOffset=offset)
    yield pull("pull with a commit", sysFlag=str(SUBSCRIPTION | COMMIT), commitOffset="3")
    yield Ask("what the pull committed", 14, {"consumerGroup": "{run}pullers", "topic": TOPIC, "queueId": "0"})
    yield pull("pull at the end with a commit", sysFlag=str(SUBSCRIPTION | COMMIT), commitOffset="-7", queueOffset="6")
    yield Ask("what that pull committed", 14, {"consumerGroup": "{run}pullers", "topic": TOPIC, "queueId": "0"})


def _filters() -> Iterator[Step]:
    for text in (
        "a",
        "a || b",
        "b||c",
        " a ",
        "BB",
        "nope",
        "",
        " ",
        "||",
        "|",
        "a|b",
        "a || || b",
        "*",
        "* || a",
        "A",
    ):
        yield pull(f"pull only {text!r}", subscription=text)
    yield pull("pull only nope from the end", subscription="nope", queueOffset="6")
    yield pull("pull two of a tag", subscription="a", maxMsgNums="1")
    yield pull("pull with the tag type in small letters", expressionType="tag", subscription="a")


def _refusals() -> Iterator[Step]:
    for queue_id in ("2", "-1", "99"):
        yield pull(f"pull from queue {queue_id}", queueId=queue_id)
    yield pull("pull from an unknown topic", topic="{run}unknown")
    yield pull("pull as a group of a bad name", consumerGroup="a$b c")
    yield pull("pull as a group of a long name", consumerGroup="g" * 256)
    yield pull("pull as an empty group", consumerGroup="")
    yield pull("pull from a write-only topic", topic="{run}write-only")
    yield pull("pull as a group that may not", consumerGroup="{run}made")
    yield pull("pull with a class filter", sysFlag=str(SUBSCRIPTION | CLASS_FILTER))
    yield pull("pull from an empty topic", topic="")


def _heartbeat(group: str, version: int, model: str = "CLUSTERING", text: str = "a") -> object:
    subscription = {
        "topic": TOPIC,
        "subString": text,
        "subVersion": version,
        "expressionType": "TAG",
        "classFilterMode": False,
        "tagsSet": ["a"],
        "codeSet": [97],
    }
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": model,
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [subscription],
        "unitMode": False,
    }
    return {"clientID": "{run}c1", "consumerDataSet": [consumer], "producerDataSet": []}


def _without_subscription() -> Iterator[Step]:
    group = "{run}online"
    yield pull("pull as a group that isn't online", consumerGroup=group, sysFlag="0")
    yield Ask("heartbeat for pulls", 34, {}, _heartbeat(group, 5), over="c1")
    yield pull("pull by heartbeat", consumerGroup=group, sysFlag="0", subVersion="5")
    yield pull("pull by an older version", consumerGroup=group, sysFlag="0", subVersion="4")
    yield pull("pull by a newer version", consumerGroup=group, sysFlag="0", subVersion="6")
    yield pull("pull of another topic by heartbeat", consumerGroup=group, sysFlag="0", topic="{run}orders")
    yield pull(
        "pull by heartbeat with an expression that doesn't count", consumerGroup=group, sysFlag="0", subscription="b"
    )
    broadcasters = {"groupName": "{run}broadcasters", "consumeBroadcastEnable": False}
    yield Ask("group that may not broadcast", 200, {}, broadcasters)
    yield Ask("heartbeat that broadcasts", 34, {}, _heartbeat("{run}broadcasters", 5, "BROADCASTING"), over="c2")
    yield pull("pull by broadcasting", consumerGroup="{run}broadcasters", sysFlag="0", subVersion="5")
    yield Close("c1")
    yield Close("c2")
    yield Pause(300)
    yield pull("pull by heartbeat of a lost client", consumerGroup=group, sysFlag="0", subVersion="5")


def _held() -> Iterator[Step]:
    waits = str(SUBSCRIPTION | SUSPEND)
    yield topic("{run}held", 2)
    for name, changes in (
        ("woken", {}),
        ("woken by its tag", {"subscription": "a"}),
        ("not woken", {"subscription": "nope"}),
    ):
        held = pull(f"hold {name}", topic="{run}held", sysFlag=waits, suspendTimeoutMillis="9000", **changes)
        yield replace(held, over=name, later=True)
    short = pull("hold shortly", topic="{run}held", queueId="1", sysFlag=waits, suspendTimeoutMillis="500")
    yield replace(short, over="short", later=True)
    commit = str(SUBSCRIPTION | SUSPEND | COMMIT)
    noted = pull(
        "hold with a commit",
        topic="{run}held",
        queueId="1",
        sysFlag=commit,
        commitOffset="4",
        suspendTimeoutMillis="500",
    )
    yield replace(noted, over="noted", later=True)
    yield Pause(200)
    yield Ask("what a held pull committed", 14, {"consumerGroup": "{run}pullers", "topic": "{run}held", "queueId": "1"})
    yield send("wake them", topic="{run}held")
    for name in ("woken", "woken by its tag", "not woken"):
        yield Fetch(f"answer {name}", f"hold {name}", over=name)
    yield Fetch("answer at the hold's end", "hold shortly", over="short")
    yield Fetch("answer at the hold's end with a commit", "hold with a commit", over="noted")
    beyond = pull(
        "pull beyond the end that might wait",
        topic="{run}held",
        queueOffset="9",
        sysFlag=waits,
        suspendTimeoutMillis="3000",
    )
    yield beyond
    yield pull(
        "pull of other tags that might wait",
        topic="{run}held",
        subscription="nope",
        sysFlag=waits,
        suspendTimeoutMillis="3000",
    )


def _stored() -> Iterator[Step]:
    """Look at what earlier sends have stored."""
    for name, queues in (
        ("orders", 1),
        ("odd", 1),
        ("batched", 1),
        ("batched-1", 1),
        ("batched-2", 1),
        ("one-queue", 1),
    ):
        for queue_id in range(queues):
            yield pull(f"stored in {name}", topic=f"{{run}}{name}", queueId=str(queue_id), maxMsgNums="32")
    yield pull("stored in the delayed topic", topic="{run}delayed")
    yield pull("stored in the retry topic", topic="%RETRY%{run}nobody")
    yield pull("stored in the dead letters", topic="%DLQ%{run}nobody")
    yield pull("stored in the transactions", topic="{run}trans")
