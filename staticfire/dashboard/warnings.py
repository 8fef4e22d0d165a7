"""What an action will do, with current numbers. Each function returns sentences. Raises: Refused."""

from collections.abc import Mapping
from typing import Any

from staticfire.dashboard.calls import Calls, Refused
from staticfire.protocol.nouns import counted

Form = Mapping[str, str]
LISTED_MAX = 12
PERM_WORDS = {2: "write only", 4: "read only", 6: "read and write"}


async def delete_topic(calls: Calls, form: Form) -> list[str]:
    """Return what is deleted with a topic, and who reads it."""
    facts = await calls.get("/topics/{topic}", form)
    words = [
        f"Topic {facts['topic']} is deleted on {counted(len(facts['brokers']), 'broker')}, "
        f"with {counted(facts['messages'], 'message')}."
    ]
    readers = [f"{one['group']} ({counted(one['members'], 'member')})" for one in facts["groups"]]
    words += [f"These groups read it, and lose their offsets: {', '.join(readers)}."] if readers else []
    return [*words, "It can't be undone. A program that sends to it creates it again, if brokers create topics."]


def changes(before: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> list[str]:
    """Return what changes, a sentence for each value that isn't the same before."""
    found = []
    for name, value in wanted.items():
        if name == "attributes":
            found += changes(before.get("attributes") or {}, value, where)
        elif before.get(name) != value:
            words = _word(name, before.get(name)), _word(name, value)
            found.append(f"{where}: {name} changes from {words[0]} to {words[1]}.")
    return found


def _word(name: str, value: object) -> str:
    """Return how a value is called."""
    if name == "perm" and isinstance(value, int):
        return PERM_WORDS.get(value, str(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "nothing" if value is None else str(value)


NOTHING = ["Nothing changes: all values are as they are now, or the form is empty."]


async def change_topic(calls: Calls, form: Form, wanted: Mapping[str, Any]) -> list[str]:
    """Return which values of a topic change, on each broker, and what fewer queues or a lost permission mean."""
    facts = await calls.get("/topics/{topic}", form)
    named = {**wanted}
    queues = named.pop("queues", None)
    if queues is not None:
        named = {"readQueues": queues, "writeQueues": queues, **named}
    words: list[str] = []
    for one in facts["brokers"]:
        words += changes(one, named, str(one["broker"]))
    if not words:
        return NOTHING
    most = max((one.get("readQueues", 0) for one in facts["brokers"]), default=0)
    if isinstance(queues, int) and queues < most:
        words.append("Messages in the queues that are left out can't be read any more, until they are added again.")
    if any(one["members"] for one in facts["groups"]):
        words.append("Its consumers are rebalanced if the number of queues changes.")
    return words


async def change_group(calls: Calls, form: Form, wanted: Mapping[str, Any]) -> list[str]:
    """Return which values of a group change, on each broker."""
    facts = await calls.get("/groups/{group}", form)
    words = [line for one in facts["brokers"] for line in changes(one, wanted, str(one["broker"]))]
    if words and wanted.get("consume") is False:
        words.append("Its members get no messages until it may consume again.")
    return words or NOTHING


async def delete_group(calls: Calls, form: Form) -> list[str]:
    """Return what is deleted with a group."""
    view = await calls.get("/group/{group}", form)
    words = [
        f"Group {view['group']} is deleted, with its offsets and {counted(view['deadLetters'], 'dead letter')}. "
        f"It hasn't consumed {counted(view['lag'], 'message')} yet."
    ]
    if view["members"]:
        words.append(f"{counted(len(view['members']), 'member')} consume now. They create it again, without offsets.")
    return [*words, "It can't be undone."]


def target_of(form: Form) -> str:
    """Return where offsets are reset to: one of the choices, or a time."""
    return form.get("to", "").strip() or form.get("time", "").strip()


async def reset_offsets(calls: Calls, form: Form) -> list[str]:
    """Return where each queue's offset moves, as a dry run shows."""
    body = {"topic": form.get("topic", ""), "to": target_of(form), "preview": True}
    dry_run = await calls.preview("/groups/{group}/offsets", form, body)
    moves = [one for one in dry_run["queues"] if one["before"] != one["after"]]
    words = [
        f"{dry_run['group']} moves in {dry_run['topic']}: {counted(dry_run['again'], 'message')} will be delivered "
        f"again, {counted(dry_run['skipped'], 'message')} will be skipped."
    ]
    words += [f"{one['broker']}/{one['queue']}: {one['before']:,} to {one['after']:,}" for one in moves[:LISTED_MAX]]
    more = len(moves) - LISTED_MAX
    return [*words, *([f"and {more} more queues"] if more > 0 else [])]


async def consume(calls: Calls, form: Form) -> list[str]:
    """Return which member gets the message."""
    view = await calls.get("/group/{group}", form)
    if not view["members"]:
        return [f"Group {view['group']} has no member that could consume it. Start a consumer first."]
    client = form.get("client") or view["members"][0]["clientId"]
    return [
        f"Member {client} of {view['group']} consumes message {form.get('id', '')} now.",
        "It does so even if the group has consumed it before. No offset changes.",
    ]


async def resend(calls: Calls, form: Form) -> list[str]:
    """Return how many letters are sent, and to which groups."""
    ids = form.get("ids", "").split()
    if form.get("chosen") and not ids:
        raise Refused(400, {"error": "No dead letter is chosen. Choose some by their boxes, or resend all."})
    found = await calls.get("/dlq/{group}", form, max=1)
    number = len(ids) or found["count"]
    to = form.get("to", "").strip()
    if form.get("onlyGroup") == "1":
        where = f"only group {found['group']} gets them"
    else:
        where = f"to topic {to}" if to else "to the topics that they came from, where all groups get them"
    again = "" if ids or form.get("again") == "1" else " Those that were sent again before are left out."
    return [f"{counted(number, 'dead letter')} will be sent again, {where}.{again}", "The dead letters are kept."]
