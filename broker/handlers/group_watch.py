"""Examine a group with each heartbeat of a member, and report a problem once.

groups/findings.py finds the problems. The log gets an entry when a problem begins and when it ends. Members that ask
for news receive the problems in the responses to their heartbeats.
"""

from staticfire.broker.groups.consumers import BROADCASTING, ConsumerGroup
from staticfire.broker.groups.findings import findings_of
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.groups.version_fence import newer_versions
from staticfire.broker.pulls.held_pulls import HeldPulls
from staticfire.broker.state import BrokerState
from staticfire.protocol.requests.clients import GroupFinding, GroupNews
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger

log = logger("broker")

# For how many groups the reported problems are remembered. Beyond that a problem may be reported again.
REPORTED_GROUPS_MAX = 1_000

Reported = dict[tuple[str, str], None]
"""The reported problems of a group: kind and subject of each."""


class GroupWatch:
    """Watches the groups of one broker."""

    def __init__(self, state: BrokerState, groups: GroupTables, held: HeldPulls) -> None:
        self._state = state
        self._groups = groups
        self._held = held
        self._reported: dict[str, Reported] = {}

    def news(self, group: ConsumerGroup, connection: Connection) -> GroupNews | None:
        """Return what the member's group must be informed of; None if there is nothing."""
        findings = self._look(group)
        member = group.channel_info_table.get(connection)
        fences = self._state.settings.fence_older_subscriptions
        newer = newer_versions(group, member) if fences and member is not None else {}
        return GroupNews(group.name, newer, findings) if newer or findings else None

    def _look(self, group: ConsumerGroup) -> list[GroupFinding]:
        """Return the problems of a group, and log the new ones."""
        if len(group.channel_info_table) > 1:
            self._watch_pulls(group)
        findings = findings_of(group)
        before = self._reported.get(group.name, {})
        now: Reported = {(finding.kind, finding.subject): None for finding in findings}
        if now.keys() != before.keys():
            self._tell(group.name, [each for each in findings if (each.kind, each.subject) not in before])
            for kind, subject in [each for each in before if each not in now]:
                log.info("group_problem_over", group=group.name, kind=kind, subject=subject)
            self._remember(group.name, now)
        return findings

    def _watch_pulls(self, group: ConsumerGroup) -> None:
        """In a group with ordered consumers, note the members that pull from queues which they haven't locked."""
        members, orders = group.channel_info_table, group.kinds.orders()
        if not (True in orders and None in orders) or group.message_model == BROADCASTING:
            return
        state = self._state
        uptime_ms, broker_name = state.machine.clock.uptime_ms(), state.settings.broker_name
        for pull in self._held.of_topics(group.subscriptions):
            member = members.get(pull.call.connection)
            if member is None or member.in_order is not None or pull.call.request.consumer_group != group.name:
                continue
            queue = MessageQueue(pull.topic, broker_name, pull.queue_id)
            if self._groups.queue_locks.holder(group.name, queue, uptime_ms) != member.client_id:
                self._groups.consumers.saw_order(group.name, member.connection, in_order=False)

    def _tell(self, group: str, findings: list[GroupFinding]) -> None:
        for finding in findings:
            log.warning("group_has_a_problem", group=group, kind=finding.kind, reason=finding.words)

    def _remember(self, group: str, reported: Reported) -> None:
        self._reported.pop(group, None)
        if reported:
            if len(self._reported) >= REPORTED_GROUPS_MAX:
                self._reported.pop(next(iter(self._reported)))
            self._reported[group] = reported
