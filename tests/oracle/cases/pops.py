"""Messages taken for a while: 200050-200055, 200151, 400-402."""

from collections.abc import Iterator

from tests.oracle.cases.common import send, topic
from tests.oracle.step import Ask, Dispatched, Pause, Step, Value

POP, ACK, PEEK, CHANGE, NOTIFICATION, POLLING_INFO, BATCH_ACK = 200050, 200051, 200052, 200053, 200054, 200055, 200151
ASSIGNMENT, SET_MODE, COMMITTED, COMMIT, RESET = 400, 401, 14, 15, 222
TOPIC, GROUP = "{run}popped", "{run}poppers"
TIMES = ("popTime", "reviveQid")
# Which of eight revive queues it is says nothing.

OFFSETS_MS = 600
# RocketMQ commits what was popped behind the answer, in a service of its own.

FIELDS: dict[str, Value] = {
    "consumerGroup": GROUP,
    "topic": TOPIC,
    "queueId": "0",
    "maxMsgNums": "32",
    "invisibleTime": "60000",
    "pollTime": "0",
    "bornTime": "0",
    "initMode": "0",
}


def pop(name: str, keep: dict[str, str] | None = None, /, **changes: Value) -> Ask:
    """A pop of what is there."""
    return Ask(name, POP, {**FIELDS, **changes}, reads="records", apart=TIMES, keep=keep or {})


def _handle(name: str, offset: int, start: int = 0, flag: int = 0) -> str:
    return f"{start} {{{name}-time}} 60000 {{{name}-queue}} {flag} broker-a 0 {offset}"


def _kept(name: str) -> dict[str, str]:
    return {f"{name}-time": "popTime", f"{name}-queue": "reviveQid"}


def ack(name: str, offset: int, handle: str, code: int = ACK, **changes: Value) -> Ask:
    """An acknowledgement; with another code a change."""
    fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "extraInfo": handle, "offset": str(offset)}
    return Ask(name, code, {**fields, **changes}, apart=TIMES)


