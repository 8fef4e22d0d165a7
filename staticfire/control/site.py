"""The control endpoint: aiohttp serves the routes.

Behaviour: every response is JSON, including errors. Only this module turns an exception of a handler into a status. An
unknown path gets the list of paths, a wrong method the right one, a page of another site or an unknown host name 403, a
missing token 401 (access.py). An internal error is a 500 with its message. Bytes that aren't HTTP get a 400 and one
line in the log. A request that isn't complete in time gets a 408, and its connection is closed (half_requests.py).
Not done: dashboard.
"""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

from staticfire.client.admin.creating import ExistsAlready
from staticfire.control.access import Access
from staticfire.control.all_routes import ROUTES, paths
from staticfire.control.asked import ControlledCluster
from staticfire.control.half_requests import HALF_REQUEST_S, HalfRequests
from staticfire.control.routes import LINES, ControlCall, Reply, Route, did_you_mean
from staticfire.control.view import ClusterView
from staticfire.launch.places import url_of
from staticfire.protocol.codes import ResponseCode, name_of_response
from staticfire.protocol.errors import (
    BrokerAnswer,
    ClientError,
    ClockBusy,
    GroupNotFound,
    NotAtRest,
    StaticfireError,
    SystemBusy,
    TopicNotFound,
    UsageError,
)
from staticfire.runtime.live import live_machine
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Listener
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.ports import port_of

log = logger("control")

REASON_CHARS_MAX = 200
# How long responses that are in progress may take when the cluster stops.
CLOSE_TIMEOUT_S = 1.0
BODY_BYTES_MAX = 1024 * 1024
# Response codes of servers for requests with invalid content.
WRONG_WORDS = frozenset({ResponseCode.INVALID_PARAMETER, ResponseCode.MESSAGE_ILLEGAL})

Served = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ControlSite:
    """Serves one cluster over HTTP."""

    def __init__(self, cluster: ClusterView, access: Access) -> None:
        self._cluster = cluster
        self._access = access
        self._machine = live_machine()
        self._pool = ConnectionPool(self._machine, credentials=cluster.credentials)
        self._runner: web.AppRunner | None = None
        self._half_requests: HalfRequests | None = None
        self._listener: Listener | None = None

    async def open(self, sock: socket.socket) -> None:
        """Serve requests at a listening socket."""
        cluster = ControlledCluster(self._cluster, self._pool, url_of(port_of(sock)), self._access.needs_token)
        app = web.Application(middlewares=[self._timed, self._errors_as_json], client_max_size=BODY_BYTES_MAX)
        app.add_routes([web.route(one.method, one.path, _served(one, cluster)) for one in ROUTES])
        complaints_log = logging.Logger("control", logging.WARNING)
        complaints_log.addHandler(_OneLine())
        self._runner = web.AppRunner(app, access_log=None, logger=complaints_log, shutdown_timeout=CLOSE_TIMEOUT_S)
        await self._runner.setup()
        assert self._runner.server is not None
        self._half_requests = HalfRequests(self._runner.server)
        host, port = sock.getsockname()[:2]
        self._listener = await self._machine.network.listen(self._half_requests, host, port, sock)

    async def close(self) -> None:
        """Stop serving, and close the connections to the cluster."""
        if self._listener is not None:
            await self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._pool.close()
        await self._machine.workers.close()

    @web.middleware
    async def _timed(self, request: web.Request, handler: Served) -> web.StreamResponse:
        assert self._half_requests is not None
        with self._half_requests.answering(request):
            return await handler(request)

    @web.middleware
    async def _errors_as_json(self, request: web.Request, handler: Served) -> web.StreamResponse:
        asked = f"{request.method} {request.path}"
        address = request.transport.get_extra_info("sockname")[0] if request.transport else ""
        origin = request.headers.get("Origin")
        if words := self._access.why_foreign(request.headers.getall("Host", []), origin, address):
            return _json(403, {"error": f"{asked}: {words}"})
        if words := self._access.why_locked(request.path, request.headers.get("Authorization")):
            answer = _json(401, {"error": f"{asked}: {words}"})
            answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
        try:
            return await handler(request)
        except web.HTTPMethodNotAllowed as wrong:
            allowed = ", ".join(sorted(wrong.allowed_methods))
            answer = _json(405, {"error": f"{asked}: use {allowed}", "paths": paths()})
            answer.headers["Allow"] = allowed
            return answer
        except web.HTTPException as wrong:
            reason = wrong.reason + (_alike(request.path) if wrong.status == 404 else "")
            return _json(wrong.status, {"error": f"{asked}: {reason}", "paths": paths()})
        except web.RequestPayloadError as error:
            return _json(400, {"error": f"{asked}: the body can't be read: {_line(error)}"})
        except ConnectionError as error:  # The client has disconnected.
            return _json(400, {"error": f"{asked}: {error}"})
        except StaticfireError as error:
            return _refusal(asked, error)
        except Exception as error:  # An internal error concerns one request only.  # noqa: BLE001
            log.error("control_failed", asked=asked, error=repr(error))
            return _json(500, {"error": f"{asked}: {type(error).__name__}: {error}"})


