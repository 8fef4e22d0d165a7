"""A broker with the compiled twin of sends and one without, which are given the same bytes and have to end the same."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from staticfire.broker.handlers import send
from staticfire.broker.sends.new_topics import NewTopics
from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.codecs import JSON, NATIVE, codec_for
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.frame_reader import FrameReader
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.message_ids import offset_id_prefix
from staticfire.protocol.requests.send import ManyMessage, SendMany, SendMessage, SendMessageV2
from staticfire.protocol.requests.topics import TopicConfig
from staticfire.protocol.times import MessageMs, UptimeMs
from staticfire.runtime.dispatcher import Call, failure
from staticfire.runtime.live import live_machine

TOPICS = {"orders": "SINGLE_TAG", "größer": "SINGLE_TAG", "many": "MULTI_TAG", "x" * 127: "SINGLE_TAG"}
RETRY_TOPIC = "%RETRY%billing"
"""Known, too: to create it, its broker would have to run."""
IPV4 = pack_host("10.0.0.2", 10911), pack_host("10.0.0.9", 4711)
IPV6 = pack_host("fd00::2", 10911), pack_host("fd00::9", 4711)
SEGMENT_BYTES = 16 * 1024
BODY_BYTES_MAX = 4_000
USUAL_SETTINGS: dict[str, Any] = {
    "mapped_file_size_commit_log": SEGMENT_BYTES, "max_message_size": BODY_BYTES_MAX, "auto_create_topic_enable": False,
}  # fmt: skip
UNIQUE_ID = "7F0000010539736EDB5F1234ABCD0007"
PLAIN = f"KEYS\x01order-1\x02UNIQ_KEY\x01{UNIQUE_ID}\x02WAIT\x01true\x02TAGS\x01paid\x02"
ALL = 1 << 62


class StillClock:
    """The same time for all."""

    def uptime_ms(self) -> UptimeMs:
        return UptimeMs(1_000)

    def uptime_ns(self) -> int:
        return 1_000_000_000

    def wall_ms(self) -> MessageMs:
        return MessageMs(1_700_000_000_000)


class Side:
    """A broker of which only the store was opened, and a connection to it without a socket."""

    def __init__(self, folder: Path, hosts: tuple[bytes, bytes] = IPV4, **settings: Any) -> None:
        machine = live_machine()
        identity = machine.identity._replace(pid=1, host_ip="10.0.0.2", random=random.Random(1))
        broker = Broker(
            machine._replace(clock=StillClock(), identity=identity),
            BrokerSettings(store_path_root_dir=str(folder), **USUAL_SETTINGS | settings),
        )
        self.broker = broker
        self.state, self.tables = broker.state, broker.tables
        self.state.store.open()
        for name, kind in TOPICS.items():
            self.tables.topics.topics[name] = TopicConfig(name, 4, 4, topic_filter_type=kind)
        self.tables.topics.topics[RETRY_TOPIC] = TopicConfig(RETRY_TOPIC, 1, 1)
        self.store_host, self.born_host = hosts
        self.store_id_prefix = offset_id_prefix(self.store_host)
        self.out: list[bytes] = []
        self.reader = FrameReader(broker.dispatcher.routes, Call, self, lambda _: None)
        self.peer = self.reader.peer

    def outgoing(self) -> list[bytes] | None:
        return self.out

    def send_answer(self, call: Call, answer: Answer) -> None:
        if self.outgoing() is not None:  # A test may replace it.
            call.codec.write_answer(self.out, answer, call.opaque, self.store_host)

    def take(self, read: bytes, bytes_wanted: int = ALL) -> str:
        """Handle what a socket brought as a connection does, and settle; return why it would close."""
        error = ""
        if not self.reader.receive(read):
            return error
        try:
            while (calls := self.reader.calls(bytes_wanted)) is not None:
                for handler, call in calls:
                    answer = self._answer(handler, call)
                    if answer is not None and not call.oneway:
                        self.send_answer(call, answer)
        except ProtocolError as caught:
            error = str(caught)
            self.reader.clear()
        self.commit()
        return error

    def _answer(self, handler: Callable[[Call], Answer | None], call: Call) -> Answer | None:
        """Handle a request. No event loop runs that could announce a topic, which a damaged name of a group creates."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(NewTopics, "add", lambda *_: None)
            try:
                return handler(call)
            except Exception as caught:  # noqa: BLE001 (as a connection does)
                return failure(caught, call)

    def commit(self) -> None:
        """Write the burst, as `BrokerCore.settle` does."""
        self.broker.transactions.flush()
        self.state.store.commit()

    def answers(self) -> list[bytes]:
        """Return the answers since somebody last asked, by their bytes: their order may differ."""
        data, frames, at = b"".join(self.out), [], 0
        while at < len(data):
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            frames.append(data[at:end])
            at = end
        self.out.clear()
        return sorted(frames)

    def stored(self, log_from: int) -> tuple[bytes, dict[tuple[str, int], tuple[int, bytes]]]:
        """Return the log from a position on, and of each queue its next offset and the entries in memory."""
        store = self.state.store
        queues = {
            (name, queue_id): (queue.next_offset, bytes(queue.tail))
            for name in store.topics()
            for queue_id in store.queue_ids(name)
            for queue in [store.queue(name, queue_id)]
        }
        return self._log(log_from), queues

    def _log(self, position: int) -> bytes:
        log, pieces = self.state.store.log, []
        while position < log.end_position:
            segment = log.segments.at(position)
            assert segment is not None
            size = min(segment.end, log.end_position) - position
            pieces.append(log.read_unmapped(position, size))
            position += size
        return b"".join(pieces)


