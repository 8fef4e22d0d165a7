"""A consumer that pops with single requests, in a simulated world."""

from typing import Any

from staticfire.protocol.pop_handles import PopHandle, format_handle, parse_message_offsets, parse_start_offsets
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.offsets import QueryConsumerOffset
from staticfire.protocol.requests.pop import AckMessage, ChangeInvisibleTime, PopMessage
from tests.scenarios.broker_stand import NAME, BrokerStand, text

INVISIBLE_MS = 10_000


class Popper:
    """Pops from one topic for one group."""

    def __init__(self, stand: BrokerStand, group: str = "billing", topic: str = "orders") -> None:
        self.stand = stand
        self.group = group
        self.topic = topic

    async def pop(self, queue_id: int = 0, count: int = 32, invisible_ms: int = INVISIBLE_MS, **fields: Any) -> Any:
        """Pop. `poll_time` and other fields are sent unchanged."""
        fields = {"poll_time": 0, "born_time": 0, "init_mode": 0} | fields
        request = PopMessage(
            self.group, fields.pop("topic", self.topic), queue_id, count, invisible_ms, fields.pop("poll_time"),
            fields.pop("born_time"), fields.pop("init_mode"), **fields,
        )  # fmt: skip
        return await self.stand.ask(request)

    async def bodies(self, **fields: Any) -> list[bytes]:
        """Pop; return the bodies of the messages."""
        answer = await self.pop(**fields)
        return [] if answer.body is None else [record.body for record in answer.body.records]

    async def ack(self, offset: int, handle: str, queue_id: int = 0, topic: str | None = None) -> Any:
        return await self.stand.ask(AckMessage(self.group, topic or self.topic, queue_id, handle, offset))

    async def change(
        self, offset: int, handle: str, invisible_ms: int, queue_id: int = 0, topic: str | None = None
    ) -> Any:
        request = ChangeInvisibleTime(self.group, topic or self.topic, queue_id, handle, offset, invisible_ms)
        return await self.stand.ask(request)

    async def ack_all(self, answer: Any) -> None:
        """Acknowledge all messages of a pop."""
        for record, handle in zip(answer.body.records, handles(answer), strict=True):
            topic = self.topic if text(record, "POP_CK") is None else f"%RETRY%{self.group}_{self.topic}"
            assert (await self.ack(record.queue_offset, handle, record.queue_id, topic)).code == 0

    async def committed(self, queue_id: int = 0, topic: str | None = None) -> int:
        answer = await self.stand.ask(QueryConsumerOffset(self.group, topic or self.topic, queue_id))
        return answer.offset if answer.code == 0 else -1


def handles(answer: Any) -> list[str]:
    """Return the handles of a pop's messages, computed as a client does."""
    starts, taken = parse_start_offsets(answer.start_offset_info), parse_message_offsets(answer.msg_offset_info)
    found = []
    for record in answer.body.records:
        handle = text(record, "POP_CK")
        if handle is None:
            key = (0, record.queue_id)
            assert record.queue_offset in taken[key]
            handle = format_handle(
                PopHandle(
                    starts[key], answer.pop_time, answer.invisible_time, answer.revive_qid, 0, NAME, record.queue_id,
                    record.queue_offset,
                )
            )  # fmt: skip
        found.append(handle)
    return found


def offsets(answer: Any) -> list[int]:
    records: list[StoredRecord] = [] if answer.body is None else answer.body.records
    return [record.queue_offset for record in records]
