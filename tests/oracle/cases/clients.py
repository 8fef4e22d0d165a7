"""Clients: 34, 35, 38, and what members are told."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

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
    return Ask(name, 34, {}, body, over=client, told=True)


def members(name: str, group: str = GROUP) -> Ask:
    return Ask(name, 38, {"consumerGroup": group})


def unregister(name: str, client: str, **fields: str) -> Ask:
    return Ask(name, 35, {"clientID": client, **fields}, over=client, told=True)


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
    empty, numbers = Ask("heartbeat of nothing", 34, {}), count(1)
    yield empty
    yield replace(empty, name="heartbeat of an empty object", body={})
    yield replace(empty, name="heartbeat of garbage", body=b"garbage")
    yield replace(empty, name="heartbeat of a list", body=b"[]")
    yield replace(
        empty, name="heartbeat of nulls", body=b'{"clientID":null,"consumerDataSet":null,"producerDataSet":null}'
    )
    yield replace(empty, name="heartbeat without fields", fields=None, body={"clientID": "{run}x"})
    yield replace(
        empty,
        name="heartbeat of strange enums",
        body={
            "clientID": "{run}x",
            "consumerDataSet": [consumer("{run}strange", consumeType="NOPE", messageModel="NOPE")],
        },
    )
    yield members("members of strange enums", "{run}strange")
    yield replace(
        empty,
        name="heartbeat of a short consumer",
        body={"clientID": "{run}x", "consumerDataSet": [{"groupName": "{run}short"}]},
    )
    yield members("members of a short consumer", "{run}short")
    yield replace(empty, name="heartbeat of a nameless consumer", body={"clientID": "{run}x", "consumerDataSet": [{}]})
    yield replace(empty, name="heartbeat of a nameless producer", body={"clientID": "{run}x", "producerDataSet": [{}]})
    yield replace(
        empty, name="heartbeat of a bad group", body={"clientID": "{run}x", "consumerDataSet": [consumer("a$b")]}
    )
    yield replace(
        empty, name="heartbeat in single quotes", body=b"{'clientID':'q','producerDataSet':[{'groupName':'q'}]}"
    )
    yield replace(empty, name="heartbeat of bare keys", body=b'{clientID:"q",heartbeatFingerprint:0,withoutSub:false}')
    yield replace(
        empty,
        name="heartbeat of more keys",
        body={"clientID": "{run}x", "nope": 1, "heartbeatFingerprint": 0, "withoutSub": False},
    )
    yield replace(
        empty,
        name="heartbeat in its second version",
        body={
            "clientID": "{run}x",
            "heartbeatFingerprint": 5,
            "withoutSub": False,
            "consumerDataSet": [consumer("{run}v2")],
        },
    )
    yield replace(
        empty,
        name="heartbeat without subscriptions",
        body={
            "clientID": "{run}x",
            "heartbeatFingerprint": 5,
            "withoutSub": True,
            "consumerDataSet": [consumer("{run}v2", subscriptionDataSet=[])],
        },
    )
    for fingerprint in (5, 6, 6, 0, 6):
        yield replace(
            empty,
            name=f"heartbeat in short, number {next(numbers)}",
            body={
                "clientID": "{run}x",
                "heartbeatFingerprint": fingerprint,
                "withoutSub": fingerprint != 0,
                "consumerDataSet": [consumer("{run}v2")],
            },
        )
    yield Ask(
        "check of a client",
        46,
        {},
        {
            "clientId": "{run}x",
            "group": "g",
            "subscriptionData": {"topic": "t", "subString": "a", "expressionType": "TAG"},
        },
    )
