"""Single calls, each by itself: what they are answered with, mostly why not. spec/grpc.md, its cases by number."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from google.protobuf.message import Message as PbMessage

from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from tests.oracle.grpc.requests import (
    DAY_S,
    ack,
    bury,
    change,
    consumer_settings,
    end,
    endpoints,
    message,
    producer_settings,
    receive,
    resource,
    send,
)
from tests.oracle.grpc.side import CLIENT

TOPICS = {"normal": "", "plain": "NORMAL", "fifo": "FIFO", "delayed": "DELAY", "halves": "TRANSACTION"}
GROUPS: dict[str, dict[str, Any]] = {
    "simple": {},
    "orderly": {"consume_message_orderly": True},
    "once": {"retry_max_times": 1},
}
MIB = 1 << 20


class OneCall(NamedTuple):
    """A call."""

    name: str
    rpc: str
    request: PbMessage
    client: str | None = CLIENT
    timeout_s: int = 23


class OneStream(NamedTuple):
    """The first word of a Telemetry stream."""

    name: str
    settings: pb.Settings | None
    client: str = "settings"
    language: str = "JAVA"


def streams(run: str) -> Iterator[OneStream]:
    """Cases 9-12."""
    yield OneStream("settings of a producer", producer_settings(f"{run}normal", f"{run}none"))
    yield OneStream("settings of a producer without topics", producer_settings())
    for group in ("new", *GROUPS):
        yield OneStream(f"settings of the group {group}", consumer_settings(f"{run}{group}", f"{run}normal"))
    push = consumer_settings(f"{run}simple", f"{run}normal", kind=pb.PUSH_CONSUMER)
    yield OneStream("settings of a push consumer", push)
    yield OneStream("settings without pub and sub", pb.Settings(client_type=pb.PRODUCER))
    yield OneStream("settings in an unknown language", producer_settings(f"{run}normal"), language="GOLANG")
    pull = consumer_settings(f"{run}simple", f"{run}normal", kind=pb.PULL_CONSUMER)
    yield OneStream("settings of a pull consumer", pull)
    yield OneStream("settings with bars", consumer_settings(f"{run}simple", f"{run}normal", expression="||"))
    yield OneStream("settings of no group", consumer_settings("", f"{run}normal"))
    yield OneStream("settings of a producer of a bad topic", producer_settings("a b"))


def calls(run: str) -> Iterator[OneCall]:
    """All the others."""
    yield from _routes(run)
    yield from _sends(run)
    yield from _receipts(run)


def _routes(run: str) -> Iterator[OneCall]:
    known = {"normal": f"{run}normal", "fifo": f"{run}fifo", "closed": f"{run}readonly"}
    unknown = {"missing": f"{run}none", "empty": "", "spaced": "a b", "long": "x" * 128, "system": "TBW102"}
    for name, topic in (known | unknown).items():
        request = pb.QueryRouteRequest(topic=resource(topic), endpoints=endpoints())
        yield OneCall(f"route of {name}", "QueryRoute", request)
    named = endpoints("my.example", 8081, pb.DOMAIN_NAME)
    yield OneCall("route by name", "QueryRoute", pb.QueryRouteRequest(topic=resource(f"{run}normal"), endpoints=named))
    yield OneCall("route for nobody", "QueryRoute", pb.QueryRouteRequest(topic=resource(f"{run}normal")), None)
    for name in (f"{run}simple", f"{run}orderly", f"{run}never", "", "CID_RMQ_SYS_x"):
        request_2 = pb.QueryAssignmentRequest(
            topic=resource(f"{run}normal"), group=resource(name), endpoints=endpoints()
        )
        yield OneCall(f"assignment of {name.removeprefix(run)}", "QueryAssignment", request_2)
    stranger = "a stranger"
    yield OneCall("heartbeat of a stranger", "Heartbeat", pb.HeartbeatRequest(group=resource(f"{run}simple")), stranger)
    yield OneCall("goodbye of a stranger", "NotifyClientTermination", pb.NotifyClientTerminationRequest(), stranger)
    yield OneCall("heartbeat without a group", "Heartbeat", pb.HeartbeatRequest())
    for name in ("PullMessage", "UpdateOffset", "GetOffset", "QueryOffset"):
        yield OneCall(name, name, getattr(pb, f"{name}Request")())


def _sends(run: str) -> Iterator[OneCall]:
    normal = f"{run}plain"
    sent = {
        "nothing": send(),
        "a message": send(message(normal, "X1")),
        "two topics": send(message(normal), message(f"{run}normal")),
        "no body": send(message(normal, body=b"")),
        "4 MiB": send(message(normal, body=bytes(4 * MIB))),
        "4 MiB and one": send(message(normal, body=bytes(4 * MIB + 1))),
        "no id": send(message(normal, "")),
        "a blank tag": send(message(normal, tag=" ")),
        "a tag with a bar": send(message(normal, tag="a|b")),
        "a key with a line end": send(message(normal, keys=["a\nb"])),
        "a blank key": send(message(normal, keys=[" "])),
        "a reserved property": send(message(normal, user={"UNIQ_KEY": "x"})),
        "129 properties": send(message(normal, user={f"k{number}": "v" for number in range(129)})),
        "large properties": send(message(normal, user={"k": "v" * 16_385})),
        "a control character in a value": send(message(normal, user={"k": "a\x01b"})),
        "a group of 63": send(message(f"{run}fifo", message_group="g" * 63)),
        "a group of 64": send(message(f"{run}fifo", message_group="g" * 64)),
        "a group to NORMAL": send(message(normal, message_group="g")),
        "no group to FIFO": send(message(f"{run}fifo")),
        "NORMAL to TRANSACTION": send(message(f"{run}halves")),
        "to an unknown topic": send(message(f"{run}none")),
        "to a topic that is read-only": send(message(f"{run}readonly")),
        "to a system topic": send(message("TBW102")),
        "33 of 100 kB": send(*[message(normal, f"B{number}", bytes(100_000)) for number in range(33)]),
        "45 of 100 kB": send(*[message(normal, f"B{number}", bytes(100_000)) for number in range(45)]),
        "two halves": send(*[message(f"{run}halves", f"H{n}", message_type=pb.TRANSACTION) for n in range(2)]),
        "FIFO without a group to NORMAL": send(message(normal, "F1", message_type=pb.FIFO)),
        "DELAY without a time": send(message(f"{run}delayed", message_type=pb.DELAY)),
    }
    for name, seconds in {"a day and a minute": DAY_S + 60, "five seconds ago": -5, "in an hour": 3600}.items():
        late = message(f"{run}delayed", f"D{seconds}", message_type=pb.DELAY)
        late.system_properties.delivery_timestamp.GetCurrentTime()
        late.system_properties.delivery_timestamp.seconds += seconds
        sent[f"for {name}"] = send(late)
    digest = message(normal, "W1")
    digest.system_properties.body_digest.type, digest.system_properties.body_digest.checksum = pb.MD5, "0" * 32
    sent["a wrong digest"] = send(digest)
    orphan = message(f"{run}halves", "O1", message_type=pb.TRANSACTION)
    orphan.system_properties.orphaned_transaction_recovery_duration.FromSeconds(3601)
    sent["a half message to be asked about in an hour"] = send(orphan)
    for name, request in sent.items():
        yield OneCall(f"send {name}", "SendMessage", request)
    yield OneCall("send for nobody", "SendMessage", send(message(normal)), None)


def _receipts(run: str) -> Iterator[OneCall]:
    topic, group = f"{run}normal", f"{run}simple"
    refused = {
        "invisible for 9 s": receive(topic, group, invisible_s=9),
        "without an invisible time": receive(topic, group, invisible_s=None),
        "invisible for 12 h and a second": receive(topic, group, invisible_s=43_201),
        "by bars": receive(topic, group, tags="||"),
        "of an unknown topic": receive(f"{run}none", group),
        "of no topic": receive("", group),
        "of no group": receive(topic, ""),
        "nothing there": receive(topic, group),
    }
    for name, request in refused.items():
        yield OneCall(f"receive {name}", "ReceiveMessage", request)
    yield OneCall("receive by a bad condition", "ReceiveMessage", receive(topic, group, sql="a ==="))
    yield OneCall("receive within 4 s", "ReceiveMessage", receive(topic, group), timeout_s=4)
    far = "0 1 60000 0 0 broker-a 0 0 0"
    handles = {"garbage": "garbage", "an expired one": far, "another broker's": f"0 {2**45} 60000 0 0 broker-z 0 0 0"}
    for name, handle in handles.items():
        yield OneCall(f"ack {name}", "AckMessage", ack(topic, group, handle))
        yield OneCall(f"change {name}", "ChangeInvisibleDuration", change(topic, group, handle, 10))
        yield OneCall(f"bury {name}", "ForwardMessageToDeadLetterQueue", bury(topic, group, handle))
    yield OneCall("ack nothing", "AckMessage", ack(topic, group))
    yield OneCall("change for 12 h and a second", "ChangeInvisibleDuration", change(topic, group, far, 43_201))
    fresh = f"0 {2**41} 60000 0 0 broker-a 0 0"
    yield OneCall("bury by a handle of 8 parts", "ForwardMessageToDeadLetterQueue", bury(topic, group, fresh))
    yield OneCall("end without an id", "EndTransaction", end(f"{run}halves", "", pb.COMMIT))
    yield OneCall("end an unknown one", "EndTransaction", end(f"{run}halves", "nobody's", pb.COMMIT))
    for name, of in {"delayed": "delayed", "normal": "plain"}.items():
        request_2 = pb.RecallMessageRequest(topic=resource(f"{run}{of}"), recall_handle="xx")
        yield OneCall(f"recall from a topic that is {name}", "RecallMessage", request_2)
