"""The offsets of a group over HTTP.

Behaviour
- POST /groups/billing/offsets `{"topic": "orders", "to": "earliest"}` moves a group, online or not. "to" is earliest,
  latest, or a time: then the group continues with the messages stored since. The response has the offsets of each queue
  before and after.
- With `"preview": true` nothing is moved; the response is what would be moved.
- 404 for an unknown topic or group, 400 for unreadable values.
"""

from typing import Annotated, Any

import msgspec

from staticfire.client import Admin, MessageQueue
from staticfire.control.routes import ControlCall, Reply, Route, read_body
from staticfire.control.topic_facts import queue_of, topic_facts
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.durations import MOMENT_FORMS, parse_moment
from staticfire.protocol.errors import GroupNotFound

EARLIEST, LATEST = "earliest", "latest"
FORMS = 'write {"topic": "orders", "to": "earliest"}'
TO_LATEST_MS = -1

To = Annotated[str, msgspec.Meta(description=f"{EARLIEST}, {LATEST}, or a message time: {MOMENT_FORMS}")]


class OffsetReset(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a POST."""

    topic: str
    to: To
    preview: bool = False


async def reset(call: ControlCall) -> Reply:
    """Move a group's offsets, or show what would be moved."""
    wanted: OffsetReset = read_body(call.body, OffsetReset, FORMS)
    group, stored_ms = call.place["group"], _stored_ms(wanted.to)
    async with call.cluster.admin() as admin:
        if not await admin.has_group(group):
            raise GroupNotFound(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"no broker knows group {group}")
        rows = await _preview(admin, group, wanted, stored_ms)
        if not wanted.preview:
            moved = await admin.reset_offset_by_time(group, wanted.topic, stored_ms)
            for row in rows:
                row["after"] = moved.get(queue_of(wanted.topic, row), row["after"])
    skipped = sum(max(0, row["after"] - row["before"]) for row in rows)
    again = sum(max(0, row["before"] - row["after"]) for row in rows)
    shown = {"group": group, "topic": wanted.topic, "to": wanted.to, "moved": not wanted.preview}
    return Reply({**shown, "queues": rows, "skipped": skipped, "again": again})


def _stored_ms(to: str) -> int:
    if to == EARLIEST:
        return 0
    return TO_LATEST_MS if to == LATEST else parse_moment(to)


async def _preview(admin: Admin, group: str, wanted: OffsetReset, stored_ms: int) -> list[dict[str, Any]]:
    """Return the offset of each queue before and after. A queue without an offset counts from its first message."""
    facts = await topic_facts(admin, wanted.topic)
    rows = []
    for one in facts["queues"]:
        queue: MessageQueue = queue_of(wanted.topic, one)
        committed = await admin.offsets.committed(group, queue)
        if stored_ms == TO_LATEST_MS:
            after = one["end"]
        else:
            after = one["first"] if wanted.to == EARLIEST else await admin.search_offset(queue, stored_ms)
        before = one["first"] if committed is None else committed
        rows.append({"broker": one["broker"], "queue": one["queue"], "before": before, "after": after})
    return rows


ROUTES = (
    Route(
        "POST", "/groups/{group}/offsets",
        f'move a group in a topic: {FORMS.removeprefix("write ")}; "latest", or a time; "preview": true only shows it',
        reset, body=OffsetReset, refusals={404: "no broker knows the group, or the topic"},
    ),
)  # fmt: skip
