"""Offsets of logical queues. Pure. RocketMQ: LogicQueueMappingItem, TopicQueueMappingUtils.

A logical queue is a list of items, oldest first. An item with a decided logical offset covers the logical offsets from
there up to the offset of the next item. The last item may be undecided for a moment: its broker accepts messages
already, while the end of the item before is still being determined. They can't be read until it is decided.
"""

from collections.abc import Sequence

from staticfire.protocol.requests.static_topics import MappingDetail, MappingInfo, MappingItem

UNDECIDED = -1


def is_decided(item: MappingItem) -> bool:
    """Return whether the logical offset at which a stretch begins is decided."""
    return item.logic_offset >= 0


def decided(items: Sequence[MappingItem]) -> list[MappingItem]:
    """Return the stretches that can be read."""
    return [item for item in items if is_decided(item)]


def delta(item: MappingItem) -> int:
    """Return the difference between logical and physical offsets."""
    return item.logic_offset - item.start_offset


def logical(item: MappingItem, offset: int) -> int:
    """Return the logical offset of a physical one; -1 if it isn't decided yet."""
    if not is_decided(item):
        return UNDECIDED
    return item.logic_offset + max(0, offset - item.start_offset)


def physical(item: MappingItem, offset: int) -> int:
    """Return the physical offset of a logical one."""
    return offset - delta(item)


def holding(items: Sequence[MappingItem], offset: int) -> MappingItem:
    """Return the stretch of a logical offset, the first one for lower offsets. `items`: decided, at least one."""
    for item in reversed(items):
        if offset >= item.logic_offset:
            return item
    return items[0]


def following(items: Sequence[MappingItem], item: MappingItem) -> MappingItem | None:
    """Return the decided stretch after another; None after the last."""
    later = [other for other in items if other.gen > item.gen and is_decided(other)]
    return later[0] if later else None


def led_queues(detail: MappingDetail) -> dict[int, int]:
    """Return the logical queues that a broker leads, each with the id of the broker's own queue."""
    return {
        queue_id: items[-1].queue_id
        for queue_id, items in sorted(detail.hosted_queues.items())
        if items and items[-1].bname == detail.bname
    }


def info_of(detail: MappingDetail) -> MappingInfo:
    """Return the part of a mapping that nameservers receive."""
    return MappingInfo(
        detail.topic, detail.bname, detail.total_queues, detail.epoch, detail.scope, detail.dirty, led_queues(detail)
    )


def queues_needed(detail: MappingDetail) -> int:
    """Return how many queues of its own a broker must have for a mapping."""
    ids = [item.queue_id for items in detail.hosted_queues.values() for item in items if item.bname == detail.bname]
    return max(ids, default=-1) + 1
