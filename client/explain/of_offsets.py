"""Rules about a group's offsets: queues that can't be read, resets, illegal offsets, the start of a new group. Pure.

Each rule is a function of the facts that yields its findings. explanation.py has the order of all rules.
"""

from collections.abc import Iterable

from staticfire.client.explain.facts import GroupFacts, QueueFacts, TopicFacts
from staticfire.client.explain.findings import ExplainFinding, ago, count, named, some

# After a reset of its offset a member drops the queue for 10 s, and RocketMQ's takes it again up to 20 s later.
RESET_PAUSE_MS = 30_000


def not_read(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Queues that can be written but not read: the topic has fewer read than write queues."""
    for topic in facts.topics.values():
        hidden = [queue for queue in topic.hidden if queue.backlog]
        if hidden:
            yield _not_read(topic, hidden)


def _not_read(topic: TopicFacts, hidden: list[QueueFacts]) -> ExplainFinding:
    brokers = list(dict.fromkeys(queue.queue.broker_name for queue in hidden))
    reads, writes = topic.shapes[brokers[0]]
    lag = sum(queue.backlog for queue in hidden)
    words = f"{topic.name} has {count(reads, 'read queue')} and {count(writes, 'write queue')} on {named(brokers)}: "
    words += f"producers send to all of them, and no consumer reads the {count(lag, 'message')} in the others"
    evidence = some(f"{queue.place}: {count(queue.backlog, 'message')}" for queue in hidden)
    most = max(*map(max, topic.shapes.values()), *(queue.queue.queue_id + 1 for queue in hidden))
    way_out = f"staticfire change {topic.name} --read-queues {most}"
    return ExplainFinding("QUEUES_NOT_READ", words, evidence, way_out)


def reset_pause(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Queues whose owners pause, because an administrator has just reset the group there."""
    paused = pausing(facts)
    for topic in dict.fromkeys(queue.queue.topic for queue in paused):
        queues = [queue for queue in paused if queue.queue.topic == topic]
        words = f"{facts.group} was reset in {topic} {_last(queues)}: its members release its queues and take "
        words += "them again after 10 s"
        way_out = "wait: up to 10 s for staticfire's consumers, 30 s for RocketMQ's"
        yield ExplainFinding("RESET_PAUSE", words, some(map(_moved, queues)), way_out)


def pausing(facts: GroupFacts) -> list[QueueFacts]:
    """Return the queues with messages that have no owner because the group was reset there very recently."""
    return [
        queue
        for queue in facts.queues()
        if queue.backlog and not queue.owners and queue.reset is not None and queue.reset.age_ms < RESET_PAUSE_MS
        if facts.members
    ]


def passed_over(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Messages that an administrator's reset has skipped, as long as they are the newest of their queues."""
    for topic in facts.topics.values():
        queues = [queue for queue in topic.queues if _passed(queue)]
        if queues:
            skipped = sum(map(_passed, queues))
            were = "message was" if skipped == 1 else "messages were"
            words = f"{facts.group} was reset in {topic.name} {_last(queues)}, and {skipped:,} {were} skipped: "
            words += "it continues with messages that were sent after that"
            way_out = "to consume the skipped messages: "
            way_out += f"staticfire mqadmin resetOffsetByTime -g {facts.group} -t {topic.name} -s 0"
            yield ExplainFinding("PASSED_OVER", words, some(map(_moved, queues)), way_out)


def _passed(queue: QueueFacts) -> int:
    """Return how many messages a reset has skipped; 0 once there are newer ones, or the group has gone back."""
    reset = queue.reset
    if reset is None or queue.consumed != reset.offset or queue.end > reset.offset:
        return 0
    return max(0, min(reset.offset, queue.end) - max(reset.before, queue.first))


def _last(queues: Iterable[QueueFacts]) -> str:
    return ago(min(queue.reset.age_ms for queue in queues if queue.reset is not None))


def _moved(queue: QueueFacts) -> str:
    assert queue.reset is not None
    return f"{queue.place}: from {max(0, queue.reset.before):,} to {queue.reset.offset:,}"


def illegal_offsets(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Offsets beyond the end of a queue, or before what is still stored."""
    for queue in facts.queues():
        if queue.queue.broker_name in facts.masterless:
            continue  # What a slave lacks its master may have: of_replicas.py.
        if queue.committed > queue.end:
            words = f"{queue.place}: {facts.group} is at {queue.committed:,}, beyond the end at {queue.end:,}"
            words += ": the broker has lost messages, or a slave that lacked them took over, or it was emptied, or an "
            words += "offset was set by hand"
            yield ExplainFinding("OFFSET_BEYOND_END", words, [], _to_the_end(facts, queue))
        elif 0 <= queue.committed < queue.first:
            words = f"{queue.place}: {facts.group} is at {queue.committed:,}, and the oldest stored message is "
            words += (
                f"{queue.first:,}: {count(queue.first - queue.committed, 'message')} expired before it consumed them"
            )
            way_out = "set a longer fileReservedTime, or make the consumer faster; it continues at the oldest message"
            yield ExplainFinding("OFFSET_BELOW_BEGIN", words, [], way_out, is_cause=False)


def _to_the_end(facts: GroupFacts, queue: QueueFacts) -> str:
    """Return the command that moves the group to the end of this queue, and leaves the group's other queues alone."""
    topic, broker_name, queue_id = queue.queue
    place = f"-b {facts.addresses.get(broker_name, 'HOST:PORT')} -q {queue_id}"
    words = "to continue with the next message there: staticfire mqadmin resetOffsetByTime "
    words += f"-g {facts.group} -t {topic} -s now {place}"
    return words + (f"; with the oldest one, also -o {queue.first}" if queue.first < queue.end else "")


def began_at_the_end(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """New groups that start after the messages that were sent before them."""
    if facts.view.consume_from_where != "CONSUME_FROM_LAST_OFFSET":
        return
    for topic in facts.topics.values():
        if topic.name not in facts.subscribed() or any(queue.backlog for queue in topic.queues):
            continue
        skipped = sum(max(0, min(queue.began, queue.consumed) - queue.first) for queue in topic.queues)
        if skipped > 0:
            words = f"{facts.group} is new and began after the {count(skipped, 'message')} that {topic.name} had: "
            words += "CONSUME_FROM_LAST_OFFSET, which is the default"
            way_out = "configure it to consume from the first offset before its first start, or reset it now: "
            way_out += f"staticfire mqadmin resetOffsetByTime -g {facts.group} -t {topic.name} -s 0"
            yield ExplainFinding("BEGAN_AT_THE_END", words, [], way_out)
