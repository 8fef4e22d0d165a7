"""Rules about messages in flight by pops, refused pulls, and members that only some brokers know. Pure.

Each rule is a function of the facts that yields its findings. explanation.py has the order of all rules.
"""

from collections.abc import Iterable

from staticfire.client.admin.group_view import GroupMember
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
# How long a client may not know that it needs a broker: brokers register, and clients look for routes, every 30 s.
KNOWN_MS = 65_000
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
    """Members that are missing at brokers with queues for them: they can't reach these, or don't know them yet."""
    for member in facts.members:
        missing = unconnected(facts, member)
        new = [name for name in missing if _is_new_to(facts, name, member)]
        if new:
            words = f"{_not_connected(facts, member, new)} yet: it started, or its topics changed, after that member "
            words += "joined, and members look for new brokers every 30 s (pollNameServerInterval)"
            way_out = "wait a minute; if it stays so, the member can't reach that address from its machine"
            yield ExplainFinding("BROKER_NOT_FOUND_YET", words, _behind_at(facts, new), way_out)
        old = [name for name in missing if name not in new]
        if old:
            words = f"{_not_connected(facts, member, old)}: it can't reach that address from its machine"
            way_out = "set brokerIP1 (or externalHost) of the broker to an address that it can reach; to try it from "
            way_out += f"its machine: nc -vz {facts.addresses.get(old[0], 'HOST:PORT').replace(':', ' ')}"
            yield ExplainFinding("UNREACHABLE_BROKER", words, _behind_at(facts, old), way_out)


def unconnected(facts: GroupFacts, member: GroupMember) -> list[str]:
    """Return the brokers with queues for a member that it isn't connected to, although it is to others."""
    seen = _seen_at(facts, member)
    since_ms = facts.wall_ms - min(seen.values(), default=facts.wall_ms)
    if not seen or since_ms < CONNECTED_MS:
        return []
    wanted = {name for topic in member.subscriptions for name in _brokers_of(facts, topic)}
    return sorted((wanted & set(facts.brokers) & set(facts.states)) - set(seen))


def _seen_at(facts: GroupFacts, member: GroupMember) -> dict[str, int]:
    """Return the brokers that a member is connected to, and when it joined there, by their wall clocks."""
    return {
        name: one.joined_ms
        for name in facts.brokers
        if name in facts.states
        for one in facts.states[name].members
        if one.client_id == member.client_id
    }


def _is_new_to(facts: GroupFacts, name: str, member: GroupMember) -> bool:
    """Whether a member may not know yet that it needs a broker."""
    age_ms = facts.message_ms - facts.changed_ms.get(name, 0)
    joined_ms = min(_seen_at(facts, member).values())
    return age_ms < KNOWN_MS and age_ms < facts.wall_ms - joined_ms


def _not_connected(facts: GroupFacts, member: GroupMember, missing: list[str]) -> str:
    at = ", ".join(f"{name} ({facts.addresses.get(name, '?')})" for name in missing)
    seen = named(sorted(_seen_at(facts, member)))
    return f"{member.client_id} at {member.address} is connected to {seen} and not to {at}"


def _behind_at(facts: GroupFacts, brokers: list[str]) -> list[str]:
    return some(
        f"{queue.place}: {queue.backlog:,} behind"
        for queue in facts.queues()
        if queue.queue.broker_name in brokers and queue.backlog
    )


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
