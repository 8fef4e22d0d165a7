"""Work that ends when its caller leaves: aiohttp doesn't cancel the handler of a request whose connection is closed."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from aiohttp import web

# How often a handler that ends with its caller looks whether the caller is still there. aiohttp doesn't notify it.
CALLER_LOOK_S = 0.1
T = TypeVar("T")


async def while_connected(request: web.Request, work: Awaitable[T]) -> T:
    """Return the result of work; cancel it if its caller leaves. Raises: ConnectionResetError (the caller left)."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=CALLER_LOOK_S))[0]:
            if request.transport is None or request.transport.is_closing():
                raise ConnectionResetError("its caller has closed the connection")
    finally:
        task.cancel()
    return task.result()
