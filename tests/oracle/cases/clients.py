"""Clients: 34, 35, 38, and what members are told."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from tests.oracle.step import Ask, Close, Pause, Step

GROUP = "{run}members"


def consumer(group: str = GROUP, *topics: str, **more: object) -> dict[str, object]:
    """A consumer in a heartbeat."""
    subscriptions = [
        {
            "topic": name,
            "subString": "*",
            "subVersion": 1,
            "expressionType": "TAG",
            "classFilterMode": False,
            "codeSet": [],
            "tagsSet": [],
        }
        for name in topics or ("{run}orders",)
    ]
    plain: dict[str, object] = {"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    plain |= {"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": subscriptions, "unitMode": False}
    return {**plain, **more}


def heartbeat(name: str, client: str, *consumers: dict[str, object], producers: tuple[str, ...] = ()) -> Ask:
    """A heartbeat on a connection of that client's name."""
    body = {
        "clientID": client,
        "consumerDataSet": list(consumers),
        "producerDataSet": [{"groupName": one} for one in producers],
    }
    return Ask(name, 34, {}, body, over=client, reported=True)


def members(name: str, group: str = GROUP) -> Ask:
    return Ask(name, 38, {"consumerGroup": group})


def unregister(name: str, client: str, **fields: str) -> Ask:
    return Ask(name, 35, {"clientID": client, **fields}, over=client, reported=True)


def steps() -> Iterator[Step]:
    """The steps of this family."""
    yield from _membership()
    yield from _bodies()
    yield members("members of an unknown group", "{run}unknown")
    yield Ask("members of no group", 38, {})
    yield Ask("members without fields", 38, None)
    yield Ask("unregister nothing", 35, {})
    yield Ask("unregister without fields", 35, None)


def _membership() -> Iterator[Step]:
    yield heartbeat("first member", "{run}one", consumer(), producers=("{run}p",))
    yield members("members: one")
    yield heartbeat("first member again", "{run}one", consumer())
    yield heartbeat("second member", "{run}two", consumer())
    yield Pause(200)
    yield members("members: two")
    yield heartbeat("first member hears of the second", "{run}one", consumer())
    yield heartbeat("first member subscribes to more", "{run}one", consumer(GROUP, "{run}orders", "{run}odd"))
    yield heartbeat("second member subscribes to less", "{run}two", consumer())
    yield Pause(200)
    yield heartbeat("first member hears of that", "{run}one", consumer())
    yield Ask("retry topic of the members", 351, {"topic": f"%RETRY%{GROUP}"})
    yield unregister("second member leaves", "{run}two", consumerGroup=GROUP)
    yield Pause(200)
    yield members("members: one is left")
    yield heartbeat("first member hears of the leaving", "{run}one", consumer())
    yield heartbeat("third member", "{run}three", consumer())
    yield Close("{run}three")
    yield Pause(300)
    yield members("members: one again")
    yield heartbeat("first member hears of the loss", "{run}one", consumer())
    yield unregister("first member leaves as producer", "{run}one", producerGroup="{run}p")
    yield unregister("first member leaves", "{run}one", consumerGroup=GROUP)
    yield members("members: none")
    yield unregister("first member leaves again", "{run}one", consumerGroup=GROUP)
    silent = {"groupName": "{run}silent", "notifyConsumerIdsChangedEnable": False}
    yield Ask("group that isn't told", 200, {}, silent)
    yield heartbeat("member that isn't told", "{run}s1", consumer("{run}silent"))
    yield heartbeat("member of broadcasters", "{run}b1", consumer("{run}b", messageModel="BROADCASTING"))
    yield heartbeat("member under another id", "{run}s1", consumer("{run}silent", unitMode=True))


def _bodies() -> Iterator[Step]:
    yield Ask("heartbeat of nothing", 34, {})
    yield beat("heartbeat of an empty object", {})
    yield beat("heartbeat of garbage", b"garbage")
    yield beat("heartbeat of a list", b"[]")
    yield beat("heartbeat of nulls", b'{"clientID":null,"consumerDataSet":null,"producerDataSet":null}')
    yield Ask("heartbeat without fields", 34, None, {"clientID": "{run}x"})
    strange = consumer("{run}strange", consumeType="NOPE", messageModel="NOPE")
    yield beat("heartbeat of strange enums", {"clientID": "{run}x", "consumerDataSet": [strange]})
    yield members("members of strange enums", "{run}strange")
    short = {"groupName": "{run}short"}
    yield beat("heartbeat of a short consumer", {"clientID": "{run}x", "consumerDataSet": [short]})
    yield members("members of a short consumer", "{run}short")
    yield beat("heartbeat of a nameless consumer", {"clientID": "{run}x", "consumerDataSet": [{}]})
    yield beat("heartbeat of a nameless producer", {"clientID": "{run}x", "producerDataSet": [{}]})
    yield beat("heartbeat of a bad group", {"clientID": "{run}x", "consumerDataSet": [consumer("a$b")]})
    yield beat("heartbeat in single quotes", b"{'clientID':'q','producerDataSet':[{'groupName':'q'}]}")
    yield beat("heartbeat of bare keys", b'{clientID:"q",heartbeatFingerprint:0,withoutSub:false}')
    more = {"clientID": "{run}x", "nope": 1, "heartbeatFingerprint": 0, "withoutSub": False}
    yield beat("heartbeat of more keys", more)
    yield from _second_version()
    subscription = {"topic": "t", "subString": "a", "expressionType": "TAG"}
    yield Ask("check of a client", 46, {}, {"clientId": "{run}x", "group": "g", "subscriptionData": subscription})


def _second_version() -> Iterator[Step]:
    numbers = count(1)
    yield short_beat("heartbeat in its second version", 5, False, consumer("{run}v2"))
    yield short_beat("heartbeat without subscriptions", 5, True, consumer("{run}v2", subscriptionDataSet=[]))
    for fingerprint in (5, 6, 6, 0, 6):
        name = f"heartbeat in short, number {next(numbers)}"
        yield short_beat(name, fingerprint, fingerprint != 0, consumer("{run}v2"))


def beat(name: str, body: Any) -> Ask:
    return Ask(name, 34, {}, body)


def short_beat(name: str, fingerprint: int, without_subscriptions: bool, member: dict[str, Any]) -> Ask:
    body = {
        "clientID": "{run}x",
        "heartbeatFingerprint": fingerprint,
        "withoutSub": without_subscriptions,
        "consumerDataSet": [member],
    }
    return beat(name, body)
