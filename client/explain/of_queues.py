"""Rules about queues: locks, messages that block a queue, retries. Pure.

Each rule is a function of the facts that yields its findings. explanation.py has the order of all rules.
"""

from collections.abc import Iterable, Iterator

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.explain.facts import GroupFacts, QueueFacts
from staticfire.client.explain.findings import ExplainFinding, ago, count, named, some
from staticfire.protocol.durations import format_duration

# How long a listener may take before its message counts as blocking the queue.
STUCK_MS = 5_000
# How long a lite pull consumer that doesn't report its polls may leave a message uncommitted.
UNCOMMITTED_MS = 30_000


def stuck(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Messages whose listener doesn't end: the offset doesn't move. One finding for each member."""
    by_member: dict[str, list[tuple[int, QueueFacts]]] = {}
    for queue in facts.queues():
        held_ms = _held_ms(facts, queue)
        if held_ms is not None and _is_stuck(facts, queue) and not polls(facts, queue):
            by_member.setdefault(_holder(queue), []).append((held_ms, queue))
    for client, held in by_member.items():
        held.sort(key=lambda one: -one[0])
        held_ms, queue = held[0]
        words = f"the listener of {client} has had {_name_of(queue)} for {format_duration(held_ms // 1_000 * 1_000)}: "
        words += f"{queue.place} stays at offset {queue.consumed:,}, {count(queue.backlog, 'message')} behind"
        evidence = [f"{queue.place}: {queue.cached:,} messages are at the member and not done" for _, queue in held]
        way_out = "check what that listener waits for (a lock, a call without a timeout); its messages are redelivered "
        way_out += "when the member ends, or after its consume timeout"
        yield ExplainFinding("STUCK_MESSAGE", words, some(evidence), way_out)


def _is_stuck(facts: GroupFacts, queue: QueueFacts) -> bool:
    """Whether the next message of a queue has been at a member for long, and the queue isn't suspended."""
    held_ms = _held_ms(facts, queue)
    return held_ms is not None and held_ms >= STUCK_MS and bool(queue.owners) and not is_suspended(facts, queue)


def polls(facts: GroupFacts, queue: QueueFacts) -> bool:
    """Whether the member that has a queue is a lite pull consumer, which has no listener."""
    member = facts.member(_holder(queue)) if queue.owners else None
    return member is not None and member.polls


def suspended(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Ordered queues whose next message fails again and again: those after it wait."""
    for queue in facts.queues():
        if is_suspended(facts, queue):
            words = f"the ordered listener of {queue.owners[0]} fails repeatedly with {_name_of(queue)} (it "
            words += f"returns SUSPEND_CURRENT_QUEUE_A_MOMENT, or raises): {queue.place} waits at offset "
            words += f"{queue.consumed:,}, {count(queue.backlog, 'message')} behind"
            evidence = [f"{queue.place}: {queue.cached:,} messages are at the member and not done"]
            way_out = "check its log for the reason; in order, the messages after a failed one wait for it: to skip it "
            way_out += "after some tries, set maxReconsumeTimes (max_reconsume_times) of the consumer"
            yield ExplainFinding("SUSPENDED_QUEUE", words, evidence, way_out)


def is_suspended(facts: GroupFacts, queue: QueueFacts) -> bool:
    """Whether an ordered queue waits for a message that fails, as far as its owner's counters show.

    The counters are per topic. How long the next message of each queue has been at a member is known only with a
    journal.
    """
    member = facts.member(queue.owners[0]) if queue.owners else None
    speed = member.consumption.get(queue.queue.topic) if member is not None else None
    if member is None or speed is None or not member.in_order or not queue.backlog or not queue.cached:
        return False
    held_ms = _held_ms(facts, queue)
    is_waiting = speed.consume_ok_tps == 0 if held_ms is None else held_ms >= STUCK_MS
    return speed.consume_failed_tps > 0 and is_waiting


def _holder(queue: QueueFacts) -> str:
    """Return the member that has the next message of a queue."""
    return queue.delivered.client if queue.delivered is not None and queue.delivered.client else queue.owners[0]


def _held_ms(facts: GroupFacts, queue: QueueFacts) -> int | None:
    """Return how long the next message has been at a member; None if it isn't at one, or if that is unknown."""
    if not queue.backlog or not queue.cached or queue.delivered is None:
        return None
    return facts.wall_ms - queue.delivered.real_ms


def _name_of(queue: QueueFacts) -> str:
    message = queue.next_message
    if message is None:
        return f"the message at offset {queue.consumed:,}"
    keys = f" ({' '.join(message.keys)})" if message.keys else ""
    return f"message {message.message_id}{keys}"


def is_held_up(facts: GroupFacts, queue: QueueFacts) -> bool:
    """Whether a member has messages and doesn't continue with them."""
    if polls(facts, queue):
        return has_stopped_polling(facts, queue)
    return is_suspended(facts, queue) or _is_stuck(facts, queue)


def has_stopped_polling(facts: GroupFacts, queue: QueueFacts) -> bool:
    """Whether the program that has a queue with messages stopped polling some time ago.

    RocketMQ's consumers don't report their last poll. For these it is judged by how long the next message has been
    there. They prefetch, and commit up to ten seconds after a poll, so it takes longer to be sure.
    """
    member = facts.member(_holder(queue)) if queue.owners else None
    if member is None or not member.polls or not queue.backlog:
        return False
    if member.last_poll_ms:
        return facts.wall_ms - member.last_poll_ms >= STUCK_MS
    return (_held_ms(facts, queue) or 0) >= UNCOMMITTED_MS


def under_way(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Messages that are being consumed right now."""
    lines = [
        f"{queue.place}: {queue.cached:,} at {queue.owners[0]}, of {queue.backlog:,}"
        for queue in facts.queues()
        if queue.backlog and queue.cached and queue.owners and not is_held_up(facts, queue)
    ]
    if lines:
        yield ExplainFinding("UNDER_WAY", "messages are being consumed right now", some(lines), "", is_cause=False)


def locked(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Queues that are locked by a client other than their ordered consumer."""
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
                evidence.append(f"{lock.client_id} is no longer a member: it ended without releasing its locks")
            yield ExplainFinding("LOCKED", words, evidence, "wait until the lock expires, or stop its holder")


def _find(facts: GroupFacts, queue: MessageQueue) -> QueueFacts | None:
    return next((one for one in facts.queues() if one.queue == queue), None)


def retries_behind(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Retries that are due and aren't consumed."""
    behind = [queue for queue in facts.retries if queue.backlog]
    if behind and facts.members:
        topics = named(sorted({queue.queue.topic for queue in behind}))
        number = sum(queue.backlog for queue in behind)
        words = f"{count(number, 'message')} of {topics} {'is' if number == 1 else 'are'} due for redelivery"
        lines = some(_lines(behind))
        yield ExplainFinding("RETRIES_DUE", words, lines, "they are consumed like other messages", is_cause=False)


def _lines(queues: Iterable[QueueFacts]) -> Iterator[str]:
    return (f"{queue.place}: {queue.backlog:,}" for queue in queues)
