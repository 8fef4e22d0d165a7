"""Conditions in SQL92: 46, and 11 and 34 with them. The table of them is in tests/oracle/conditions.py."""

from collections.abc import Iterator
from dataclasses import replace

from tests.oracle.cases import pulls
from tests.oracle.cases.clients import consumer
from tests.oracle.cases.common import send, topic
from tests.oracle.conditions import messages, recorded
from tests.oracle.step import Ask, Close, Fetch, Pause, Step, Value

TOPIC = "{run}conditions"
GROUP = "{run}choosers"


def steps() -> Iterator[Step]:
    """The steps of this family."""
    yield from prepare()
    for text, said in recorded().items():
        yield check(text)
        if isinstance(said, list):
            yield choose(text)
    yield choose("a >")
    yield choose("")
    yield replace(choose("a > 3"), name="choose by another kind", fields=fields("a > 3", expressionType="XPATH"))
    yield replace(check("a > 3"), name="check another kind", body=body({"subString": "a", "expressionType": "XPATH"}))
    yield replace(check("a > 3"), name="check no text", body=body({"expressionType": "SQL92"}))
    yield replace(check("a > 3"), name="check tags", body=body({"subString": "||", "expressionType": "TAG"}))
    yield replace(check("a > 3"), name="check no kind", body=body({"subString": "a >", "expressionType": ""}))
    yield replace(check("a > 3"), name="check nothing", body={"clientId": "c", "group": GROUP})
    yield check("(" * 3_000 + "a = 3" + ")" * 3_000, "nested 3,000 deep")
    yield check("NOT (" * 3_000 + "a = 3" + ")" * 3_000, "negated 3,000 times")
    yield check("NOT (" * 100 + "a = 3" + ")" * 100, "negated 100 times")
    yield check(" OR ".join(["a = 3"] * 3_000), "of 3,000 parts")
    yield check(" OR ".join(["a = 3"] * 10_000), "of 10,000 parts")
    yield from _by_heartbeat()
    yield from _held()


def prepare() -> Iterator[Step]:
    """Make the topic and its messages."""
    yield topic(TOPIC)
    for number, properties in enumerate(messages()):
        yield send(f"send {number} to choose from", str(number).encode(), topic=TOPIC, properties=properties)
    yield Pause(500)


def body(subscription: dict[str, object]) -> dict[str, object]:
    return {"clientId": "c", "group": GROUP, "subscriptionData": {"topic": TOPIC, **subscription}}


def check(text: str, name: str = "") -> Ask:
    """Ask whether a condition is one."""
    return Ask(f"check {name or repr(text)}", 46, {}, body({"subString": text, "expressionType": "SQL92"}))


def fields(text: str, **changes: Value) -> dict[str, Value]:
    own: dict[str, Value] = {"consumerGroup": GROUP, "topic": TOPIC, "subscription": text, "expressionType": "SQL92"}
    return {**pulls.FIELDS, **own, **changes}


def choose(text: str) -> Ask:
    """Pull by a condition."""
    return Ask(f"choose {text!r}", 11, fields(text), reads="records")


def heartbeat(name: str, text: str, version: int, kind: str = "SQL92") -> Ask:
    wanted = {"topic": TOPIC, "subString": text, "subVersion": version, "expressionType": kind}
    tags: dict[str, object] = {"tagsSet": ["a"], "codeSet": [97]} if kind == "TAG" else {"tagsSet": [], "codeSet": []}
    reported = consumer(GROUP, subscriptionDataSet=[{**wanted, **tags, "classFilterMode": False}])
    return Ask(
        name, 34, {}, {"clientID": "{run}c", "consumerDataSet": [reported], "producerDataSet": []}, over="chooser"
    )


def _by_heartbeat() -> Iterator[Step]:
    def pull(name: str, version: int, **changes: Value) -> Ask:
        requested = fields("b = 'not this one'", sysFlag="0", subVersion=str(version), **changes)
        return Ask(f"choose by heartbeat: {name}", 11, requested, reads="records")

    yield heartbeat("heartbeat with a condition", "a = 3", 5)
    yield pull("the condition", 5)
    yield pull("an older version", 4)
    yield pull("a newer version", 6)
    yield pull("a newer version of tags", 6, expressionType="TAG")
    yield heartbeat("heartbeat with a newer condition", "a = 'x'", 6)
    yield pull("the newer condition", 6)
    yield heartbeat("heartbeat with an older condition", "a = 'nope'", 5)
    yield pull("still the newer condition", 6)
    yield heartbeat("heartbeat with a wrong condition", "a =", 7)
    yield pull("the wrong condition", 7)
    yield pull("the wrong condition by an older version", 6)
    yield heartbeat("heartbeat with another kind", "a", 8, "XPATH")
    yield pull("another kind", 8)
    yield heartbeat("heartbeat with an empty condition", "", 9)
    yield pull("the empty condition", 9)
    yield heartbeat("heartbeat with a right condition", "b IS NULL AND a > 3", 10)
    yield pull("the right condition", 10)
    yield heartbeat("heartbeat with tags instead", "a", 11, "TAG")
    yield pull("tags instead", 11)
    yield Close("chooser")
    yield Pause(300)


def _held() -> Iterator[Step]:
    waits = str(pulls.SUBSCRIPTION | pulls.SUSPEND)
    name = "{run}held-conditions"
    yield topic(name)
    for what, text in (("wanted", "a = 'x'"), ("unwanted", "a = 'y'"), ("unknown", "c = 'x'")):
        requested = fields(text, topic=name, sysFlag=waits, suspendTimeoutMillis="9000")
        yield Ask(f"hold for what is {what}", 11, requested, over=f"held {what}", later=True)
    yield Pause(200)
    yield send("wake the choosers", topic=name, properties="a\x01x\x02")
    for what in ("wanted", "unwanted", "unknown"):
        yield Fetch(f"answer to what is {what}", f"hold for what is {what}", over=f"held {what}")
