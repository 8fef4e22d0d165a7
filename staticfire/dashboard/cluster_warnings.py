"""What an action on the clock, on faults or on snapshots will do, with current numbers. Raises: Refused."""

from collections.abc import Mapping
from typing import Any

from staticfire.control.clock import MODES
from staticfire.dashboard.calls import Calls, Refused
from staticfire.dashboard.warnings import LISTED_MAX, Form
from staticfire.protocol.durations import format_moment, parse_duration, parse_moment
from staticfire.protocol.errors import UsageError
from staticfire.protocol.nouns import counted
from staticfire.protocol.requests.clock import RATE_MAX
from staticfire.protocol.requests.snapshots import snapshot_name_fault

DUE_MAX = 1_000
FROZEN, SKIPPING, SCALED = "frozen", "skipping", "scaled"
KILL, FREEZE = "kill", "freeze"
UNDONE = {KILL: "A process that it has killed is started again.", FREEZE: "A process that it has suspended continues."}
"""What happens to a process when a rule about it ends, by the rule's action."""


# -- the clock --------------------------------------------------------------------------------------------------------


async def set_clock(calls: Calls, wanted: Mapping[str, Any]) -> list[str]:
    """Return how message time runs afterwards, and its effect on waiting messages. Raises: Refused (no such mode)."""
    mode, rate = wanted["mode"], wanted.get("rate")
    if mode not in MODES or (mode == SCALED and not (isinstance(rate, float) and 0 < rate <= RATE_MAX)):
        raise Refused(400, {"error": f"{mode} {rate or ''} isn't a mode of the clock; a rate is at most {RATE_MAX:g}"})
    clock, waiting = await calls.get("/clock"), await calls.get_if_any("/waiting", max=1)
    now = clock["messageTime"]
    if mode == clock["mode"] and (mode != SCALED or rate == clock["rate"]):
        return [f"Nothing changes: the clock is {mode} already, at {now}."]
    number = sum(waiting.get("counts", {}).values())
    held = f"{counted(number, 'message')}{'' if waiting.get('isAll', True) else ' or more'}"
    due = f", the first at {clock['nextDueTime']}" if clock["nextDueTime"] else ""
    means = {
        "real": f"Message time runs at normal speed, from {now} on.",
        FROZEN: f"Message time stops at {now}. Nothing that waits is delivered until it is advanced or runs again.",
        SKIPPING: f"Message time jumps from {now} to whatever is due next, again and again, whenever consumers are at "
        "rest. So everything that waits is delivered soon. It never moves back.",
        SCALED: f"Message time runs {rate or 1:g} times as fast as real time, from {now} on. It never moves back.",
    }
    return [f"The clock changes from {clock['mode']} to {mode}.", means[mode], f"Now waiting: {held}{due}."]


async def advance(calls: Calls, form: Form) -> list[str]:
    """Return the times between which message time moves, and what becomes due. Raises: Refused (unreadable)."""
    clock = await calls.get("/clock")
    by, to = form.get("by", "").strip(), form.get("to", "").strip()
    try:
        target_ms = clock["messageMs"] + parse_duration(by) if by else parse_moment(to)
    except UsageError as error:
        raise Refused(400, {"error": str(error)}) from None
    waiting = (await calls.get_if_any("/waiting", max=DUE_MAX)).get("messages", [])
    due = sum(one["dueMs"] <= target_ms for one in waiting)
    more = " or more" if due == DUE_MAX else ""
    return [
        f"Message time moves from {clock['messageTime']} to {format_moment(target_ms)}. It never moves back.",
        f"{counted(due, 'message')}{more} that {'waits is' if due == 1 else 'wait are'} due on the way, and delivered. "
        "Retries that they cause may be due, too. The response comes when consumers are at rest.",
    ]


# -- faults -----------------------------------------------------------------------------------------------------------


async def add_fault(calls: Calls, words: Mapping[str, Any]) -> list[str]:
    """Return what a rule does, and at which servers."""
    rule = await calls.preview("/faults", {}, {**words, "preview": True})
    where = ", ".join(rule["hits"])
    ends = "for its lifetime" if rule["leftMs"] >= 0 else "until it is removed"
    effects = {
        KILL: f"The process of {where} ends at once, without a chance to save anything, and stays away {ends}.",
        FREEZE: f"The process of {where} doesn't respond {ends}.",
    }
    effect = next((effects[one] for one in effects if words.get(one)), f"It applies {ends}, to all programs.")
    # Each server decides by itself whether it handles such requests.
    which = ", if it handles such requests" if words.get("code") else ""
    return [f"A rule is added at {where}{which}: {rule['words']}.", effect]


async def remove_fault(calls: Calls, form: Form) -> list[str]:
    """Return which rule ends. Raises: Refused (it is gone)."""
    rules = (await calls.get("/faults"))["faults"]
    found = next((one for one in rules if str(one["number"]) == form.get("number", "").strip()), None)
    if found is None:
        # Another person may have removed it meanwhile, or its lifetime is over.
        raise Refused(404, {"error": f"there is no fault rule {form.get('number', '')} any more"})
    others = len(rules) - 1
    left = f"{counted(others, 'other rule')} stay{'s' if others == 1 else ''}." if others else "There is no other rule."
    return [f"Rule {_named(found)} is removed.", *_undone([found]), left]


