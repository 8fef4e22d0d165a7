"""Rules about queues: locks, offsets that can't be, the message that holds one up, where a new group began. Pure."""

from collections.abc import Iterable, Iterator

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.explain.facts import GroupFacts, QueueFacts
from staticfire.client.explain.findings import ExplainFinding, ago, count, named, some
from staticfire.protocol.durations import format_duration

STUCK_MS = 5_000
# So long a listener may take before a message is said to hold its queue up.


def stuck(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Messages whose listener doesn't end: the offset stays where they are. One finding for each member."""
    by_member: dict[str, list[tuple[int, QueueFacts]]] = {}
    for queue in facts.queues():
        held_ms = _held_ms(facts, queue)
        if held_ms is not None and held_ms >= STUCK_MS and queue.owners:
            by_member.setdefault(_holder(queue), []).append((held_ms, queue))
    for client, held in by_member.items():
        held.sort(key=lambda one: -one[0])
        held_ms, queue = held[0]
        words = f"the listener of {client} has had {_name_of(queue)} for {format_duration(held_ms // 1_000 * 1_000)}: "
        words += f"{queue.place} stands at offset {queue.consumed:,}, {count(queue.lag, 'message')} behind"
        evidence = [f"{queue.place}: {queue.cached:,} messages are at the member and not done" for _, queue in held]
        way_out = "look what that listener waits for (a lock, a call without a timeout); its messages come again when "
        way_out += "the member ends, or after its consume timeout"
        yield ExplainFinding("STUCK_MESSAGE", words, some(evidence), way_out)


def _holder(queue: QueueFacts) -> str:
    """Return which member has the next message of a queue."""
    return queue.delivered.client if queue.delivered is not None and queue.delivered.client else queue.owners[0]


def _held_ms(facts: GroupFacts, queue: QueueFacts) -> int | None:
    """Return how long the next message has been at a member; None: it isn't, or nobody knows since when."""
    if not queue.lag or not queue.cached or queue.delivered is None:
        return None
    return facts.wall_ms - queue.delivered.real_ms


def _name_of(queue: QueueFacts) -> str:
    message = queue.next_message
    if message is None:
        return f"the message at offset {queue.consumed:,}"
    keys = f" ({' '.join(message.keys)})" if message.keys else ""
    return f"message {message.message_id}{keys}"


def under_way(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Messages that are being consumed right now."""
    lines = [
        f"{queue.place}: {queue.cached:,} at {queue.owners[0]}, of {queue.lag:,}"
        for queue in facts.queues()
        if queue.lag and queue.cached and queue.owners and (_held_ms(facts, queue) or 0) < STUCK_MS
    ]
    if lines:
        yield ExplainFinding("UNDER_WAY", "messages are being consumed right now", some(lines), "", is_cause=False)


def locked(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Queues that somebody else has locked than who should consume them in order."""
    for name, state in facts.states.items():
        for lock in state.locks:
            queue = _find(facts, MessageQueue(lock.topic, name, lock.queue_id))
            owners = queue.owners if queue is not None else []
            wanting = [client for client in (*lock.waiting, *owners) if client != lock.client_id]
            if not wanting:
                continue
            is_here = any(member.client_id == lock.client_id for member in facts.members)
            words = f"{lock.topic} {name}/{lock.queue_id} is locked by {lock.client_id}, and {wanting[0]} waits for it"
            evidence = [f"the lock was renewed {ago(lock.age_ms)}; it ends 60 s after its last renewal"]
            if not is_here:
                evidence.append(f"{lock.client_id} is no member any more: it ended without giving its locks back")
            yield ExplainFinding("LOCKED", words, evidence, "wait for it to expire, or end its holder in order")


def _find(facts: GroupFacts, queue: MessageQueue) -> QueueFacts | None:
    return next((one for one in facts.queues() if one.queue == queue), None)


def illegal_offsets(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Offsets beyond the end of a queue, or before what is still stored."""
    for queue in facts.queues():
        if queue.committed > queue.end:
            words = f"{queue.place}: {facts.group} is at {queue.committed:,}, beyond the end at {queue.end:,}"
            words += ": the broker has lost messages, or was emptied, or an offset was set by hand"
            yield ExplainFinding("OFFSET_BEYOND_END", words, [], _reset(facts, queue))
        elif 0 <= queue.committed < queue.first:
            words = f"{queue.place}: {facts.group} is at {queue.committed:,}, and the oldest stored message is "
            words += f"{queue.first:,}: {count(queue.first - queue.committed, 'message')} went by age before it came"
            way_out = "longer fileReservedTime, or a faster consumer; it goes on at the oldest by itself"
            yield ExplainFinding("OFFSET_BELOW_BEGIN", words, [], way_out, is_cause=False)


def _reset(facts: GroupFacts, queue: QueueFacts) -> str:
    return f"staticfire mqadmin resetOffsetByTime -g {facts.group} -t {queue.queue.topic} -s 0"


def began_at_the_end(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """New groups that begin behind what was sent before them."""
    if facts.view.consume_from_where != "CONSUME_FROM_LAST_OFFSET" or not facts.has_journal or facts.delivered:
        return
    for topic in facts.topics.values():
        if topic.name not in facts.subscribed():
            continue
        ended = [queue for queue in topic.queues if queue.consumed >= queue.end > queue.first]
        skipped = sum(queue.consumed - queue.first for queue in ended)
        if skipped > 0 and not any(queue.lag for queue in topic.queues):
            words = f"{facts.group} is new and began behind the {count(skipped, 'message')} that {topic.name} had: "
            words += "CONSUME_FROM_LAST_OFFSET, which is the default"
            way_out = "let it consume from the first offset before its first start, or now: "
            way_out += f"staticfire mqadmin resetOffsetByTime -g {facts.group} -t {topic.name} -s 0"
            yield ExplainFinding("BEGAN_AT_THE_END", words, [], way_out)


def retries_behind(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Messages that came back, are due, and aren't consumed."""
    behind = [queue for queue in facts.retries if queue.lag]
    if behind and facts.members:
        topics = named(sorted({queue.queue.topic for queue in behind}))
        words = f"{count(sum(queue.lag for queue in behind), 'message')} of {topics} came back and are due"
        lines = some(_lines(behind))
        yield ExplainFinding("RETRIES_DUE", words, lines, "they are consumed as others are", is_cause=False)


def _lines(queues: Iterable[QueueFacts]) -> Iterator[str]:
    return (f"{queue.place}: {queue.lag:,}" for queue in queues)
