"""Rules about topics and brokers: missing, forbidden, empty, unreachable, or with injected faults. Pure.

Each rule is a function of the facts that yields its findings. explanation.py has the order of all rules.
"""

from collections.abc import Iterable

from staticfire.client.explain.facts import GroupFacts
from staticfire.client.explain.findings import ExplainFinding, count, named, some
from staticfire.client.explain.of_places import is_local
from staticfire.protocol.permissions import readable


def broken_on_purpose(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Rules for injected faults."""
    if facts.faults:
        words = f"{count(len(facts.faults), 'fault rule')} in effect: these faults are injected on purpose"
        yield ExplainFinding("FAULT_RULES", words, some(facts.faults), "staticfire fault clear")


def away(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Brokers that don't respond to this client, or aren't registered."""
    for name in facts.missing:
        words = f"broker {name} isn't registered at the nameserver: nothing is known of its messages"
        way_out = "start it. `staticfire fault list` shows whether a rule has killed it: `staticfire fault remove "
        way_out += "NUMBER` starts it again"
        yield ExplainFinding("BROKER_AWAY", words, [], way_out)
    for name, why in sorted(facts.away.items()):
        words = f"broker {name} doesn't respond: {why}"
        way_out = "start it, or resume it if it is frozen"
        if not is_local(facts.addresses.get(name, "")):
            way_out += "; if it runs, clients here can't reach the address that it registered: set brokerIP1 to one "
            way_out += "that they can reach"
        yield ExplainFinding("BROKER_AWAY", words, [], way_out)


def subscriptions(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Topics without a subscription, or that don't exist."""
    wanted = facts.subscribed()
    for topic in facts.topics.values():
        if not topic.exists:
            similar = f"; is it {named(topic.similar)}?" if topic.similar else ""
            words = f"there is no topic {topic.name}{similar}"
            way_out = f"staticfire create {topic.name}, or send something to it where autoCreateTopicEnable is on"
            yield ExplainFinding("NO_TOPIC", words, some(_wanting(wanted.get(topic.name, {}))), way_out)
        elif any(queue.owners for queue in topic.queues):
            continue  # A lite pull consumer has assigned them to itself: it needs no subscription.
        elif facts.members and topic.name not in wanted and not any(member.silence for member in facts.members):
            clients = [member.client_id for member in facts.members]
            subscribed = named(sorted(wanted)) or "nothing"
            words = f"no member of {facts.group} subscribes to {topic.name}: {named(clients)} subscribe to {subscribed}"
            way_out = "subscribe to it; a program with other subscriptions needs a group of its own"
            yield ExplainFinding("NOT_SUBSCRIBED", words, [], way_out)


def not_found_yet(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Topics that members subscribe to but have no queue of: they don't know its route yet."""
    if any(member.silence or not member.counts for member in facts.members):
        return
    for name, wanted in facts.subscribed().items():
        topic = facts.topics.get(name)
        if topic is None or not topic.queues or any(queue.owners or queue.committed >= 0 for queue in topic.queues):
            continue
        if set(topic.brokers) <= set(facts.masterless):
            continue  # They may wait for a master: of_replicas.py.
        if facts.awaits_locks(name) or not any(map(readable, topic.perms.values())):
            continue  # They know it: another client has its locks. Or it has no queue that they could find.
        words = f"no member has any queue of {name} yet, although they subscribe to it: a client that started "
        words += "before the topic existed requests its route every 30 s (pollNameServerInterval)"
        way_out = "wait half a minute; next time create topics before their consumers start: "
        way_out += f"staticfire create {name}"
        yield ExplainFinding("TOPIC_NOT_FOUND_YET", words, some(_wanting(wanted)), way_out)


def _wanting(wanted: dict[str, list[str]]) -> Iterable[str]:
    return (f"{named(clients)}: subscribes to it ({expression})" for expression, clients in wanted.items())


def forbidden(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Missing permissions of brokers, topics and groups."""
    closed = sorted(name for name, state in facts.states.items() if not state.answers_pulls)
    if closed:
        words = f"{named(closed)} forbid reading: brokerPermission"
        # One by one: the others of the cluster may have another value on purpose, such as 4 before maintenance.
        places = [f"-b {facts.addresses[name]}" for name in closed if name in facts.addresses]
        commands = [f"staticfire mqadmin updateBrokerConfig {at} -k brokerPermission -v 6" for at in places]
        way_out = "set brokerPermission=6: " + "; ".join(commands)
        yield ExplainFinding("BROKER_NOT_READABLE", words, [], way_out)
    for topic in facts.topics.values():
        shut = sorted(name for name, perm in topic.perms.items() if not readable(perm))
        if shut:
            words = f"{topic.name} may not be read on {named(shut)}: perm {topic.perms[shut[0]]}"
            way_out = f"staticfire change {topic.name} --perm 6"
            yield ExplainFinding("TOPIC_NOT_READABLE", words, [], way_out)
    disabled = sorted(name for name, config in facts.config.items() if not config.consume_enable)
    if disabled:
        words = f"{facts.group} may not consume on {named(disabled)}: consumeEnable=false"
        way_out = f"staticfire change --group {facts.group} --consume"
        yield ExplainFinding("GROUP_DISABLED", words, [], way_out)
    no_broadcast = sorted(name for name, config in facts.config.items() if not config.consume_broadcast_enable)
    if facts.is_broadcast and no_broadcast:
        words = f"{facts.group} may not broadcast on {named(no_broadcast)}: consumeBroadcastEnable=false"
        way_out = f"staticfire change --group {facts.group} --broadcast"
        yield ExplainFinding("BROADCAST_DISABLED", words, [], way_out)


def empty(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Topics without any message."""
    for topic in facts.topics.values():
        if topic.exists and set(topic.brokers) <= set(facts.masterless):
            continue  # Its slaves may not know it yet: of_replicas.py.
        if topic.exists and not topic.count and not any(queue.end for queue in (*topic.queues, *topic.hidden)):
            words = f"nothing has ever been sent to {topic.name}"
            waiting = facts.waiting(topic.name, "level", "timer", "transaction")
            if not waiting:
                way_out = (
                    f"send a message: staticfire send {topic.name} hello; if a producer has sent some, it uses another "
                )
                way_out += "nameserver"
                yield ExplainFinding("NOTHING_SENT", words, [], way_out)


def on_some_brokers(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Topics that were created on only some of the brokers."""
    for topic in facts.topics.values():
        missing = sorted({*facts.brokers, *facts.away} - set(topic.brokers))
        if topic.exists and topic.brokers and missing:
            words = f"{topic.name} is on {named(topic.brokers)} only, not on {named(missing)}: the broker that gets "
            words += "the first message creates a topic that doesn't exist"
            way_out = f"staticfire create {topic.name}"
            yield ExplainFinding("ON_SOME_BROKERS", words, [], way_out, is_cause=False)
