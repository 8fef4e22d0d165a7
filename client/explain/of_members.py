"""Rules about members: none, silent or slow ones, too many, incompatible ones. Pure.

Each rule is a function of the facts that yields its findings. explanation.py has the order of all rules.
"""

from collections.abc import Iterable

from staticfire.client.admin.group_view import GroupMember, GroupWarning
from staticfire.client.explain.facts import GroupFacts, QueueFacts, total_backlog
from staticfire.client.explain.findings import ExplainFinding, ago, count, named, some
from staticfire.client.explain.of_offsets import pausing
from staticfire.client.explain.of_queues import has_stopped_polling, is_suspended, polls
from staticfire.protocol.documentation import page
from staticfire.protocol.durations import format_duration
from staticfire.protocol.names import retry_topic

PUSH = "CONSUME_PASSIVELY"
# An owner pulls at least this often: brokers hold a pull for 15 to 20 s at most.
SILENT_PULL_MS = 30_000
SLOW_RT_MS = 1_000
CAUSES_AMONG_WARNINGS = {
    "MIXED_MODELS": "let all members use one message model, or give one side a group of its own",
    "DIFFERENT_SUBSCRIPTIONS": "let all members subscribe to the same topics with the same expressions, or give each "
    "program a group of its own",
    "SAME_CLIENT_ID": "give each client an instance name of its own",
    "WAITING_MEMBER": "wait, or set stableTimeMs=0: staticfire change --group {group} --attribute stableTimeMs=0",
    "QUEUES_WITHOUT_OWNER": "check again in some seconds: members rebalance every 20 s, and release a queue for 10 s "
    "after its offset was reset; if the problem stays, restart the member that joined last",
}
NOTES_AMONG_WARNINGS = {
    "MIXED_LISTENERS": "use one kind of listener, or two groups",
    "FLAPPING_MEMBERS": f"let new members wait until they are stable (stableTimeMs): {page('groups')}",
    "QUEUES_WITH_SEVERAL_OWNERS": "check again in some seconds; if the problem stays, two clients use the same id",
}
# How long after a refusal it may explain that a group has no member. Clients try again every few seconds.
REFUSED_MS_MAX = 120_000
# How many reasons of refusals are shown.
REASONS_MAX = 3
TOLD_OTHERWISE = {"SILENT_MEMBER"}


