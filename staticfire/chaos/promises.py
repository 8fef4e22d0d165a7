"""The checkers that need only the evidence of a run, and that of the calm run for comparison. Pure.

Each returns the broken promises that the evidence proves. What proves nothing: the docstring of `evidence.py`.
"""

from collections.abc import Sequence

from staticfire.chaos.broken import Broken
from staticfire.chaos.evidence import Evidence, QueuePlace, commits_in
from staticfire.chaos.ordering import order
from staticfire.chaos.usage import is_plain
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.names import TOOLS_GROUP
from staticfire.protocol.pop_handles import parse_handle
from staticfire.protocol.requests import journal as kinds
from staticfire.protocol.requests.journal import JournalRecord

# How long two members of a group must differ: a program that starts them one after the other isn't wrong.
DIFFER_MS = 2_000
# An acknowledgement that is late by less than this was perhaps sent in time.
LATE_MS = 500
COMMIT, ROLLBACK = 8, 12
SHOWN_MAX = 3
AWAY = ("freeze", "restart", "kill", "partition", "nameserver")
"""The faults during which any client may be late."""


def check(evidence: Evidence, calm: Evidence | None) -> list[Broken]:
    """Return the broken promises of a run. `calm`: None if this is the calm run itself."""
    found = [] if calm is None else exit_code(evidence, calm)
    found += at_rest(evidence)
    found += skipped(evidence)
    found += subscriptions(evidence)
    found += late_acks(evidence)
    found += transactions(evidence)
    found += order(evidence)
    if calm is not None:
        found += left_open(evidence, calm)
    return found


def exit_code(evidence: Evidence, calm: Evidence) -> list[Broken]:
    """The command ends as in calm weather."""
    if evidence.exit_code == calm.exit_code or evidence.was_stopped:
        return []
    before = _ended(calm)
    return [Broken("exit", "", f"the command {_ended(evidence)}; in calm weather it {before}")]


def _ended(evidence: Evidence) -> str:
    if evidence.exit_code is None:
        return f"was still running after {evidence.seconds:.0f} s"
    if evidence.exit_code < 0:
        return f"was ended by signal {-evidence.exit_code}"
    return f"ended with exit code {evidence.exit_code}"


def at_rest(evidence: Evidence) -> list[Broken]:
    """The user's own condition holds after the program."""
    if evidence.at_rest_is_late:
        return [Broken("at-rest", "", "the command of --at-rest was still running at the limit (--limit)")]
    if not evidence.at_rest:
        return []
    return [Broken("at-rest", "", f"the command of --at-rest ended with exit code {evidence.at_rest}")]


def skipped(evidence: Evidence) -> list[Broken]:
    """No group commits past a message that no member ever got."""
    found = []
    moved = {(event.group, event.topic) for event in evidence.events if event.kind == kinds.RESET_OFFSET}
    subscribed = _expressions(evidence.events)
    for (group, place), claimed in sorted(evidence.claimed.items()):
        deliveries = evidence.deliveries.get((group, place), [])
        is_all = subscribed.get((group, place.topic)) == {"*"}
        if not deliveries or not is_all or place.broker in evidence.gaps or (group, place.topic) in moved:
            continue
        first = min(one.first for one in deliveries)
        missing = [
            offset for offset in range(first, claimed)
            if (place, offset) in evidence.by_place and not evidence.was_delivered(group, place, offset)
        ]  # fmt: skip
        if missing:
            found.append(_skipped(evidence, group, place, missing))
    return found


def _skipped(evidence: Evidence, group: str, place: QueuePlace, missing: Sequence[int]) -> Broken:
    passing = next(
        one for one_group, one_place, offset, one in commits_in(evidence.requests)
        if (one_group, one_place) == (group, place) and offset > missing[0]
    )  # fmt: skip
    lines = [f"offset {offset}: {described(evidence, place, offset)}" for offset in missing[:SHOWN_MAX]]
    lines.append(f"{passing.client} committed {passing.fields.get('commitOffset')} of queue {place.queue_id}")
    words = (
        f"{group} committed past {len(missing)} message(s) of {place.topic} on {place.broker} that no member ever got: "
        "they are lost for this group"
    )
    ids = tuple(evidence.by_place[place, offset].message_id for offset in missing)
    return Broken("skipped", group, words, tuple(lines), ids)


def _expressions(events: Sequence[JournalRecord]) -> dict[tuple[str, str], set[str]]:
    """Return the filters with which each topic was subscribed to, by group and topic."""
    found: dict[tuple[str, str], set[str]] = {}
    for event in events:
        if event.kind == kinds.JOINED:
            for topic, expression in event.details["subscriptions"].items():
                found.setdefault((event.group, topic), set()).add(expression or "*")
        elif event.kind == kinds.SUBSCRIBED:
            found.setdefault((event.group, event.topic), set()).add(event.details["expression"] or "*")
    return found


def described(evidence: Evidence, place: QueuePlace, offset: int) -> str:
    """Return a message in a few words."""
    message = evidence.by_place[place, offset]
    key = f"key {' '.join(message.keys)}, " if message.keys else ""
    return f"{key}id {message.message_id}"