def committed(name: str) -> Ask:
    """Where the group stands."""
    return Ask(name, COMMITTED, {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"})


def steps() -> Iterator[Step]:
    """The steps of this family."""
    yield topic(TOPIC, 1)
    yield topic("{run}poppedclosed", 1, perm=2)
    yield pop("pop of an empty queue")
    yield committed("where a pop of an empty queue stands")
    for number, tag in enumerate("ABABABABAB"):
        properties = f"TAGS\x01{tag}\x02a\x01{number}\x02UNIQ_KEY\x01p{number}\x02"
        yield send(f"send {number} to pop", f"body {number}".encode(), topic=TOPIC, properties=properties)
    yield Dispatched(TOPIC, 10)
    yield from _checks()
    yield from _takes()
    yield from _acknowledges()
    yield from _in_order()
    yield from _looks()
    yield from _assigns()


def _checks() -> Iterator[Step]:
    changes: dict[str, dict[str, Value]] = {
        "too many": {"maxMsgNums": "33", "topic": "{run}nowhere"},
        "nothing": {"maxMsgNums": "0"},
        "a topic that isn't there": {"topic": "{run}nowhere"},
        "a topic that can't be read": {"topic": "{run}poppedclosed"},
        "a queue that isn't there": {"queueId": "4"},
        "a group with a bad name": {"consumerGroup": "bad group!"},
        "bars": {"exp": "||", "expType": "TAG"},
        "no condition": {"exp": "a ===", "expType": "SQL92"},
        "an unknown expression": {"exp": "a", "expType": "FOO"},
        "long ago": {"bornTime": "1"},
    }
    for name, fields in changes.items():
        yield pop(f"pop, {name}", **fields)


def _takes() -> Iterator[Step]:
    yield pop("pop by tag", exp="A", expType="TAG", maxMsgNums="3")
    yield Pause(OFFSETS_MS)
    yield committed("where a pop by tag stands")
    yield pop("pop by a tag that nothing has", exp="C", expType="TAG")
    yield Pause(OFFSETS_MS)
    yield committed("where a pop of nothing wanted stands")
    yield Ask("back to 0", COMMIT, {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": "0"})
    yield pop("pop all", _kept("all"))
    yield pop("pop again")
    yield Ask("beyond the end", COMMIT, {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": "99"})
    yield pop("pop from beyond the end")
    yield Pause(OFFSETS_MS)
    yield committed("where that stands")
    fields = {"topic": TOPIC, "group": GROUP, "timestamp": "-1", "isForce": "false", "queueId": "0", "offset": "4"}
    yield Ask("reset to 4", RESET, dict(fields), apart=("body",))
    yield Pause(OFFSETS_MS)
    yield committed("where a reset stands")
    yield pop("pop after a reset")


def _acknowledges() -> Iterator[Step]:
    handle = _handle("all", 0)
    yield ack("ack", 0, handle)
    yield ack("ack twice", 0, handle)
    for offset in (99, -1, 10):
        yield ack(f"ack {offset}", offset, handle)
    for queue_id in ("5", "-1"):
        yield ack(f"ack in queue {queue_id}", 0, handle, queueId=queue_id)
    yield ack("ack of another topic", 0, handle, topic="{run}nowhere")
    for text in ("abc", "x 1 2 3 0 b", "0 1 1 0 0 elsewhere 0 0"):
        yield ack(f"ack by {text}", 0, text)
    yield ack("change", 1, _handle("all", 1), CHANGE, invisibleTime="50000")
    yield ack("change at the end", 10, handle, CHANGE, invisibleTime="50000")
    yield ack("change by too little", 1, "0 1 2", CHANGE, invisibleTime="50000")
    entry = {"c": GROUP, "t": TOPIC, "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 60000, "b": "Awo="}
    yield Ask("batch ack of what isn't there", BATCH_ACK, {}, {"acks": [entry], "brokerName": "broker-a"})
    yield Ask("batch ack of nothing", BATCH_ACK, {}, {"acks": [], "brokerName": "broker-a"})
    yield Ask("batch ack without a body", BATCH_ACK, {})
    yield Ask("batch ack of another kind", BATCH_ACK, {}, {"acks": [{**entry, "r": "7"}], "brokerName": "broker-a"})


def _in_order() -> Iterator[Step]:
    group = "{run}orderly"

    def take(name: str, keep: dict[str, str] | None = None, **changes: Value) -> Ask:
        return pop(name, keep, consumerGroup=group, order="true", maxMsgNums="3", **changes)

    def stands(name: str) -> Ask:
        return Ask(name, COMMITTED, {"consumerGroup": group, "topic": TOPIC, "queueId": "0"})

    yield take("pop in order", _kept("order"), attemptId="A1")
    yield take("pop in order while blocked")
    yield Ask("notification while blocked", NOTIFICATION, {**FIELDS, "consumerGroup": group, "order": "true"})
    yield take("pop in order, the same attempt", _kept("order"), attemptId="A1")
    for offset in (1, 0, 5, 2):
        yield ack(f"ack {offset} in order", offset, _handle("order", offset), consumerGroup=group)
        yield stands(f"where {offset} in order stands")
    yield take("pop in order, the next ones")


def _looks() -> Iterator[Step]:
    group = "{run}lookers"
    for name, code in (("peek", PEEK), ("notification", NOTIFICATION), ("polling info", POLLING_INFO)):
        fields: dict[str, Value] = {**FIELDS, "consumerGroup": group, "maxMsgNums": "2"}
        yield Ask(name, code, fields, reads="records")
        yield Ask(f"{name} of a topic that isn't there", code, {**fields, "topic": "{run}nowhere"}, reads="records")
        yield Ask(f"{name} of a queue that isn't there", code, {**fields, "queueId": "9"}, reads="records")
    yield Ask("peek where nothing is left", PEEK, dict(FIELDS), reads="records")


def _assigns() -> Iterator[Step]:
    question = {
        "clientId": "c1", "consumerGroup": "{run}nobody", "messageModel": "CLUSTERING", "strategyName": "AVG",
        "topic": TOPIC,
    }  # fmt: skip
    yield Ask("assignment of a group that is away", ASSIGNMENT, {}, question)
    yield Ask("assignment by broadcast", ASSIGNMENT, {}, {**question, "messageModel": "BROADCASTING"})
    yield Ask("assignment without a body", ASSIGNMENT, {})
    mode = {"consumerGroup": GROUP, "mode": "POP", "popShareQueueNum": 0, "topic": TOPIC}
    yield Ask("set mode", SET_MODE, {}, mode)
    yield Ask("set mode of a retry topic", SET_MODE, {}, {**mode, "topic": "%RETRY%{run}poppers"})
    yield Ask("set mode of another topic", SET_MODE, {}, {**mode, "topic": "{run}nowhere"})
    yield Ask("set mode of a bad group", SET_MODE, {}, {**mode, "consumerGroup": "bad group!"})