def refused_by_tls(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """There is no member, and clients were refused a moment ago because of TLS, or because of plain text."""
    recent = [one for one in facts.refused_connections if facts.wall_ms - one.real_ms <= REFUSED_MS_MAX]
    if facts.members or not recent:
        return
    latest = {str(one.details.get("reason", "")): one for one in recent}
    when = ago(facts.wall_ms - recent[-1].real_ms)
    words = f"{count(len(recent), 'connection')} of clients closed because of TLS, the last one {when}"
    evidence = [f"{one.client} at {one.broker}: {reason}" for reason, one in list(latest.items())[-REASONS_MAX:]]
    yield ExplainFinding(
        "TLS_REFUSED", words, evidence, f"one of them may be a consumer of {facts.group}: {page('security')}"
    )


def no_member(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """No member has ever been there, or none is now."""
    group = facts.group
    if any(one.group == group for one in facts.refused):
        return  # Its consumers were refused, which has its own finding.
    if not facts.is_known:
        similar = f"; is it {named(facts.similar)}?" if facts.similar else ""
        words = f"no broker knows a group {group}: no consumer of that name has ever connected{similar}"
        way_out = f"start a consumer of {group} with this nameserver; to list all groups: staticfire groups"
        if facts.similar:
            way_out = f"staticfire explain {facts.similar[0]}; {way_out}"
        yield ExplainFinding("UNKNOWN_GROUP", words, way_out=way_out)
    elif not facts.members:
        last = facts.left[-1] if facts.left else None
        evidence = []
        if last is not None:
            reason = last.details.get("reason", "")
            evidence.append(f"{last.client} left {ago(facts.wall_ms - last.real_ms)}: {reason}")
        words = f"{group} has no member, so no client consumes its messages"
        yield ExplainFinding("NO_MEMBER", words, evidence, "start a consumer; if one runs, it uses another nameserver")


def warned_of(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Problems that brokers have found, and problems in the distribution of queues."""
    for warning in facts.view.warnings:
        if warning.kind in TOLD_OTHERWISE or (warning.kind == "QUEUES_WITHOUT_OWNER" and not _without_owner(facts)):
            continue
        yield _of_warning(facts, warning)


def _without_owner(facts: GroupFacts) -> bool:
    """Whether queues without an owner have messages, apart from those of a recent reset, which has its own finding."""
    left = [queue for queue in facts.queues() if queue.backlog and not queue.owners]
    return len(left) > len(pausing(facts))


def _of_warning(facts: GroupFacts, warning: GroupWarning) -> ExplainFinding:
    is_cause = warning.kind in CAUSES_AMONG_WARNINGS
    way_out = CAUSES_AMONG_WARNINGS.get(warning.kind) or NOTES_AMONG_WARNINGS.get(warning.kind, "")
    return ExplainFinding(warning.kind, warning.words, [], way_out.format(group=facts.group), is_cause)


def silent(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Members that are connected but don't respond, and owners that don't pull."""
    for member in facts.members:
        if member.silence:
            has = [queue for queue in facts.queues() if member.client_id in queue.owners]
            words = f"{member.client_id} is connected from {member.address} and doesn't respond: {member.silence}"
            way_out = "check its process: it may be frozen, stopped in a debugger, or in a long garbage collection"
            yield ExplainFinding("SILENT_MEMBER", words, some(_behind(has)), way_out)
    for queue in facts.queues():
        if queue.is_popped or not _is_left(facts, queue) or not _is_late(facts, queue):
            continue
        pulled = ago(facts.wall_ms - queue.last_pull_ms) if queue.last_pull_ms else "never"
        words = f"{queue.owners[0]} owns {queue.place} and doesn't pull from it: last pull {pulled}, "
        words += f"{queue.backlog:,} behind"
        way_out = "it is suspended, or its flow control stops it: resume it, or check its log and threads"
        if polls(facts, queue):
            way_out = "its program has paused that queue: call consumer.resume([queue]), or check its log"
        yield ExplainFinding("OWNER_DOES_NOT_PULL", words, [], way_out)


def stopped_polling(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Lite pull consumers that have messages but no longer poll. One finding for each."""
    for member in facts.members:
        queues = [one for one in facts.queues() if member.client_id in one.owners and has_stopped_polling(facts, one)]
        if member.polls and queues:
            last = f"its program last polled {ago(facts.wall_ms - member.last_poll_ms)}"
            last = last if member.last_poll_ms else "its program has committed nothing for half a minute"
            words = f"{count(total_backlog(queues), 'message')} available for {member.client_id} to poll; {last}"
            evidence = some(
                f"{one.place}: {one.backlog:,} behind, {one.cached:,} pulled and not polled" for one in queues
            )
            way_out = "check what the program does instead of calling poll; the messages of its last poll count as "
            way_out += "done only when it polls again or commits"
            yield ExplainFinding("STOPPED_POLLING", words, evidence, way_out)


def do_not_ask(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Members that pop, but sent no request since messages arrived. Simple consumers do so when their program does."""
    is_push = facts.view.consume_type == PUSH
    left: dict[tuple[str, ...], list[QueueFacts]] = {}
    for queue in facts.queues():
        if not queue.is_popped or queue.taken_in_order:
            continue  # Until what was popped in order is acknowledged, a request gets nothing.
        if _is_left(facts, queue) and (_is_late(facts, queue) or not is_push):
            left.setdefault(tuple(queue.owners), []).append(queue)
    for owners, queues in left.items():
        last_ms = max(queue.last_pull_ms for queue in queues)
        words = f"{count(total_backlog(queues), 'message')} available for {named(owners)} to pop: "
        words += f"last request {ago(facts.wall_ms - last_ms)}" if last_ms else "no request so far"
        way_out = "a member that pops gets no message by itself: it must call receive as long as there are messages"
        if is_push:
            way_out = "it pops, and is suspended, or its flow control stops it: resume it, or check its log and threads"
        is_cause = any(_is_late(facts, queue) for queue in queues)
        yield ExplainFinding("MEMBER_DOES_NOT_ASK", words, some(_behind(queues)), way_out, is_cause)


def _is_left(facts: GroupFacts, queue: QueueFacts) -> bool:
    """Whether a queue has messages that its owner, which responds, hasn't taken."""
    is_connected = bool(queue.owners) and not _is_silent(facts, queue.owners[0]) and facts.wall_ms > 0
    return is_connected and queue.backlog > 0 and queue.cached == 0


def _is_late(facts: GroupFacts, queue: QueueFacts) -> bool:
    return facts.wall_ms - queue.last_pull_ms > SILENT_PULL_MS


def _is_silent(facts: GroupFacts, client_id: str) -> bool:
    return any(member.client_id == client_id and bool(member.silence) for member in facts.members)


def _behind(queues: Iterable[QueueFacts]) -> Iterable[str]:
    return (f"{queue.place}: {queue.backlog:,} behind" for queue in queues if queue.backlog)


def listeners(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Listeners that always fail, or take long."""
    for member in facts.members:
        for topic, speed in member.consumption.items():
            if topic == retry_topic(facts.group):
                continue
            if any(is_suspended(facts, one) for one in facts.queues() if one.queue.topic == topic):
                continue
            if speed.consume_failed_tps > 0 and speed.consume_ok_tps == 0:
                words = f"every call of {member.client_id}'s listener for {topic} fails"
                evidence = [f"{speed.consume_failed_tps:.1f} failed calls a second, none that succeeds"]
                way_out = "check its log; to list the messages: staticfire journal sentBack --group " + facts.group
                if member.in_order:
                    way_out = "check its log; a message that fails is tried again, and its queue waits for it"
                yield ExplainFinding("FAILING_LISTENER", words, evidence, way_out)
            elif speed.consume_rt >= SLOW_RT_MS and _lag_of(facts, member, topic):
                yield _slow(facts, member, topic, speed.consume_rt)


def _slow(facts: GroupFacts, member: GroupMember, topic: str, rt_ms: float) -> ExplainFinding:
    lag = _lag_of(facts, member, topic)
    words = f"{member.client_id}'s listener for {topic} is slow: {rt_ms:,.0f} ms a call, {count(lag, 'message')} behind"
    way_out = "make it faster, give it more threads, or start more members (at most one per queue works)"
    return ExplainFinding("SLOW_LISTENER", words, [], way_out)


def _lag_of(facts: GroupFacts, member: GroupMember, topic: str) -> int:
    return sum(
        queue.backlog for queue in facts.queues() if queue.queue.topic == topic and member.client_id in queue.owners
    )


def idle(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Members without a queue, because there are more members than queues."""
    if facts.is_broadcast or any(member.silence for member in facts.members):
        return
    for topic, wanted in facts.subscribed().items():
        clients = sorted({client for clients in wanted.values() for client in clients})
        known = facts.topics.get(topic)
        if known is None or not known.queues or len(clients) <= len(known.queues):
            continue
        owners = {owner for queue in known.queues for owner in queue.owners}
        without = [client for client in clients if client not in owners]
        if without:
            words = f"{topic} has {count(len(known.queues), 'queue')} for {len(clients)} members: "
            words += f"{named(without)} {'gets' if len(without) == 1 else 'get'} no queue"
            most = max(len(clients), *map(max, known.shapes.values()))
            way_out = f"add queues: staticfire change {topic} --queues {most}"
            yield ExplainFinding("MORE_MEMBERS_THAN_QUEUES", words, [], way_out, is_cause=False)


def just_joined(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Members that have joined just now."""
    joined = [
        (member.client_id, facts.wall_ms - member.joined_ms)
        for state in facts.states.values()
        for member in state.members
        if member.joined_ms and facts.wall_ms - member.joined_ms < 1_000
    ]
    if joined and total_backlog(facts.queues()):
        young = dict(joined)
        words = f"{named(sorted(young))} joined less than a second ago: the queues may not have their new owners yet"
        evidence = [f"{client}: {format_duration(max(0, age))}" for client, age in sorted(young.items())]
        yield ExplainFinding("JUST_JOINED", words, evidence, "check again in a second", is_cause=False)
