"""Rules about requests that brokers refused, because of a key, a signature or a policy. Pure.

RocketMQ's consumers show no error when a broker refuses their heartbeats: they start, and get nothing, for ever.
"""

from collections.abc import Iterable

from staticfire.client.explain.facts import GroupFacts
from staticfire.client.explain.findings import ExplainFinding, ago, count, some
from staticfire.protocol.documentation import page
from staticfire.protocol.requests.access import RefusedAccess

NO_KEY, UNKNOWN, DISABLED, WRONG_SIGNATURE = "no access key", "unknown user", "disabled user", "wrong signature"
HEARTBEAT, TRACE_TOPIC = "HEART_BEAT", "Topic:RMQ_SYS_TRACE_TOPIC"
# A client that still runs repeats its request within this time: heartbeats come every 30 s.
REPEATED_MS = 65_000
WHAT = {
    HEARTBEAT: "heartbeats",
    "HeartbeatRequest": "heartbeats",
    "TelemetryCommand": "settings (Telemetry)",
    "PULL_MESSAGE": "pulls",
    "POP_MESSAGE": "receives",
    "ReceiveMessageRequest": "receives",
    "GET_CONSUMER_LIST_BY_GROUP": "requests for the group's members",
    "CONSUMER_SEND_MSG_BACK": "returns of failed messages",
    "QUERY_CONSUMER_OFFSET": "requests for offsets",
    "UPDATE_CONSUMER_OFFSET": "commits of offsets",
    "GET_MAX_OFFSET": "requests for the ends of queues",
    "GET_MIN_OFFSET": "requests for the beginnings of queues",
    "SEARCH_OFFSET_BY_TIMESTAMP": "searches for offsets by time",
}
OTHERS_MAX = 3
_SENDS = ("SEND_", "SendMessage")
ENDPOINTS_REQUEST = "JUDGE_CALL"
"""What a gRPC endpoint requests of a broker before each call of its clients."""


def refused(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Requests of the group that brokers refuse, then sends to its topics."""
    now_ms = facts.wall_ms
    recent = [one for one in facts.refused if now_ms - one.last_ms <= REPEATED_MS]
    yield from _endpoints(facts, [one for one in recent if one.request == ENDPOINTS_REQUEST])
    own = [one for one in recent if _is_own(one, facts)]
    shown: set[tuple[str, str, str]] = set()
    for one in sorted(own, key=lambda one: (one.request not in (HEARTBEAT, "HeartbeatRequest"), one.request)):
        key = one.user, one.resource, one.reason
        if key not in shown:
            shown.add(key)
            same = [other for other in own if (other.user, other.resource, other.reason) == key]
            yield _finding(f"{facts.group}'s {WHAT.get(one.request, one.request)} are refused", one, same, now_ms)
    topics = {f"Topic:{name}" for name in facts.topics}
    for one in recent:
        if one.request.startswith(_SENDS) and one.resource in {*topics, TRACE_TOPIC} and not one.group:
            name = one.resource.partition(":")[2]
            note = "sends succeed all the same; only their traces are missing" if one.resource == TRACE_TOPIC else ""
            yield _finding(f"sends to {name} are refused", one, [one], now_ms, note, is_cause=one.resource in topics)
    if not own and not facts.members:
        yield from _others(recent, now_ms)


def _is_own(one: RefusedAccess, facts: GroupFacts) -> bool:
    """Return whether a request is the group's: it names it, or a member sent it about a topic of the group.

    Requests about the ends of queues name no group. A new group needs them to begin.
    """
    if one.group or one.request.startswith(_SENDS):
        return one.group == facts.group
    members = {member.client_id for member in facts.members}
    return one.client in members and one.resource in {f"Topic:{name}" for name in facts.topics}


def _others(recent: list[RefusedAccess], now_ms: int) -> Iterable[ExplainFinding]:
    """Refused requests that name no group, if there is no member: another program may do that for the group's clients.

    RocketMQ's own proxy creates a topic before anything else, and ends if it may not.
    """
    others = [one for one in recent if not one.group and not one.request.startswith(_SENDS)]
    for one in [each for each in others if each.request != ENDPOINTS_REQUEST][:OTHERS_MAX]:
        yield _finding(f"{one.request} of {one.client} is refused", one, [one], now_ms, is_cause=False)


def _endpoints(facts: GroupFacts, refused: list[RefusedAccess]) -> Iterable[ExplainFinding]:
    """gRPC endpoints that brokers refuse: no client of theirs gets through, so none of them is refused itself."""
    for client in dict.fromkeys(one.client for one in refused):
        same = [one for one in refused if one.client == client]
        words = f"the gRPC endpoint at {client} refuses all its clients, because brokers refuse it: {_why(same[0])[0]}"
        way_out = "start it with the brokers' setting innerClientAuthenticationCredentials"
        yield ExplainFinding("REFUSED_ACCESS", words, [], way_out, is_cause=not facts.members)


def _finding(
    words: str, one: RefusedAccess, same: list[RefusedAccess], now_ms: int, note: str = "", is_cause: bool = True
) -> ExplainFinding:
    evidence = [
        f"{other.request} of {other.client}: {count(other.count, 'time')}, last {ago(now_ms - other.last_ms)}"
        for other in same
    ]
    why, way_out = _why(one)
    return ExplainFinding(
        "REFUSED_ACCESS", f"{words}: {why}", some([*evidence, *([note] if note else [])]), way_out, is_cause
    )


def _why(one: RefusedAccess) -> tuple[str, str]:
    """Return why, and the fix."""
    if one.reason == NO_KEY:
        return "no access key was sent", (
            "give the client an access key and its secret: in Java new AclClientRPCHook(new SessionCredentials(key, "
            f"secret)); in staticfire's clients ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY: {page('access')}"
        )
    if one.reason == UNKNOWN:
        return f"there is no user {one.user}", f"staticfire user add {one.user} --secret SECRET"
    if one.reason == DISABLED:
        return f"user {one.user} is disabled", f"staticfire user change {one.user} --enable"
    if one.reason == WRONG_SIGNATURE:
        return f"the signature of user {one.user} is wrong", (
            "the client's secret isn't the user's, or something changed header fields after they were signed (an RPC "
            f"hook after AclClientRPCHook); to set the secret: staticfire user change {one.user} --secret SECRET"
        )
    return _not_permitted(one)


def _not_permitted(one: RefusedAccess) -> tuple[str, str]:
    actions = " or ".join(one.actions)
    action = next((name for name in ("Sub", "Pub") if name in one.actions), one.actions[0] if one.actions else "All")
    if not one.resource:
        return f"user {one.user} isn't an admin account", "set admin: true for the account in plain_acl.yml"
    words, way_out = (
        f"user {one.user} may not {actions} on {one.resource}",
        f"staticfire allow {one.user} {one.resource} {action}",
    )
    if not one.similar:
        return words, way_out
    return f"{words}, but on {one.similar}", (
        "the namespace of the client is missing or wrong: set it (in Java setNamespace), or write it before "
        f"the name; to permit the name without it: {way_out}"
    )
