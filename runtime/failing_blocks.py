"""Observers of failing `with` blocks: they are notified before the block closes what it opened.

A test that fails inside `async with consumer` leaves the block, and the consumer leaves its group, before pytest can
look at the group. The report of the failure would then name the wrong cause: "the group has no member". So clients
notify the observers first. Without an observer this does nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class BlockObserver(Protocol):
    """Is notified of the exception that ends a block."""

    def failed(self, error: BaseException) -> None:
        """Look at what is still open. The caller is a thread without an event loop."""

    async def failed_in_loop(self, error: BaseException) -> None:
        """The same, inside the event loop of what is still open."""


_observers: list[BlockObserver] = []


@contextmanager
def observed(observer: BlockObserver) -> Iterator[None]:
    """Notify an observer of the blocks that fail in this process until the end of this block."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def notify(error: object) -> None:
    """Notify the observers of the exception of a `with` block; None if it had none."""
    if isinstance(error, BaseException):
        for observer in list(_observers):
            observer.failed(error)


async def notify_in_loop(error: object) -> None:
    """Notify the observers of the exception of an `async with` block; None if it had none."""
    if isinstance(error, BaseException):
        for observer in list(_observers):
            await observer.failed_in_loop(error)
