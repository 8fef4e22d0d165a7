"""Rules about masters and slaves: a master that is away, slaves that are behind or refuse pulls. Pure.

Each rule is a function of the facts that yields its findings. explanation.py has the order of all rules.
"""

from collections.abc import Iterable

from staticfire.client.explain.facts import GroupFacts, QueueFacts, ReplicaFacts
from staticfire.client.explain.findings import ExplainFinding, count, named, some
from staticfire.protocol.requests.routes import MASTER_ID

# A slave that copies without delay may be this many messages behind when two replicas are queried one after the other.
BEHIND_MIN = 10


def _slaves(facts: GroupFacts, broker_name: str) -> str:
    return named([f"{broker_id} at {address}" for broker_id, address in facts.slaves.get(broker_name, {}).items()])


def _queues(facts: GroupFacts, broker_name: str) -> list[QueueFacts]:
    return [queue for queue in facts.queues() if queue.queue.broker_name == broker_name]


def _replica_read(facts: GroupFacts, queue: QueueFacts) -> tuple[int, ReplicaFacts] | None:
    """Return the slave that a queue is pulled from, as far as it is known."""
    broker_id = queue.read_at
    if (
        not broker_id
        and queue.owners
        and queue.queue.broker_name in facts.masterless
        and not _needs_master(facts, queue)
    ):
        broker_id = next(iter(facts.slaves[queue.queue.broker_name]))
    replica = queue.replicas.get(broker_id)
    return None if broker_id == MASTER_ID or replica is None else (broker_id, replica)


def _needs_master(facts: GroupFacts, queue: QueueFacts) -> bool:
    """Whether the queue's members pop it, or consume it in order under a lock."""
    if queue.is_popped:
        return True
    return any(member.in_order for member in facts.members)