async def clear_faults(calls: Calls, _: Form) -> list[str]:
    """Return which rules end."""
    rules = (await calls.get("/faults"))["faults"]
    if not rules:
        return ["There is no rule. Nothing changes."]
    words = [f"{counted(len(rules), 'rule')} {'is' if len(rules) == 1 else 'are'} removed:"]
    words += [f"Rule {_named(one)}" for one in rules[:LISTED_MAX]]
    more = len(rules) - LISTED_MAX
    return [*words, *([f"and {counted(more, 'more rule')}"] if more > 0 else []), *_undone(rules)]


def _named(rule: Mapping[str, Any]) -> str:
    """Return a rule with its effect until now: `3 (SEND_MESSAGE: drop) at broker-a, which has 7 hits`."""
    hits = sum(rule["hits"].values())
    return f"{rule['number']} ({rule['words']}) at {', '.join(rule['hits'])}, which has {counted(hits, 'hit')},"


def _undone(rules: list[dict[str, Any]]) -> list[str]:
    """Return what happens to the processes that rules have killed or suspended."""
    return [words for action, words in UNDONE.items() if any(f"process: {action}" in one["words"] for one in rules)]


# -- snapshots, and the whole cluster ---------------------------------------------------------------------------------


async def save_snapshot(calls: Calls, form: Form) -> list[str]:
    """Return what is saved, and which snapshot is lost by it. Raises: Refused (not a name)."""
    name = form.get("name", "").strip()
    if fault := snapshot_name_fault(name):
        raise Refused(400, {"error": fault})
    summary = await calls.get("/overview")
    words = [
        f"The whole cluster is saved as snapshot {name}: {counted(summary['topics'], 'topic')}, "
        f"{_counted(summary['groups'], 'group')}, and all messages and offsets.",
        *_silent_brokers(summary),
    ]
    try:
        found = await _snapshot(calls, name)
    except Refused:
        if summary["silent"]:
            return words  # The list of snapshots needs all brokers.
        raise
    if found is None:
        return [*words, "Nothing else changes."]
    return [*words, f"It replaces the snapshot {name} that exists, with {_held(found)}. That can't be undone."]


async def _snapshot(calls: Calls, name: str) -> dict[str, Any] | None:
    """Return a snapshot; None if it doesn't exist."""
    found: list[dict[str, Any]] = (await calls.get("/snapshots"))["snapshots"]
    return next((one for one in found if one["name"] == name), None)


async def _chosen_snapshot(calls: Calls, form: Form) -> dict[str, Any]:
    """Return the snapshot that a form names. Raises: Refused (it is gone)."""
    name = form.get("name", "")
    found = await _snapshot(calls, name)
    if found is None:
        raise Refused(404, {"error": f"there is no snapshot {name} any more"})
    return found


def _held(snapshot: Mapping[str, Any]) -> str:
    return f"{counted(snapshot['messages'], 'message')} in {counted(len(snapshot['topics']), 'topic')}"


async def restore(calls: Calls, form: Form) -> list[str]:
    """Return what is lost by a restore. Raises: Refused (it is gone)."""
    found = await _chosen_snapshot(calls, form)
    return [
        f"All topics, messages, groups and offsets become those of snapshot {found['name']}: {_held(found)}.",
        "What was sent since then is lost. Fault rules are removed. Clients stay connected.",
    ]


async def remove_snapshot(calls: Calls, form: Form) -> list[str]:
    """Return that the snapshot can't be restored any more. Raises: Refused (it is gone)."""
    found = await _chosen_snapshot(calls, form)
    words = f"Snapshot {found['name']} is removed, with {_held(found)}, and can't be restored any more."
    return [words, "The cluster doesn't change."]


def _counted(number: int | None, noun: str) -> str:
    """Return a number with its noun; None: it isn't known."""
    return f"an unknown number of {noun}s" if number is None else counted(number, noun)


def _silent_brokers(summary: Mapping[str, Any]) -> list[str]:
    """Return that brokers don't respond, and what that means for a change of all brokers."""
    silent: list[str] = summary["silent"]
    if not silent:
        return []
    words = f"{', '.join(silent)} {'does' if len(silent) == 1 else 'do'}n't respond now"
    return [f"{words}: the change needs all brokers, so it may fail when other brokers have changed already."]


async def reset(calls: Calls, _: Form) -> list[str]:
    """Return what the cluster loses."""
    summary = await calls.get("/overview")
    return [
        f"{counted(summary['topics'], 'topic')} with all messages, {_counted(summary['groups'], 'group')} with their "
        f"offsets, and {_counted(summary['deadLetters'], 'dead letter')} are deleted. Fault rules are removed.",
        *_silent_brokers(summary),
        "It can't be undone. Snapshots are kept.",
    ]
