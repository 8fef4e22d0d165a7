"""Gathers traces and sends them as messages, in the background. RocketMQ: AsyncTraceDispatcher.

A trace never delays the traced operation. Up to QUEUE_MAX traces wait; if there are more, they are dropped and counted.
They are sent when there are enough, or after FLUSH_MS: one message per traced topic, with the ids of the traced
messages as its keys; more if the text or the ids are too long. If a message can't be sent, its traces are dropped, and
this is logged.
"""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import accumulate

import msgspec

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.settings import ProducerSettings
from staticfire.client.cluster.wakeup import Wakeup
from staticfire.client.produce.sender import Sender
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.messages import Message
from staticfire.protocol.trace import TEXT_CHARS_MAX, Trace, encode_trace
from staticfire.runtime.log import logger
from staticfire.runtime.service import Spawn

log = logger("client")

NULL = "null"
"""RocketMQ writes this for a missing value."""
QUEUE_MAX = 2_048
BATCH_MAX = 10
FLUSH_MS = 5_000
# A message with more than 32,767 bytes of properties is refused, and the ids are only one of its properties.
IDS_BYTES_MAX = 30_000
SEND_TIMEOUT_MS = 5_000


class Traced(msgspec.Struct, frozen=True, gc=False):
    """One trace, and the keys to find it by."""

    topic: str
    ids: tuple[str, ...]
    trace: Trace


class TraceWriter:
    """Writes the traces of one producer or consumer."""

    def __init__(self, client: ClusterClient, owner: str, topic: str) -> None:
        """`owner`: the name used for sending, `<group>-PRODUCE` or `<group>-CONSUME`."""
        self._client = client
        self.topic = topic
        self._group = f"_INNER_TRACE_PRODUCER-{owner}"
        self._settings = ProducerSettings(client=client.settings, send_msg_timeout_ms=SEND_TIMEOUT_MS)
        self._sender: Sender | None = None
        self._waiting: list[Traced] = []
        self._left_out = 0
        self._enough = Wakeup()
        self._task: asyncio.Task[None] | None = None
        self._is_ending = False

    def start(self, spawn: Spawn) -> None:
        """Start to send."""
        self._sender = Sender(self._group, self._client, self._settings)
        self._task = spawn(self._loop(), "traces")

    def write(self, traced: Traced) -> None:
        """Accept a trace; it is sent soon."""
        if len(self._waiting) >= QUEUE_MAX:
            self._left_out += 1
            if self._left_out == 1:
                log.warning(
                    "traces_left_out", group=self._group, reason="they are created faster than they can be sent"
                )
            return
        self._waiting.append(traced)
        if len(self._waiting) >= BATCH_MAX:
            self._enough.wake()

    async def close(self) -> None:
        """Send the waiting traces, and end."""
        self._is_ending = True
        self._enough.wake()
        if self._task is not None:
            # A cancelled loop would lose the traces that it is sending.
            await asyncio.wait([self._task])
        await self._flush()
        self.detach()

    def detach(self) -> None:
        """Write nothing more; traces that wait are lost."""
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()

    async def _loop(self) -> None:
        while not self._is_ending:
            await self._enough.wait(FLUSH_MS)
            await self._flush()

    async def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        sender = self._sender
        if not waiting or sender is None:
            return
        try:
            await sender.queues(self.topic)
        except StaticfireError as error:
            self._failed(len(waiting), error)
            return
        await asyncio.gather(*[self._send(sender, *one) for one in messages_of(waiting, self.topic)])

    async def _send(self, sender: Sender, message: Message, count: int) -> None:
        """Send one message. If it fails, only its own traces are lost."""
        try:
            await sender.post(message)
        except StaticfireError as error:
            self._failed(count, error)

    def _failed(self, count: int, error: StaticfireError) -> None:
        log.warning("traces_not_sent", group=self._group, count=count, reason=str(error))


def messages_of(traces: Sequence[Traced], topic: str) -> Iterable[tuple[Message, int]]:
    """Yield the messages that contain traces, and how many: one per traced topic, more if they would be too long."""
    by_topic: dict[str, list[Traced]] = {}
    for traced in traces:
        by_topic.setdefault(traced.topic, []).append(traced)
    for of_topic in by_topic.values():
        texts: list[str] = []
        ids: dict[str, int] = {}
        chars = ids_bytes = 0
        for traced in of_topic:
            text, new = encode_trace(traced.trace), _ids_of(traced)
            size = sum(new[key] for key in new if key not in ids)
            if texts and (chars + len(text) >= TEXT_CHARS_MAX or ids_bytes + size > IDS_BYTES_MAX):
                yield _message(topic, texts, ids), len(texts)
                texts, ids, chars, ids_bytes = [], {}, 0, 0
                size = sum(new.values())
            texts.append(text)
            ids |= new
            chars += len(text)
            ids_bytes += size
        yield _message(topic, texts, ids), len(texts)


def _ids_of(traced: Traced) -> dict[str, int]:
    """Return the ids and keys of a trace with their sizes in bytes; if there are too many, the first ones."""
    sizes = {key: len(key.encode(errors="replace")) + 1 for each in traced.ids for key in each.split()}
    ends = accumulate(sizes.values())
    return {key: size for (key, size), end in zip(sizes.items(), ends, strict=True) if end <= IDS_BYTES_MAX}


def _message(topic: str, texts: list[str], ids: Iterable[str]) -> Message:
    return Message(topic, "".join(texts).encode(), keys=tuple(ids))
