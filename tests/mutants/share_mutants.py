"""What somebody could get wrong about the shares of members: which queues each has, how much it consumes at once."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from staticfire.client.consume.listeners import concurrent_consumption
from staticfire.client.consume.listeners.worker_pool import WorkerPool
from staticfire.client.consume.queues.ordered_policy import OrderedPolicy
from staticfire.client.consume.results.consume_results import split_into_batches
from staticfire.client.settings.allocation import AVERAGELY, Averagely, AveragelyByCircle

Patch = pytest.MonkeyPatch
MEMBERS_SEEN = 2


def _remainder_for_the_first(patch: Patch) -> None:
    def allocate(_: Averagely, __: str, client_id: str, queues: Sequence[Any], client_ids: Sequence[str]) -> list[Any]:
        index = client_ids.index(client_id)
        size, more = divmod(len(queues), len(client_ids))
        return list(queues[: size + more] if index == 0 else queues[index * size + more : (index + 1) * size + more])

    patch.setattr(Averagely, "allocate", allocate)


def _two_members_seen(patch: Patch) -> None:
    for strategy in (Averagely, AveragelyByCircle):

        def allocate(
            self: Any, group: str, client_id: str, queues: Sequence[Any], client_ids: Sequence[str],
            whole: Callable[..., list[Any]] = strategy.allocate,
        ) -> list[Any]:  # fmt: skip
            return whole(self, group, client_id, queues, client_ids[:MEMBERS_SEEN])

        patch.setattr(strategy, "allocate", allocate)


def _one_more_call(patch: Patch) -> None:
    whole = WorkerPool.resize
    patch.setattr(WorkerPool, "resize", lambda self, size: whole(self, size and size + 1))


def _larger_batches(patch: Patch) -> None:
    patch.setattr(
        concurrent_consumption,
        "split_into_batches",
        lambda messages, batch_max: split_into_batches(messages, batch_max + 1),
    )


def _larger_turns(patch: Patch) -> None:
    whole = OrderedPolicy.take
    patch.setattr(OrderedPolicy, "take", lambda self, batch_max: whole(self, batch_max + 1))


SHARE_MUTANTS: dict[str, Callable[[Patch], None]] = {
    "the first member gets the whole remainder of the queues": _remainder_for_the_first,
    "queues are given to two members of a group only": _two_members_seen,
    "queues go in blocks where they should go in turn": lambda patch: patch.setattr(
        AveragelyByCircle, "allocate", lambda _, *given: AVERAGELY.allocate(*given)
    ),
    "one more call runs than there are threads": _one_more_call,
    "a call gets one message more than a batch": _larger_batches,
    "a call gets one message of its queue more than a batch": _larger_turns,
}