def _served(route: Route, cluster: ControlledCluster) -> Served:
    """Return the function that aiohttp calls for a route."""

    async def serve(request: web.Request) -> web.StreamResponse:
        body = await _body(request)
        if body.strip() and route.body is None:
            raise UsageError("it takes no body; its parameters belong into the address, after a question mark")
        _refuse_repeated(request)
        query = route.read(request.query)
        reply = await route.answer(ControlCall(cluster, request.match_info, query, body))
        return await _sent(request, reply)

    return serve


async def _body(request: web.Request) -> bytes:
    """Return the body. Raises: web.HTTPRequestTimeout when it isn't complete in time."""
    try:
        async with asyncio.timeout(HALF_REQUEST_S):
            return await request.read()
    except TimeoutError:
        words = f"Request Timeout: its body was incomplete after {HALF_REQUEST_S:.0f} seconds"
        raise web.HTTPRequestTimeout(reason=words) from None


def _refuse_repeated(request: web.Request) -> None:
    """Refuse a parameter that is given twice, because one value would be ignored. Raises: UsageError."""
    for name in request.query:
        if len(request.query.getall(name)) > 1:
            raise UsageError(f"{name!r} is given more than once")


async def _sent(request: web.Request, reply: Reply) -> web.StreamResponse:
    content = reply.content
    if isinstance(content, AsyncIterator):
        answer = web.StreamResponse(headers={"Content-Type": LINES})
        await answer.prepare(request)
        async for line in content:
            await answer.write(line)
        return answer
    if isinstance(content, str):
        return web.Response(status=reply.status, text=content, content_type=reply.kind, charset="utf-8")
    return _json(reply.status, content)


def _refusal(asked: str, error: StaticfireError) -> web.Response:
    """Return the response for an exception of a handler."""
    if isinstance(error, UsageError | ClientError):
        return _json(409 if isinstance(error, ExistsAlready) else 400, {"error": str(error)})
    if not isinstance(error, BrokerAnswer):
        return _json(502, {"error": f"{asked}: {error}"})
    if isinstance(error, NotAtRest | ClockBusy | SystemBusy):
        status = 409
    elif isinstance(error, GroupNotFound | TopicNotFound):
        status = 404
    else:
        status = 400 if error.code in WRONG_WORDS else 502
    return _json(status, {"error": error.remark, "code": name_of_response(error.code)})


def _alike(path: str) -> str:
    return did_you_mean(path, {route.plain_path for route in ROUTES if "{" not in route.path})


class _OneLine(logging.Handler):
    """Logs a complaint of aiohttp as one line: bytes that aren't HTTP need no traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        log.warning("request_unreadable", reason=_line(error or record.getMessage()))


def _line(error: BaseException | str) -> str:
    return " ".join(str(error).split())[:REASON_CHARS_MAX]


def _json(status: int, content: dict[str, Any]) -> web.Response:
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return web.Response(status=status, text=text, content_type="application/json")
