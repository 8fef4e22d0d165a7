"""What a page can change: for each action a call of the control endpoint, a warning before it, and a sentence after it.

Every action that doesn't only create or send something has `warn`: its page describes what will change, with current
numbers, and only the button on that page carries it out.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from staticfire.dashboard import cluster_warnings, warnings
from staticfire.dashboard.addresses import address
from staticfire.dashboard.calls import BY_NAME, Calls, check_names
from staticfire.dashboard.views.faults import FIELDS, FLAGS
from staticfire.protocol.nouns import counted

YES_NO = ("yes", "no")
Form = Mapping[str, str]
Warn = Callable[[Calls, Form], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class PageAction:
    """One action."""

    name: str
    title: str
    method: str
    path: str
    back: str
    """The page to return to, with placeholders."""
    done: Callable[[dict[str, Any]], str]
    """Returns the sentence that is shown afterwards, from the response."""
    body: Callable[[Form], dict[str, Any]] | None = None
    query: tuple[str, ...] = ()
    warn: Warn | None = None
    """Returns what will change, in sentences. None: the action only creates or sends something."""

    @property
    def ends_with_caller(self) -> bool:
        """Whether the call ends when the page that requested it is left."""
        return BY_NAME[self.method, self.path].ends_with_caller

    async def carry_out(self, calls: Calls, form: Form) -> str:
        """Carry it out; return the sentence that is shown afterwards. Raises: Refused."""
        query = {name: form[name].strip() for name in self.query if form.get(name, "").strip()}
        body = None if self.body is None else self.body(form)
        return self.done(await calls.ask(self.method, self.path, form, query, body))

    async def warnings(self, calls: Calls, form: Form) -> list[str]:
        """Return what will change, in sentences. Raises: Refused."""
        check_names(self.method, self.path, form)
        return [] if self.warn is None else await self.warn(calls, form)

    def back_from(self, form: Form) -> str:
        """Return the address of the page to return to."""
        return address(self.back, form)


def given(form: Form, *names: str) -> dict[str, str]:
    """Return the fields of a form that aren't empty."""
    return {name: form[name].strip() for name in names if form.get(name, "").strip()}


def whole(form: Form, **fields: str) -> dict[str, Any]:
    """Return fields as whole numbers, under the names of the call. Another text is passed on: the call refuses it."""
    found: dict[str, Any] = {}
    for name, field in fields.items():
        text = form.get(field, "").strip()
        if text:
            found[name] = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else text
    return found


def _new_topic(form: Form) -> dict[str, Any]:
    kind = form.get("kind", "").strip()
    attributes = {"attributes": {"message.type": kind}} if kind else {}
    return {"topic": form.get("topic", ""), **whole(form, queues="queues"), **attributes}


def _topic_change(form: Form) -> dict[str, Any]:
    """Return the values of a topic that a form gives. Empty fields aren't changed."""
    kind = form.get("kind", "").strip()
    order = form.get("order", "").strip()
    return {
        **whole(form, queues="queues", perm="perm"),
        **({"order": order == "yes"} if order in YES_NO else {}),
        **({"attributes": {"message.type": kind}} if kind else {}),
    }


def _group_change(form: Form) -> dict[str, Any]:
    """Return the values of a group that a form gives. Empty fields aren't changed."""
    fields = {name: form.get(name, "").strip() for name in ("consume", "broadcast", "orderly")}
    return {
        **whole(form, retries="retries"),
        **{name: text == "yes" for name, text in fields.items() if text in YES_NO},
    }


def _changed(what: str) -> Callable[[dict[str, Any]], str]:
    def words(reply: dict[str, Any]) -> str:
        return f"{what.capitalize()} {reply[what]} was changed."

    return words


def _message(form: Form) -> dict[str, Any]:
    keys = form.get("keys", "").split()
    return {
        "body": form.get("body", ""),
        **given(form, "tags", "delay", "deliverAt", "orderKey"),
        **({"keys": keys} if keys else {}),
    }


def _resend(form: Form) -> dict[str, Any]:
    ids = form.get("ids", "").split()
    # With none of the boxes chosen, no ids are given: that doesn't mean all letters.
    chosen: dict[str, Any] = {"ids": ids} if ids or form.get("chosen") else {"all": True}
    return {**chosen, **given(form, "to"), "onlyGroup": form.get("onlyGroup") == "1", "again": form.get("again") == "1"}


def _fault(form: Form) -> dict[str, Any]:
    words = given(form, *(name for name, _, _ in FIELDS))
    action = form.get("action", "")
    return {**words, action: True if action in FLAGS else form.get("value", "").strip()}


def _mode(form: Form) -> dict[str, Any]:
    rate = form.get("rate", "").strip()
    mode = {"mode": form.get("mode", "")}
    if mode["mode"] != "scaled":
        return mode
    try:
        return {**mode, "rate": float(rate or "60")}
    except ValueError:
        return {**mode, "rate": rate}


def _resent(reply: dict[str, Any]) -> str:
    left = f" {len(reply['left'])} could not be sent: {reply['left'][0]['reason']}." if reply["left"] else ""
    others = ", ".join(reply["otherGroups"])
    also = f" These groups get them, too: {others}." if others else ""
    if reply["otherGroupsUnknown"]:
        also += f" Other groups may get them, too: {'; '.join(reply['otherGroupsUnknown'])}."
    resent = sum(reply["resent"].values())
    return f"{counted(resent, 'dead letter')} sent again, {reply['skipped']} had been sent before.{left}{also}"