def subscriptions(evidence: Evidence) -> list[Broken]:
    """All members of a group have the same subscriptions."""
    now: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    since: dict[str, int] = {}
    found: dict[str, Broken] = {}
    last_ms = evidence.ended_ms or (evidence.events[-1].real_ms if evidence.events else 0)
    for event in (*evidence.events, None):
        real_ms = last_ms if event is None else event.real_ms
        for group, began_ms in since.items():
            if real_ms - began_ms >= DIFFER_MS and group not in found:
                found[group] = _differing(group, now)
        if event is None or not event.group:
            continue
        members = now.setdefault((event.group, event.broker), {})
        if event.kind == kinds.JOINED:
            members[event.client] = dict(event.details["subscriptions"])
        elif event.kind == kinds.LEFT:
            members.pop(event.client, None)
        elif event.kind == kinds.SUBSCRIBED and event.client in members:
            members[event.client] = {**members[event.client], event.topic: event.details["expression"]}
        else:
            continue
        if _differ(event.group, now):
            since.setdefault(event.group, event.real_ms)
        else:
            since.pop(event.group, None)
    return list(found.values())


def _kept(subscriptions: dict[str, str]) -> dict[str, str]:
    return {topic: expression for topic, expression in subscriptions.items() if is_plain(topic) and expression}


def _differ(group: str, now: dict[tuple[str, str], dict[str, dict[str, str]]]) -> bool:
    for (name, _), members in now.items():
        kept = [_kept(one) for one in members.values()]
        if name == group and any(one != kept[0] for one in kept):
            return True
    return False


def _differing(group: str, now: dict[tuple[str, str], dict[str, dict[str, str]]]) -> Broken:
    members = {client: _kept(one) for (name, _), there in now.items() if name == group for client, one in there.items()}
    lines = [
        f"{client}: {', '.join(f'{topic} {expression}' for topic, expression in sorted(one.items())) or 'nothing'}"
        for client, one in members.items()
    ]
    words = (
        f"the members of {group} have different subscriptions: each gets queues with messages that only the other "
        "wants, and they are lost"
    )
    return Broken("subscriptions", group, words, tuple(lines))


def late_acks(evidence: Evidence) -> list[Broken]:
    """Popped messages are acknowledged within their invisible time."""
    if any(injected.fault.kind in AWAY and injected.hits for injected in evidence.injected):
        return []
    slack_ms = LATE_MS + _delays_ms(evidence)
    late: dict[str, list[tuple[int, JournalRecord]]] = {}
    for one in evidence.requests:
        if one.code != "ACK_MESSAGE":
            continue
        try:
            handle = parse_handle(one.fields.get("extraInfo"))
        except ProtocolError:
            continue
        late_ms = one.message_ms - handle.pop_time_ms - handle.invisible_ms
        if late_ms > slack_ms:
            late.setdefault(one.group, []).append((late_ms, one))
    return [_late(evidence, group, found) for group, found in sorted(late.items())]


def _late(evidence: Evidence, group: str, found: Sequence[tuple[int, JournalRecord]]) -> Broken:
    lines, ids = [], []
    for late_ms, one in found[:SHOWN_MAX]:
        place = QueuePlace(one.topic, one.broker, one.queue_id)
        message = evidence.by_place.get((place, one.queue_offset))
        if message is not None:
            ids.append(message.message_id)
        lines.append(
            f"{one.topic} queue {one.queue_id} offset {one.queue_offset}: acknowledged {late_ms:,} ms too late"
        )
    words = (
        f"{group} acknowledged {len(found)} message(s) after their invisible time: another consumer gets them while "
        "the first still works, and both do the work"
    )
    return Broken("late-ack", group, words, tuple(lines), tuple(ids))


def _delays_ms(evidence: Evidence) -> int:
    """Return by how much the weather may have delayed a client."""
    from staticfire.protocol.durations import parse_duration

    total = 0
    for injected in evidence.injected:
        words = dict(injected.fault.words)
        total += injected.hits * parse_duration(str(words["delay"])) if "delay" in words else 0
    return total


def transactions(evidence: Evidence) -> list[Broken]:
    """A transaction that its producer has committed isn't rolled back by its answer to a check."""
    found = []
    ends: dict[tuple[str, str], list[JournalRecord]] = {}
    for one in evidence.requests:
        if one.code == "END_TRANSACTION":
            name = str(one.fields.get("msgId") or one.fields.get("transactionId") or one.queue_offset)
            ends.setdefault((one.broker, name), []).append(one)
    for (_, name), requests in ends.items():
        outcomes = [one.fields.get("commitOrRollback") for one in requests]
        if COMMIT in outcomes and ROLLBACK in outcomes[outcomes.index(COMMIT) :]:
            group = str(requests[0].fields.get("producerGroup", ""))
            lines = [f"{one.client}: {_end_words(one)}" for one in requests]
            words = f"{group} committed a transaction, and rolled it back when the broker checked it"
            found.append(Broken("transaction", group, words, tuple(lines), (name,)))
    return found


def _end_words(request: JournalRecord) -> str:
    outcome = {COMMIT: "commit", ROLLBACK: "rollback"}.get(request.fields.get("commitOrRollback", 0), "unknown")
    return f"{outcome}, in answer to a check" if request.fields.get("fromTransactionCheck") else outcome


def left_open(evidence: Evidence, calm: Evidence) -> list[Broken]:
    """A program that still runs has consumed everything when the faults are over, as it had in calm weather."""
    if evidence.exit_code is not None or calm.exit_code is not None or evidence.was_stopped:
        return []
    found = []
    for (group, topic), left in sorted(evidence.open_at_limit.items()):
        if left and not calm.open_at_limit.get((group, topic)) and group != TOOLS_GROUP:
            words = (
                f"{group} has left {left:,} message(s) of {topic}, although all faults are over and the settling time "
                "has passed; in calm weather it left none"
            )
            found.append(Broken("consumed", group, words))
    return found
