"""What somebody could get wrong that only the further kinds of workloads notice (`simulation/runs/swarm_kinds.py`)."""

from collections.abc import Callable
from typing import Any

import pytest

from staticfire.broker.groups.consumers import ConsumerManager
from staticfire.broker.groups.offsets import OffsetTable
from staticfire.broker.groups.subscription_groups import GroupTable
from staticfire.broker.handlers.recall import NOTHING_WAITS, RecallHandlers
from staticfire.broker.pop import checks as pop_checks
from staticfire.broker.pulls import checks as pull_checks
from staticfire.broker.pulls.choosing import Choice
from staticfire.client.cluster.namespaces import Namespace
from staticfire.client.cluster.replies import Replies
from staticfire.client.lite_pull.polled_offsets import PolledOffsets
from staticfire.client.offsets.offset_store import RemoteOffsets
from staticfire.client.push import push_parts
from staticfire.protocol.command import Answer
from staticfire.protocol.recall_handle import decode_handle
from staticfire.protocol.tags import TagExpression
from staticfire.runtime.server import Server

Patch = pytest.MonkeyPatch


def _tags_never_compared(patch: Patch) -> None:
    patch.setattr(TagExpression, "matches", lambda *_: True)
    patch.setattr(TagExpression, "matches_code", lambda *_: True)


def _all_is_readable(patch: Patch) -> None:
    patch.setattr(pull_checks, "readable", lambda _: True)
    patch.setattr(pop_checks, "readable", lambda _: True)


def _groups_stay_on(patch: Patch) -> None:
    whole = GroupTable.put

    def put(self: GroupTable, group: Any) -> None:
        group.consume_enable = True
        whole(self, group)

    patch.setattr(GroupTable, "put", put)


def _silence_is_never_noticed(patch: Patch) -> None:
    """Neither as a member without heartbeats nor as a connection on which nothing comes; who closes one is missed."""
    patch.setattr(ConsumerManager, "expire", lambda *_: [])
    patch.setattr(Server, "close_idle", lambda _: 0)


def _recalls_ignored(patch: Patch) -> None:
    def recall(self: RecallHandlers, call: Any) -> Any:
        return self._answer(decode_handle(call.request.recall_handle), NOTHING_WAITS)

    patch.setattr(RecallHandlers, "recall", recall)


def _replies_mixed_up(patch: Patch) -> None:
    """The oldest request gets the reply, whichever it was written for."""

    def arrived(self: Replies, call: Any) -> Answer:
        waiting = [future for future in self._waiting.values() if not future.done()]
        if waiting:
            waiting[0].set_result(self._received(call.request))
        return Answer()

    patch.setattr(Replies, "_arrived", arrived)


def _broadcast_offsets_shared(patch: Patch) -> None:
    """All members of a group go on where one of them was, as in a group that shares its queues."""

    def shared(group: str, client: Any, settings: Any) -> RemoteOffsets:
        return RemoteOffsets(group, client, settings)

    patch.setattr(push_parts, "offsets_of", shared)


def _polled_is_done(patch: Patch) -> None:
    """What a poll has brought is committed at once."""
    whole = PolledOffsets.update

    def update(self: PolledOffsets, queue: Any, offset: int, increase_only: bool = True) -> None:
        whole(self, queue, offset, increase_only)
        self.note({queue: offset + 1})

    patch.setattr(PolledOffsets, "update", update)


KIND_MUTANTS: dict[str, Callable[[Patch], None]] = {
    "tags are never compared": _tags_never_compared,
    "a consumer takes the hash code of a tag for the tag": lambda patch: patch.setattr(
        TagExpression, "matches", lambda *_: True
    ),
    "conditions are always true": lambda patch: patch.setattr(
        Choice, "wanted_of", lambda _, slices, starts, sizes: list(zip(slices, starts, sizes, strict=False))
    ),
    "a reset of offsets is lost": lambda patch: patch.setattr(OffsetTable, "reset", lambda *_: None),
    "what may not be read is read": _all_is_readable,
    "a group that is switched off continues": _groups_stay_on,
    "a silent member is never missed": _silence_is_never_noticed,
    "a recall is ignored": _recalls_ignored,
    "a reply goes to another request": _replies_mixed_up,
    "members that get all messages share their offsets": _broadcast_offsets_shared,
    "a poll passes over a message": _polled_is_done,
    "names are in no namespace": lambda patch: patch.setattr(Namespace, "wrap", lambda _, name: name),
}
KINDS_OF: dict[str, str] = {
    "tags are never compared": "filters",
    "a consumer takes the hash code of a tag for the tag": "filters",
    "conditions are always true": "filters",
    "a reset of offsets is lost": "administration",
    "what may not be read is read": "administration",
    "a group that is switched off continues": "administration",
    "a silent member is never missed": "losses",
    "a recall is ignored": "timed",
    "a reply goes to another request": "requests",
    "members that get all messages share their offsets": "broadcast",
    "a poll passes over a message": "polling",
    "names are in no namespace": "namespaces",
}
"""Of each mutant: the kind of workload that it is looked for in."""