def _advanced(reply: dict[str, Any]) -> str:
    return f"It is {reply['messageTime']} now; {reply['delivered']} messages were delivered on the way."


ACTIONS = {
    one.name: one
    for one in (
        PageAction(
            "create-topic", "Create a topic", "POST", "/topics", "/topics/{topic}",
            lambda reply: f"Topic {reply['topic']} {'was created' if reply['created'] else 'exists already'}.",
            _new_topic,
        ),
        PageAction(
            "change-topic", "Change a topic", "PATCH", "/topics/{topic}", "/topics/{topic}", _changed("topic"),
            _topic_change, warn=lambda calls, form: warnings.change_topic(calls, form, _topic_change(form)),
        ),
        PageAction(
            "delete-topic", "Delete a topic", "DELETE", "/topics/{topic}", "/topics",
            lambda reply: f"Topic {reply['deleted']} was deleted.", warn=warnings.delete_topic,
        ),
        PageAction(
            "send", "Send a message", "POST", "/topics/{topic}/messages", "/topics/{topic}",
            lambda reply: f"Message {reply['messageId']} is in {reply['brokerName']}/{reply['queueId']} "
            f"at offset {reply['queueOffset']}.", _message,
        ),
        PageAction(
            "create-group", "Create a group", "POST", "/groups", "/groups/{group}",
            lambda reply: f"Group {reply['group']} {'was created' if reply['created'] else 'exists already'}.",
            lambda form: {"group": form.get("group", ""), **whole(form, retries="retries")},
        ),
        PageAction(
            "change-group", "Change a group", "PATCH", "/groups/{group}", "/groups/{group}", _changed("group"),
            _group_change, warn=lambda calls, form: warnings.change_group(calls, form, _group_change(form)),
        ),
        PageAction(
            "delete-group", "Delete a group", "DELETE", "/groups/{group}", "/groups",
            lambda reply: f"Group {reply['deleted']} was deleted.", warn=warnings.delete_group,
        ),
        PageAction(
            "reset-offsets", "Reset offsets", "POST", "/groups/{group}/offsets", "/groups/{group}",
            lambda reply: f"{reply['group']} was moved in {reply['topic']}: {reply['again']} messages are delivered "
            f"again, {reply['skipped']} are skipped.",
            lambda form: {"topic": form.get("topic", ""), "to": warnings.target_of(form)},
            warn=warnings.reset_offsets,
        ),
        PageAction(
            "consume", "Resend to a group", "POST", "/group/{group}/consume", "/messages/{id}",
            lambda reply: f"{reply['client']} has consumed it in {reply['ms']} ms: {reply['result']} "
            f"{reply['remark'] or ''}",
            lambda form: {"id": form.get("id", ""), **given(form, "client")}, warn=warnings.consume,
        ),
        PageAction(
            "resend", "Send dead letters again", "POST", "/dlq/{group}/resend", "/dlq/{group}", _resent, _resend,
            warn=warnings.resend,
        ),
        PageAction(
            "clock", "Set the clock", "POST", "/clock", "/clock", lambda reply: f"The clock is {reply['mode']}.", _mode,
            warn=lambda calls, form: cluster_warnings.set_clock(calls, _mode(form)),
        ),
        PageAction(
            "advance", "Advance the clock", "POST", "/clock/advance", "/clock", _advanced, query=("by", "to", "settle"),
            warn=cluster_warnings.advance,
        ),
        PageAction(
            "add-fault", "Add a fault", "POST", "/faults", "/faults",
            lambda reply: " ".join([f"Rule {reply['number']}: {reply['words']}.", *reply["notes"]]), _fault,
            warn=lambda calls, form: cluster_warnings.add_fault(calls, _fault(form)),
        ),
        PageAction(
            "remove-fault", "Remove a fault", "DELETE", "/faults/{number}", "/faults",
            lambda _: "The rule was removed.", warn=cluster_warnings.remove_fault,
        ),
        PageAction(
            "clear-faults", "Remove all faults", "DELETE", "/faults", "/faults",
            lambda reply: f"{counted(reply['removed'], 'rule')} removed.", warn=cluster_warnings.clear_faults,
        ),
        PageAction(
            "save-snapshot", "Save a snapshot", "POST", "/snapshots/{name}", "/snapshots",
            lambda reply: f"Snapshot {reply['name']} has {reply['messages']} messages.",
            warn=cluster_warnings.save_snapshot,
        ),
        PageAction(
            "restore-snapshot", "Restore a snapshot", "POST", "/snapshots/{name}/restore", "/snapshots",
            lambda reply: f"The cluster is as in snapshot {reply['name']}.", warn=cluster_warnings.restore,
        ),
        PageAction(
            "remove-snapshot", "Remove a snapshot", "DELETE", "/snapshots/{name}", "/snapshots",
            lambda _: "The snapshot was removed.", warn=cluster_warnings.remove_snapshot,
        ),
        PageAction(
            "reset", "Empty the cluster", "POST", "/reset", "/", lambda _: "The cluster is empty.",
            warn=cluster_warnings.reset,
        ),
    )
}  # fmt: skip
