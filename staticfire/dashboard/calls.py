"""Calls of the control endpoint's routes without HTTP: a page shows and changes only what a program can, too."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

from staticfire.control.all_routes import ROUTES
from staticfire.control.controlled_cluster import ControlledCluster
from staticfire.control.refusals import refusal
from staticfire.control.routes import ControlCall, Route
from staticfire.protocol.errors import StaticfireError

BY_NAME: dict[tuple[str, str], Route] = {(route.method, route.plain_path): route for route in ROUTES}


class Refused(Exception):
    """The control endpoint has refused a call."""

    def __init__(self, status: int, content: Mapping[str, Any]) -> None:
        super().__init__(str(content.get("error", "")))
        self.status = status
        self.content = content


class Calls:
    """Calls of one cluster."""

    def __init__(self, cluster: ControlledCluster) -> None:
        self.cluster = cluster

    async def get(self, path: str, place: Mapping[str, str] | None = None, **query: Any) -> dict[str, Any]:
        """Return the response to a GET. Values of None and "" aren't given. Raises: Refused."""
        given = {name: str(value) for name, value in query.items() if value not in (None, "")}
        known = _ROUND.get()
        if known is None:
            return await self.ask("GET", path, place, given)
        key = path, *sorted((place or {}).items()), *sorted(given.items())
        if key not in known:
            known[key] = asyncio.ensure_future(self.ask("GET", path, place, given))
        return await asyncio.shield(known[key])

    @asynccontextmanager
    async def round(self) -> AsyncIterator[None]:
        """Make the same GET only once, and use the same connections, for all pages of one moment."""
        token = _ROUND.set({})
        try:
            async with self.cluster.sharing():
                yield
        finally:
            known = _ROUND.get() or {}
            _ROUND.reset(token)
            for one in known.values():
                one.cancel()
            await asyncio.gather(*known.values(), return_exceptions=True)

    async def preview(self, path: str, place: Mapping[str, str], body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a POST that changes nothing: a read-only endpoint allows it. Raises: Refused."""
        return await self._answer("POST", path, place, {}, body)

    async def ask(
        self,
        method: str,
        path: str,
        place: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the JSON of the response. `path`: as in the description, `/topics/{topic}`. Raises: Refused."""
        if method != "GET" and self.cluster.why_read_only:
            raise Refused(403, {"error": self.cluster.why_read_only})
        return await self._answer(method, path, place or {}, query or {}, body)

    async def _answer(
        self, method: str, path: str, place: Mapping[str, str], query: Mapping[str, str], body: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        route = BY_NAME[method, path]
        check_names(method, path, place)
        sent = b"" if body is None else json.dumps(body).encode()
        try:
            reply = await route.answer(ControlCall(self.cluster, place, route.read(query), sent))
        except StaticfireError as error:
            raise Refused(*refusal(f"{method} {filled(path, place)}", error)) from None
        content = reply.content if isinstance(reply.content, dict) else {}
        if reply.status >= 400 and path != "/health":
            raise Refused(reply.status, content)
        return content

    async def lines(self, path: str, place: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Return the lines of a response that is sent as they arrive. Raises: Refused."""
        try:
            reply = await BY_NAME["GET", path].answer(ControlCall(self.cluster, place, {}, b""))
        except StaticfireError as error:
            raise Refused(*refusal(f"GET {filled(path, place)}", error)) from None
        if not isinstance(reply.content, AsyncIterator):
            raise Refused(reply.status, reply.content if isinstance(reply.content, dict) else {})
        return reply.content

    async def get_if_any(self, path: str, place: Mapping[str, str] | None = None, **query: Any) -> dict[str, Any]:
        """Return the response to a GET; if it is refused, the error as `{"error": ...}`: a part of a page."""
        try:
            return await self.get(path, place, **query)
        except Refused as refused:
            return {"error": str(refused)}


_ROUND: ContextVar[dict[tuple[Any, ...], asyncio.Future[dict[str, Any]]] | None] = ContextVar("round", default=None)


def check_names(method: str, path: str, place: Mapping[str, str]) -> None:
    """Check that all names in a path are given. Raises: Refused."""
    missing = [name for name in BY_NAME[method, path].places if not place.get(name)]
    if missing:
        raise Refused(400, {"error": f"The form has no {missing[0]}. Go back to the page that it belongs to."})


def filled(path: str, place: Mapping[str, str]) -> str:
    """Return a path with its names, for errors."""
    return re.sub(r"\{(\w+)\}", lambda found: place.get(found[1], found[0]), path)
