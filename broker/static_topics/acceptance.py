"""Decide which mappings a broker accepts. Pure. RocketMQ: TopicQueueMappingManager.updateTopicQueueMapping.

Different from RocketMQ
- A mapping that is refused changes nothing; RocketMQ has already changed the topic's number of queues by then.
- A stretch that was mapped before can't be changed, except for a logical offset that wasn't decided. RocketMQ checks
  this with Java assertions, which are off in production.
"""

from collections.abc import Sequence
from itertools import pairwise

from staticfire.broker.static_topics.mapping import is_decided, queues_needed
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.limits import QUEUES_OF_TOPIC_MAX
from staticfire.protocol.requests.static_topics import MappingDetail, MappingItem
from staticfire.protocol.requests.topics import TopicConfig

# How many stretches one logical queue may have: how often it can be mapped to another queue.
ITEMS_MAX = 1_000


def accepted(old: MappingDetail | None, new: MappingDetail, force: bool) -> MappingDetail:
    """Return the mapping of a broker after it received a new one. Raises: BrokerAnswer (it doesn't fit)."""
    for queue_id, items in sorted(new.hosted_queues.items()):
        _check_items(f"{new.topic}-{queue_id}", items)
    if old is None:
        return new
    hosted = dict(new.hosted_queues)
    if not force:
        _check_age(old, new)
    for queue_id, items in old.hosted_queues.items():
        if queue_id not in hosted:
            hosted[queue_id] = items
        elif not force:
            _check_kept(f"{new.topic}-{queue_id}", items, hosted[queue_id], old.epoch == new.epoch)
    return MappingDetail(
        new.topic, new.bname, new.total_queues, new.epoch, new.scope, new.dirty, hosted_queues=hosted
    )  # fmt: skip


def check_target(detail: MappingDetail, topic: str, broker_name: str, config: TopicConfig) -> None:
    """Refuse a mapping of another broker or topic, and one of queues that the topic doesn't have.

    Raises: BrokerAnswer.
    """
    if detail.bname != broker_name:
        raise _refused(f"the mapping of {topic} belongs to {detail.bname}, but this broker is {broker_name}")
    if detail.topic != topic:
        raise _refused(f"the topic of the request is {topic}, but the topic of the mapping is {detail.topic}")
    if detail.total_queues > QUEUES_OF_TOPIC_MAX:
        raise _refused(f"{topic} can't have {detail.total_queues} logical queues: the limit is {QUEUES_OF_TOPIC_MAX}")
    beyond = [queue_id for queue_id in detail.hosted_queues if not 0 <= queue_id < detail.total_queues]
    if beyond:
        raise _refused(f"{topic} has {detail.total_queues} logical queues, but {beyond[0]} isn't one of them")
    check_queues(detail, config)


def check_queues(detail: MappingDetail, config: TopicConfig) -> None:
    """Refuse a topic with fewer queues than its mapping needs. Raises: BrokerAnswer."""
    needed = queues_needed(detail)
    if min(config.read_queue_nums, config.write_queue_nums) < needed:
        words = (
            f"{config.topic_name} is a static topic, whose logical queues are mapped to {needed} queues of "
            f"{detail.bname}: it can't have {config.read_queue_nums} to read and {config.write_queue_nums} to write"
        )
        raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, words)


def _check_age(old: MappingDetail, new: MappingDetail) -> None:
    if new.epoch < old.epoch:
        words = f"the mapping of {new.topic} can't be replaced: epoch {new.epoch} is older than {old.epoch}"
        raise _refused(words)
    if new.scope != old.scope:
        raise _refused(f"the mapping of {new.topic} has scope {old.scope}, which can't become {new.scope}")
    missing = sorted(old.hosted_queues.keys() - new.hosted_queues.keys())
    if missing and new.epoch == old.epoch:
        words = f"logical queue {missing[0]} of {new.topic} can only leave the mapping with a newer epoch"
        raise _refused(words)


def _check_items(name: str, items: Sequence[MappingItem]) -> None:
    """Refuse items that are not valid for a logical queue. Raises: BrokerAnswer."""
    if not items:
        raise _refused(f"{name} is mapped to nothing")
    if len(items) > ITEMS_MAX:
        raise _refused(f"{name} is mapped to {len(items)} successive queues: the limit is {ITEMS_MAX}")
    for item in items:
        if min(item.start_offset, item.gen, item.queue_id) < 0:
            raise _refused(f"{name}: gen, queueId and startOffset can't be below 0: {item}")
        if item.end_offset != -1 and item.end_offset < item.start_offset:
            raise _refused(f"{name}: a stretch can't end at {item.end_offset}, before its start: {item}")
    for earlier, later in pairwise(items):
        if later.gen <= earlier.gen:
            raise _refused(f"{name}: gen {later.gen} comes after gen {earlier.gen} and must be larger")
        if not is_decided(earlier):
            raise _refused(f"{name}: gen {earlier.gen} has no logicOffset; only the last one may omit it")
        end = earlier.logic_offset + max(0, earlier.end_offset - earlier.start_offset)
        if is_decided(later) and later.logic_offset <= end:
            raise _refused(f"{name}: gen {later.gen} begins at {later.logic_offset}, which is not after {end}")


def _check_kept(name: str, old: Sequence[MappingItem], new: Sequence[MappingItem], same_epoch: bool) -> None:
    """Refuse a mapping that changes a stretch of the last mapping. Raises: BrokerAnswer."""
    known = {item.gen: item for item in new}
    for item in old:
        other = known.get(item.gen)
        if other is not None and not _agrees(item, other):
            raise _refused(f"{name}: what gen {item.gen} is mapped to can't be changed, from {item} to {other}")
    if same_epoch and new[-1].gen != old[-1].gen:
        words = f"{name} can only be mapped to gen {new[-1].gen} instead of {old[-1].gen} with a newer epoch"
        raise _refused(words)


def _agrees(old: MappingItem, new: MappingItem) -> bool:
    place = (old.bname, old.queue_id, old.start_offset)
    if place != (new.bname, new.queue_id, new.start_offset):
        return False
    return not is_decided(old) or old.logic_offset == new.logic_offset


def _refused(words: str) -> BrokerAnswer:
    return BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
