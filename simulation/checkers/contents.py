"""What a message is besides its place: its body, topic, tag, id, and the time at which it was born."""

from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC
from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    BroadcastReceived,
    CallBegan,
    Content,
    MessageFound,
    RunEvent,
    SendAcknowledged,
    SendBegan,
    SendFailed,
)
from staticfire.simulation.workload.description import Workload


class ContentsKept(Checker):
    """A message has the content that its producer gave it: in a listener, in its queue, as a retry, as a dead letter.

    It was born while it was sent. A retry or a dead letter that a member sends itself, because no broker takes the
    message back, is born then, as in RocketMQ's client.
    """

    promise = "a message is delivered and stored with the body, topic, tag, id and born time of its send"
    hears = (SendBegan, SendAcknowledged, SendFailed, CallBegan, BroadcastReceived, MessageFound)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._began: dict[str, SendBegan] = {}
        self._ended_ms: dict[str, int] = {}
        self._ids: dict[str, str] = {}

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(name=name):
                self._began[name] = event
            case SendAcknowledged(at_ms=at_ms, name=name, message_id=message_id):
                self._ended_ms[name] = at_ms
                if message_id:
                    self._check_id(at_ms, name, message_id, "its producer")
            case SendFailed(at_ms=at_ms, name=name):
                self._ended_ms[name] = at_ms
            case CallBegan(at_ms=at_ms) | BroadcastReceived(at_ms=at_ms):
                for seen in event.messages:
                    self._check(at_ms, seen.name, seen.content, seen.is_retry, event.group)
            case MessageFound(at_ms=at_ms, name=name, place=place, content=content):
                is_copy = place[1].startswith("%") or place[1] == CHECK_MAX_TIME_TOPIC
                if content is not None and is_copy:
                    content = content._replace(topic="")
                self._check(at_ms, name, content, is_copy, f"the queue {place}")
            case _:
                pass

    def _check(self, at_ms: int, name: str, content: Content | None, is_copy: bool, where: str) -> None:
        began = self._began.get(name)
        if began is None or content is None:
            return
        if content.topic not in ("", began.topic):
            self.broken(at_ms, f"{where} has {name} with topic {content.topic}, and it was sent to {began.topic}")
        if content.tag != began.tag:
            self.broken(at_ms, f"{where} has {name} with tag {content.tag!r}, and it was sent with {began.tag!r}")
        if began.body_crc >= 0 and content.body_crc != began.body_crc:
            self.broken(at_ms, f"{where} has {name} with another body than it was sent with")
        latest_ms = at_ms if is_copy else self._ended_ms.get(name, at_ms)
        if not began.at_ms <= content.born_ms <= latest_ms:
            words = f"{where} has {name} with born time {content.born_ms} ms"
            self.broken(at_ms, f"{words}, and it was sent between {began.at_ms} and {latest_ms} ms")
        self._check_id(at_ms, name, content.message_id, where)

    def _check_id(self, at_ms: int, name: str, message_id: str, where: str) -> None:
        first = self._ids.setdefault(name, message_id)
        if message_id != first:
            self.broken(at_ms, f"{where} has {name} with id {message_id}, and it had {first} before")
