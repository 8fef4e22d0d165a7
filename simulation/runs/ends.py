"""What ends a fault, or undoes an action of an administrator."""

from collections.abc import Awaitable, Callable

End = Callable[[], Awaitable[None]]


async def nothing() -> None:
    """There is nothing to end."""