def not_readable(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Slaves without a master that refuse pulls."""
    for name, broker_id in sorted(facts.unreadable.items()):
        words = (
            f"broker {name} has no master now, and its slave {broker_id} refuses pulls: slaveReadEnable=false. Clients "
        )
        words += "ask again every 3 s for each queue, and programs see no error"
        way_out = "start the master, or set it at the slave: staticfire mqadmin updateBrokerConfig -b "
        way_out += f"{facts.slaves[name][broker_id]} -k slaveReadEnable -v true"
        yield ExplainFinding("SLAVE_NOT_READABLE", words, [], way_out)


def master_away(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Brokers without a master, for groups that consume in order or pop: a slave grants neither locks nor pops."""
    for name in facts.masterless:
        stuck = [queue for queue in _queues(facts, name) if _needs_master(facts, queue)]
        missing = sorted(
            topic.name for topic in facts.topics.values() if _is_missing(topic.brokers, topic.queues, name)
        )
        if missing:
            words = (
                f"broker {name} has no master now, and its slave ({_slaves(facts, name)}) doesn't know {named(missing)}"
            )
            words += " yet: slaves copy topics and groups once a minute"
            yield ExplainFinding("TOPIC_NOT_AT_SLAVE", words, [], "start the master again")
        if stuck and facts.members:
            what = "pop" if any(queue.is_popped for queue in stuck) else "consume in order"
            grants = "accepts pops" if what == "pop" else "grants queue locks"
            words = (
                f"broker {name} has no master now, only slaves ({_slaves(facts, name)}). The members of {facts.group} "
            )
            words += f"{what}, and only a master {grants}: nothing is consumed from {count(len(stuck), 'queue')} of it"
            evidence = some(f"{queue.place}: {queue.backlog:,} behind at the slave" for queue in stuck if queue.backlog)
            way_out = "start the master again; members continue by themselves, an ordered one after up to 20 s"
            yield ExplainFinding("MASTER_AWAY", words, evidence, way_out)


def _is_missing(brokers: list[str], queues: list[QueueFacts], name: str) -> bool:
    """Whether the route of a topic names a broker that has none of its queues."""
    return name in brokers and not any(queue.queue.broker_name == name for queue in queues)


def ahead_of_replica(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Queues whose group is at an offset that the slave which is read doesn't have."""
    for name in facts.slaves:
        found = []
        for queue in _queues(facts, name):
            read = _replica_read(facts, queue)
            if read is not None and queue.consumed > read[1].end:
                found.append((queue, *read))
        if found:
            queue, broker_id, replica = found[0]
            words = f"{facts.group} is at offset {queue.consumed:,} of {queue.place}, and slave {broker_id} of {name}, "
            words += f"which is read now, ends at {replica.end:,}: it was behind when the master was lost. It answers "
            words += "OFFSET_OVERFLOW_BADLY, and corrects nothing, until it has these messages"
            evidence = some(f"{one.place}: at {one.consumed:,}, slave ends at {at.end:,}" for one, _, at in found)
            way_out = (
                "start the master again: it has the messages. If it is lost, and the slave takes over, the offsets "
            )
            way_out += f"are beyond the end: staticfire mqadmin resetOffsetByTime -g {facts.group} -t "
            way_out += f"{queue.queue.topic} -s now"
            yield ExplainFinding("AHEAD_OF_SLAVE", words, evidence, way_out)


def replica_behind(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Slaves that are read and are behind their master."""
    for name in facts.slaves:
        found = []
        for queue in _queues(facts, name):
            read, master = _replica_read(facts, queue), queue.replicas.get(MASTER_ID)
            if read is not None and master is not None and master.end - read[1].end >= BEHIND_MIN:
                found.append((queue, read[0], master.end - read[1].end))
        if found:
            behind = sum(lag for _, _, lag in found)
            words = f"members read from slave {found[0][1]} of {name}, as the broker suggested, and it is "
            words += f"{count(behind, 'message')} behind its master"
            evidence = some(f"{queue.place}: {lag:,} behind" for queue, _, lag in found)
            way_out = (
                f"staticfire mqadmin haStatus -b {facts.addresses[name]} shows the copy; with slaveReadEnable=false "
            )
            way_out += "all members read from the master"
            yield ExplainFinding("SLAVE_BEHIND", words, evidence, way_out)


def set_back(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Masters that came back with older offsets than those that were committed at their slaves."""
    for name in facts.slaves:
        found = []
        for queue in _queues(facts, name):
            master = queue.replicas.get(MASTER_ID)
            newest = max((one.committed for at, one in queue.replicas.items() if at != MASTER_ID), default=-1)
            if master is not None and newest > max(master.committed, queue.consumed):
                found.append((queue, master.committed, newest))
        if found:
            words = (
                f"the master of {name} has older offsets of {facts.group} than its slaves: they were committed at a "
            )
            words += "slave while the master was away, and the master doesn't take them over. A consumer that starts "
            words += f"now gets {count(sum(newest - max(old, 0) for _, old, newest in found), 'message')} again"
            evidence = some(
                f"{queue.place}: {old:,} at the master, {newest:,} at a slave" if old >= 0
                else f"{queue.place}: none at the master, {newest:,} at a slave"
                for queue, old, newest in found
            )  # fmt: skip
            way_out = "let consumers skip what they know; the slave takes over the master's offsets within a minute"
            yield ExplainFinding("OFFSETS_SET_BACK", words, evidence, way_out, is_cause=False)


def read_at_slave(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Queues that are read from a slave."""
    for name in facts.slaves:
        read = [queue for queue in _queues(facts, name) if _replica_read(facts, queue) is not None]
        if read and facts.members and name not in facts.unreadable:
            is_away = name in facts.masterless
            words = f"{count(len(read), 'queue')} of {name} read from its slave ({_slaves(facts, name)}): "
            words += "the broker has no master now" if is_away else "the broker suggested it"
            way_out = "offsets are committed there; they may go back when the master returns" if is_away else ""
            yield ExplainFinding("READ_AT_SLAVE", words, [], way_out, is_cause=False)
