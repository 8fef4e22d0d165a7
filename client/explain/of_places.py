"""Rules about messages in flight by pops, refused pulls, and members that only some brokers know. Pure.

Each rule is a function of the facts that yields its findings. explanation.py has the order of all rules.
"""

from collections.abc import Iterable

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.explain.facts import GroupFacts
from staticfire.client.explain.findings import ExplainFinding, ago, count, named, next_try, some
from staticfire.client.explain.of_queues import STUCK_MS
from staticfire.protocol.durations import format_duration, format_moment
from staticfire.protocol.requests.group_state import PoppedState

# A refusal counts as a cause only while the client may not have sent a heartbeat since: it sends one every 30 s.
REFUSED_MS = 30_000
# How long after its first heartbeat a client has registered with all brokers that it can reach.
CONNECTED_MS = 5_000
LOOPBACK = ("127.", "localhost", "[::1]")


def popped(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Messages that were popped and aren't acknowledged: they are invisible to other members for a while."""
    taken = [
        (name, one)
        for name, state in facts.states.items()
        for one in (*state.popped, *state.popped_in_order)
        if not one.failed
    ]
    if taken:
        yield _popped(facts, taken)
    failed = [(name, one) for name, state in facts.states.items() for one in state.popped if one.failed]
    if failed:
        yield _failed(facts, failed)


def _failed(facts: GroupFacts, failed: list[tuple[str, PoppedState]]) -> ExplainFinding:
    next_ms, last_ms = min(one.next_ms for _, one in failed), max(one.last_ms for _, one in failed)
    number = sum(one.count for _, one in failed)
    words = f"{count(number, 'message')} {next_try(number)}: "
    words += f"the next at {format_moment(next_ms)}, in {format_duration(max(0, next_ms - facts.message_ms))} "
    words += "of message time"
    evidence = [
        f"{one.topic} {name}/{one.queue_id}: {one.count:,}, until {format_moment(one.last_ms)}" for name, one in failed
    ]
    way_out = f"staticfire clock advance {format_duration(max(1, last_ms - facts.message_ms))}"
    return ExplainFinding("RETRIES_LATER", words, some(evidence), way_out)


def _popped(facts: GroupFacts, taken: list[tuple[str, PoppedState]]) -> ExplainFinding:
    messages = sum(one.count for _, one in taken)
    next_ms, last_ms = min(one.next_ms for _, one in taken), max(one.last_ms for _, one in taken)
    holders = sorted({client for _, one in taken for client in one.clients}) or ["no client that is still connected"]
    age_ms = facts.message_ms - min(one.since_ms for _, one in taken)
    words = f"{count(messages, 'message')} popped and not acknowledged, at {named(holders)}: no other member gets "
    words += (
        f"them until {format_moment(next_ms)}, in {format_duration(max(0, next_ms - facts.message_ms))} of message time"
    )
    waiting = {queue.queue: queue.backlog - queue.taken_in_order for queue in facts.queues() if queue.taken_in_order}
    evidence = []
    for name, one in taken:
        place = MessageQueue(one.topic, name, one.queue_id)
        line = f"{place}: {one.count:,} at {named(one.clients) or 'no client'}, until {format_moment(one.last_ms)}"
        after = waiting.get(place, 0)
        evidence.append(f"{line}, in order: {count(after, 'message')} after them must wait" if after else line)
    evidence.append(f"the first was taken {format_duration(max(0, age_ms) // 1_000 * 1_000)} of message time ago")
    way_out = "acknowledge them, or have them redelivered: staticfire clock advance "
    way_out += format_duration(max(1, last_ms - facts.message_ms))
    return ExplainFinding("POPPED", words, some(evidence), way_out, is_cause=age_ms >= STUCK_MS)


def refused(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Pulls that were refused as SUBSCRIPTION_NOT_LATEST."""
    for name, state in facts.states.items():
        for one in state.refused:
            age_ms = facts.wall_ms - one.last_ms
            if age_ms > REFUSED_MS:
                continue
            words = f"{name} refuses {one.client_id}'s pulls of {one.topic}: SUBSCRIPTION_NOT_LATEST, "
            words += f"{count(one.count, 'time')}, last {ago(age_ms)}"
            wants = [
                f"{expression}: {named(clients)}"
                for expression, clients in facts.subscribed().get(one.topic, {}).items()
            ]
            evidence = [one.words, *wants]
            way_out = "its next heartbeat, every 30 s, updates the broker; if refusals continue, check its connection; "
            way_out += "two programs with different subscriptions need two groups"
            yield ExplainFinding("SUBSCRIPTION_NOT_LATEST", words, some(evidence), way_out)


def unreachable(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Members that are missing at one of the brokers with queues for them: they can't reach its address."""
    brokers = [name for name in facts.brokers if name in facts.states]
    for member in facts.members:
        seen = {
            name: one for name in brokers for one in facts.states[name].members if one.client_id == member.client_id
        }
        since_ms = facts.wall_ms - min((one.joined_ms for one in seen.values()), default=facts.wall_ms)
        wanted = {name for topic in member.subscriptions for name in _brokers_of(facts, topic)}
        missing = sorted(wanted & set(brokers) - set(seen))
        if not seen or not missing or since_ms < CONNECTED_MS:
            continue
        at = ", ".join(f"{name} ({facts.addresses.get(name, '?')})" for name in missing)
        words = f"{member.client_id} at {member.address} is connected to {named(sorted(seen))} and not to {at}: it "
        words += "can't reach that address from its machine"
        evidence = [
            f"{queue.place}: {queue.backlog:,} behind"
            for queue in facts.queues()
            if queue.queue.broker_name in missing and queue.backlog
        ]
        way_out = "set brokerIP1 (or externalHost) of the broker to an address that it can reach; to try it from "
        way_out += f"its machine: nc -vz {facts.addresses.get(missing[0], 'HOST:PORT').replace(':', ' ')}"
        yield ExplainFinding("UNREACHABLE_BROKER", words, some(evidence), way_out)


def _brokers_of(facts: GroupFacts, topic: str) -> list[str]:
    known = facts.topics.get(topic)
    return known.brokers if known is not None else []


def loopback(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """The group has no members, clients have connected from other machines, and brokers' addresses are loopback."""
    local = local_brokers(facts)
    if local and facts.elsewhere and not facts.members:
        at = ", ".join(f"{name} at {facts.addresses[name]}" for name in local)
        words = f"clients get the address of {at}, which only this machine can reach; clients have connected from "
        words += named(facts.elsewhere)
        way_out = "if the consumer runs on another machine or in a container, set brokerIP1 (or externalHost) to an "
        way_out += "address that it can reach"
        yield ExplainFinding("LOOPBACK_ADDRESS", words, [], way_out, is_cause=False)


def local_brokers(facts: GroupFacts) -> list[str]:
    """Return the brokers whose address means the client's own machine."""
    return sorted(name for name, address in facts.addresses.items() if is_local(address))


def is_local(address: str) -> bool:
    """Whether an address is that of a machine to itself."""
    return address.startswith(LOOPBACK)
