"""Why a group doesn't consume: the findings, and a summary in one line. Pure."""

from typing import Any

import msgspec

from staticfire.client.explain import (
    of_access,
    of_members,
    of_messages,
    of_offsets,
    of_places,
    of_queues,
    of_replicas,
    of_topics,
)
from staticfire.client.explain.facts import GroupFacts, total
from staticfire.client.explain.findings import ExplainFinding, Rule, count, look_through, named

RULES: tuple[Rule, ...] = (
    of_topics.broken_on_purpose,
    of_topics.away,
    of_members.refused_by_tls,
    of_access.refused,
    of_replicas.not_readable,
    of_replicas.master_away,
    of_replicas.ahead_of_replica,
    of_replicas.replica_behind,
    of_members.no_member,
    of_topics.subscriptions,
    of_topics.not_found_yet,
    of_topics.forbidden,
    of_members.silent,
    of_members.do_not_ask,
    of_places.unreachable,
    of_places.refused,
    of_queues.stuck,
    of_members.stopped_polling,
    of_queues.suspended,
    of_members.listeners,
    of_queues.locked,
    of_offsets.not_read,
    of_offsets.illegal_offsets,
    of_offsets.reset_pause,
    of_members.warned_of,
    of_messages.filtered,
    of_offsets.began_at_the_end,
    of_offsets.passed_over,
    of_topics.empty,
    of_messages.due_later,
    of_messages.open_transactions,
    of_places.popped,
    of_messages.dead,
    of_queues.retries_behind,
    of_members.idle,
    of_topics.on_some_brokers,
    of_replicas.set_back,
    of_replicas.read_at_slave,
    of_places.loopback,
    of_members.just_joined,
    of_queues.under_way,
)
"""The rules, in the order in which users should look at their findings."""


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """The state of a group, and its causes."""

    group: str
    headline: str
    findings: list[ExplainFinding]

    @property
    def causes(self) -> list[ExplainFinding]:
        """The findings that keep messages from being consumed."""
        return [one for one in self.findings if one.is_cause]

    def as_json(self) -> dict[str, Any]:
        """Return it for JSON."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return shown

    def __str__(self) -> str:
        lines = [self.headline]
        for number, one in enumerate(self.findings, 1):
            lines.append(f"{number}. {one.words}" if one.is_cause else f"{number}. (note) {one.words}")
            lines += [f"   - {evidence}" for evidence in one.evidence]
            lines += [f"   > {one.way_out}"] if one.way_out else []
        return "\n".join(lines)


def explain(facts: GroupFacts) -> Explanation:
    """Return the state of a group, and its causes."""
    return Explanation(facts.group, _headline(facts), look_through(facts, RULES))


def _headline(facts: GroupFacts) -> str:
    lag = total(facts.queues())
    popped = sum(one.count for state in facts.states.values() for one in (*state.popped, *state.popped_in_order))
    members = count(len(facts.members), "member")
    if not facts.is_known:
        return f"{facts.group}: unknown"
    if lag:
        behind = [name for name, topic in facts.topics.items() if total(topic.queues)]
        where = f" in {', '.join(behind)}" if behind else " in its retries"
        more = f", {popped:,} of them popped and not acknowledged" if popped else ""
        return f"{facts.group}: {members}, {count(lag, 'message')} behind{where}{more}"
    stored = sum(topic.count for topic in facts.topics.values())
    if not facts.topics:
        return f"{facts.group}: {members}, and it has never subscribed to a topic"
    if stored == 0:
        return f"{facts.group}: {members}, and no message to consume"
    if hidden := sum(total(topic.hidden) for topic in facts.topics.values()):
        return f"{facts.group}: {members}, no backlog, and {count(hidden, 'message')} in queues that no consumer reads"
    where = f" on {named(facts.brokers)}" if facts.missing else ""
    return f"{facts.group}: {members}, no backlog{where}: all messages of its topics are consumed or skipped"
