"""A request for a page: its address, and the calls that it may make."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from staticfire.dashboard.calls import Calls


async def together(*calls: Coroutine[Any, Any, dict[str, Any]]) -> list[dict[str, Any]]:
    """Make calls at the same time; return their responses. If one fails, the others are cancelled. Raises: Refused."""
    tasks = [asyncio.ensure_future(one) for one in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class PageCall(NamedTuple):
    """One request for a page."""

    calls: Calls
    place: Mapping[str, str]
    """The names in its path."""
    query: Mapping[str, str]
    overview: Callable[[], Coroutine[Any, Any, dict[str, Any]]]
    """Returns the latest response of GET /overview, which may be some seconds old."""

    def text(self, name: str) -> str:
        """Return a parameter of the address without spaces around it; "" if it isn't given."""
        return self.query.get(name, "").strip()

    def whole(self, name: str, default: int = 0) -> int:
        """Return a parameter that is a whole number; the default for any other text."""
        text = self.text(name)
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else default
