"""Gathers traces and sends them as messages, in the background. RocketMQ: AsyncTraceDispatcher.

A trace never delays the traced operation. Up to QUEUE_MAX traces wait; if there are more, they are dropped and counted.
They are sent when there are enough, or after FLUSH_MS: one message per traced topic, with the ids of the traced
messages as its keys. If that fails, they are dropped, and this is logged.
"""

import asyncio
from collections.abc import Iterable, Sequence

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
        messages = list(messages_of(waiting, self.topic))
        try:
            await sender.queues(self.topic)
            await asyncio.gather(*[sender.post(message) for message in messages])
        except StaticfireError as error:
            log.warning("traces_not_sent", group=self._group, count=len(waiting), reason=str(error))


def messages_of(traces: Sequence[Traced], topic: str) -> Iterable[Message]:
    """Yield the messages that contain traces: one per traced topic, more if the text is too long."""
    by_topic: dict[str, list[Traced]] = {}
    for traced in traces:
        by_topic.setdefault(traced.topic, []).append(traced)
    for of_topic in by_topic.values():
        texts: list[str] = []
        ids: dict[str, None] = {}
        chars = 0
        for traced in of_topic:
            text = encode_trace(traced.trace)
            if texts and chars + len(text) >= TEXT_CHARS_MAX:
                yield _message(topic, texts, ids)
                texts, ids, chars = [], {}, 0
            texts.append(text)
            ids |= dict.fromkeys(key for each in traced.ids for key in each.split())
            chars += len(text)
        yield _message(topic, texts, ids)


def _message(topic: str, texts: list[str], ids: dict[str, None]) -> Message:
    return Message(topic, "".join(texts).encode(), keys=tuple(ids))