class Both:
    """The same twice: with the twin, and without."""

    def __init__(self, folder: Path, hosts: tuple[bytes, bytes] = IPV4, **settings: Any) -> None:
        self.quick = Side(folder / "side-1", hosts, **settings)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(send, "twin", None)
            self.slow = Side(folder / "side-2", hosts, **settings)
        for codec in (NATIVE, JSON):  # So that topics are looked at, and what the peer speaks is known.
            for topic in TOPICS:
                for queue_id in range(2):
                    request = sent(topic=topic, queue_id=queue_id)
                    self.take(codec_for(codec).encode_request(request, 1, False))

    def take(self, read: bytes, bytes_wanted: int = ALL) -> list[bytes]:
        """Have both take it, and compare; return the answers."""
        position = self.slow.state.store.max_position
        assert self.quick.take(read, bytes_wanted) == self.slow.take(read, bytes_wanted)
        answers = self.slow.answers()
        assert [answer.replace(b"side-1", b"side-2") for answer in self.quick.answers()] == answers
        assert self.quick.reader.unread_bytes == self.slow.reader.unread_bytes
        assert self.quick.stored(position) == self.slow.stored(position)
        return answers

    def calls_of(self, read: bytes) -> int:
        """Return how many calls the quick one makes of a read; nothing is handled."""
        self.quick.reader.receive(read)
        calls = self.quick.reader.calls(ALL)
        self.quick.commit()
        assert calls is not None
        return len(calls)


def sent(kind: type[SendMessage] = SendMessageV2, **fields: Any) -> SendMessage:
    """Return a plain send, with these fields changed."""
    usual: dict[str, Any] = {
        "producer_group": "shop", "topic": "orders", "default_topic": "TBW102", "default_topic_queue_nums": 4,
        "queue_id": 1, "sys_flag": 0, "born_timestamp": 1_700_000_000_123, "flag": 0, "properties": PLAIN,
        "reconsume_times": 0, "unit_mode": False, "batch": False, "bname": "broker-a", "body": b"hello",
    }  # fmt: skip
    return kind(**usual | fields)


def many(*messages: ManyMessage) -> SendMany:
    return SendMany("shop", "TBW102", 4, body=list(messages))


def one_of_many(**fields: Any) -> ManyMessage:
    usual: dict[str, Any] = {"topic": "orders", "queue_id": 2, "properties": PLAIN.encode(), "body": b"hello"}
    return ManyMessage(**usual | fields)
