"""Translate a pull of a logical queue into a pull of one stretch, and the response back. Pure.

RocketMQ: PullMessageProcessor.rewriteResponseForStaticTopic.

Behaviour
- A pull doesn't wait at the end of a stretch that gets no more messages: the reader continues with the next stretch
  (PULL_RETRY_IMMEDIATELY), or finds nothing while the offset of that one isn't decided.
- If messages of the oldest stretch were removed, the reader is moved to the first remaining one (PULL_OFFSET_MOVED); in
  a later stretch it continues there at once (PULL_RETRY_IMMEDIATELY).
- Records are sent as they are stored. The reader adds `offsetDelta` to their offsets.

Different from RocketMQ
- A pull after the end of the last stretch is moved back to the end. RocketMQ does this only if there was an earlier
  stretch; else the pull finds nothing.
"""

from collections.abc import Sequence

import msgspec

from staticfire.broker.static_topics.mapping import decided, delta, following, holding, logical, physical
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.requests.pull import FLAG_COMMIT_OFFSET, FLAG_SUSPEND, PullAnswer, PullMessage
from staticfire.protocol.requests.static_topics import MappingItem

_FOUND = int(ResponseCode.SUCCESS)
_NOT_FOUND = int(ResponseCode.PULL_NOT_FOUND)
_RETRY = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
_MOVED = int(ResponseCode.PULL_OFFSET_MOVED)
_TRANSLATED = (_FOUND, _NOT_FOUND, _RETRY, _MOVED)


class Stretch(msgspec.Struct, gc=False):
    """The stretch that a pull reads: one item of a logical queue."""

    items: Sequence[MappingItem]
    """All items of the logical queue, decided or not, oldest first."""
    item: MappingItem
    offset: int
    """The physical offset of the pull."""

    @property
    def is_last(self) -> bool:
        """Whether new messages are stored in this stretch."""
        return self.item.gen == self.items[-1].gen

    @property
    def is_first(self) -> bool:
        return self.item.gen == self.items[0].gen


def stretch_of(items: Sequence[MappingItem], offset: int) -> Stretch:
    """Return the stretch of a logical offset. At least one of the items must be decided."""
    item = holding(decided(items), offset)
    return Stretch(items, item, physical(item, offset))


def physical_pull(request: PullMessage, stretch: Stretch) -> PullMessage:
    """Return the pull of a stretch. Only in the last one it may wait. Leave out a commit offset of another stretch."""
    item, commit_offset, sys_flag = stretch.item, 0, request.sys_flag
    if not stretch.is_last:
        sys_flag &= ~FLAG_SUSPEND
    if sys_flag & FLAG_COMMIT_OFFSET:
        if holding(decided(stretch.items), request.commit_offset).gen == item.gen:
            commit_offset = physical(item, request.commit_offset)
        else:
            sys_flag &= ~FLAG_COMMIT_OFFSET
    return msgspec.structs.replace(
        request, queue_id=item.queue_id, queue_offset=stretch.offset, commit_offset=commit_offset, sys_flag=sys_flag,
        bname=item.bname, lo=False,
    )  # fmt: skip


def logical_answer(answer: PullAnswer, stretch: Stretch) -> PullAnswer:
    """Translate a response for the reader of the logical queue. The body doesn't change."""
    if answer.code not in _TRANSLATED:
        return answer
    item, code = stretch.item, answer.code
    next_offset, min_offset, max_offset = answer.next_begin_offset, answer.min_offset, answer.max_offset
    if code != _FOUND:
        next_item = following(stretch.items, item)
        if stretch.offset < min_offset:
            code, next_offset = _MOVED if stretch.is_first else _RETRY, min_offset
        elif stretch.offset >= max_offset and next_item is not None:
            item, code = next_item, _RETRY
            next_offset = min_offset = max_offset = next_item.start_offset
        elif stretch.offset >= max_offset and not stretch.is_last:
            code, next_offset = _NOT_FOUND, max_offset
    return msgspec.structs.replace(
        answer,
        next_begin_offset=logical(item, next_offset),
        min_offset=logical(item, min_offset),
        max_offset=max(logical(item, max_offset), stretch.items[-1].logic_offset),
        offset_delta=delta(item),
        code=code,
    )
