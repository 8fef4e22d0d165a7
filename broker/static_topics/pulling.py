"""What the answer to a pull of one stretch means in its logical queue. Pure.

RocketMQ: PullMessageProcessor.rewriteResponseForStaticTopic.

Behaviour
- A stretch that gets no more messages has an end that nobody waits at: the reader goes on with the next stretch
  (PULL_RETRY_IMMEDIATELY), or finds nothing while that one's offset isn't decided.
- Messages of the oldest stretch that were removed move the reader (PULL_OFFSET_MOVED); in a later one it goes on at
  once behind them.
- Records are sent as they are stored. The reader adds `offsetDelta` to their offsets.

Different from RocketMQ
- A pull behind the end of the last stretch is moved back to it. RocketMQ says so only if there was an earlier stretch;
  else it finds nothing.
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
    """Where a pull reads: one item of a logical queue."""

    items: Sequence[MappingItem]
    """All of them, decided or not, oldest first."""
    item: MappingItem
    offset: int
    """The physical offset that is pulled."""

    @property
    def is_last(self) -> bool:
        """Whether new messages go there."""
        return self.item.gen == self.items[-1].gen

    @property
    def is_first(self) -> bool:
        return self.item.gen == self.items[0].gen


def stretch_of(items: Sequence[MappingItem], offset: int) -> Stretch:
    """Return where the message of a logical offset is. One of the items is decided."""
    item = holding(decided(items), offset)
    return Stretch(items, item, physical(item, offset))


def physical_pull(request: PullMessage, stretch: Stretch) -> PullMessage:
    """Return the pull of a stretch. Only in the last one it may wait; an offset of another one can't ride along."""
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
    """Return the answer as the reader of the logical queue has to get it. It has the same body."""
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
