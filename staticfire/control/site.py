"""The control endpoint: aiohttp serves the routes.

Behaviour: every response is JSON, including errors. Only this module turns an exception of a handler into a status. An
unknown path gets the list of paths, a wrong method the right one, a page of another site or an unknown host name 403, a
missing token 401 (access.py). An internal error is a 500 with its message. Bytes that aren't HTTP get a 400 and one
line in the log. A request that isn't complete in time gets a 408, and its connection is closed (half_requests.py).
Pages for people are below /ui (staticfire/dashboard), which the first request for one loads. A browser that opens /
gets there.
"""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from aiohttp import web

from staticfire.client import ClientSettings
from staticfire.control.access import Access
from staticfire.control.all_routes import ROUTES, paths
from staticfire.control.callers import while_connected
from staticfire.control.controlled_cluster import ControlledCluster
from staticfire.control.dashboard_place import DASHBOARD, wants_page
from staticfire.control.half_requests import HALF_REQUEST_S, HalfRequests
from staticfire.control.refusals import refusal
from staticfire.control.routes import LINES, ControlCall, Reply, Route, did_you_mean
from staticfire.control.tls import TlsDoor
from staticfire.control.view import ClusterView
from staticfire.launch.places import url_of
from staticfire.protocol.errors import StaticfireError, UsageError
from staticfire.runtime.client_machine import with_client
from staticfire.runtime.light_start import keep_loaded
from staticfire.runtime.live import live_machine
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Listener
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.ports import port_of
from staticfire.runtime.tls.settings import tls_client

if TYPE_CHECKING:
    from staticfire.dashboard.site import Dashboard

log = logger("control")

REASON_CHARS_MAX = 200
# How long responses that are in progress may take when the cluster stops.
CLOSE_TIMEOUT_S = 1.0
BODY_BYTES_MAX = 1024 * 1024

Served = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ControlSite:
    """Serves one cluster over HTTP."""

    def __init__(
        self,
        cluster: ClusterView,
        access: Access,
        settings: ClientSettings | None = None,
        why_read_only: str = "",
    ) -> None:
        """`settings`: how to connect to the cluster. `why_read_only`: why only reading is allowed, if so."""
        self._cluster = cluster
        self._access = access
        self._settings = settings or ClientSettings.signing(cluster.credentials, cluster.client_tls)
        self._why_read_only = why_read_only
        self._machine = live_machine()
        self._pool = ConnectionPool(
            with_client(self._machine, tls_client(self._settings.tls)), codec_byte=self._settings.codec_byte,
            credentials=self._settings.credentials,
        )  # fmt: skip
        self._tls = TlsDoor(cluster.tls, self._machine.workers)
        self._dashboard: Dashboard | None = None
        self._runner: web.AppRunner | None = None
        self._half_requests: HalfRequests | None = None
        self._listener: Listener | None = None

    async def open(self, sock: socket.socket) -> None:
        """Serve requests at a listening socket."""
        cluster = ControlledCluster(
            self._cluster, self._pool, url_of(port_of(sock), is_tls=self._tls.is_needed), self._access.needs_token,
            self._settings, self._why_read_only,
        )  # fmt: skip
        app = web.Application(middlewares=[self._timed, self._errors_as_json], client_max_size=BODY_BYTES_MAX)
        app.add_routes([web.route(one.method, one.path, _served(one, cluster)) for one in ROUTES])
        app.add_routes(
            [web.route("*", path, self._pages_of(cluster)) for path in (DASHBOARD, f"{DASHBOARD}/{{rest:.*}}")]
        )
        complaints_log = logging.Logger("control", logging.WARNING)
        complaints_log.addHandler(_OneLine())
        self._runner = web.AppRunner(app, access_log=None, logger=complaints_log, shutdown_timeout=CLOSE_TIMEOUT_S)
        await self._runner.setup()
        assert self._runner.server is not None
        self._half_requests = HalfRequests(self._runner.server)
        host, port = sock.getsockname()[:2]
        self._listener = await self._machine.network.listen(self._tls.door(self._half_requests), host, port, sock)

    async def close(self) -> None:
        """Stop serving, and close the connections to the cluster."""
        if self._dashboard is not None:
            await self._dashboard.close()
        if self._listener is not None:
            await self._listener.close()
        self._tls.close()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._pool.close()
        await self._machine.workers.close()

    def _pages_of(self, cluster: ControlledCluster) -> Served:
        """Return the function that serves pages. The first request loads them."""

        async def serve(request: web.Request) -> web.StreamResponse:
            if self._dashboard is not None:
                return await self._dashboard.serve(request)
            from staticfire.dashboard.site import Dashboard

            self._dashboard = Dashboard(cluster, self._access, self._machine)
            answer = await self._dashboard.serve(request)
            keep_loaded()
            return answer

        return serve

    @web.middleware
    async def _timed(self, request: web.Request, handler: Served) -> web.StreamResponse:
        assert self._half_requests is not None
        with self._half_requests.answering(request):
            return await handler(request)

    @web.middleware
    async def _errors_as_json(self, request: web.Request, handler: Served) -> web.StreamResponse:
        request_line = f"{request.method} {request.path}"
        address = request.transport.get_extra_info("sockname")[0] if request.transport else ""
        origin = request.headers.get("Origin")
        if words := self._access.why_foreign(request.headers.getall("Host", []), origin, address):
            return _json(403, {"error": f"{request_line}: {words}"})
        if wants_page(request.method, request.path, request.headers.get("Accept", "")):
            return web.Response(status=302, headers={"Location": f"{DASHBOARD}/", "Vary": "Accept"})
        # Pages check it themselves, since they may also have the cookie of a login.
        is_page = f"{request.path}/".startswith(f"{DASHBOARD}/")
        if not is_page and (words := self._access.why_locked(request.path, request.headers.get("Authorization"))):
            answer = _json(401, {"error": f"{request_line}: {words}"})
            answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
        try:
            return await handler(request)
        except web.HTTPMethodNotAllowed as wrong:
            allowed = ", ".join(sorted(wrong.allowed_methods))
            answer = _json(405, {"error": f"{request_line}: use {allowed}", "paths": paths()})
            answer.headers["Allow"] = allowed
            return answer
        except web.HTTPException as wrong:
            reason = wrong.reason + (_alike(request.path) if wrong.status == 404 else "")
            return _json(wrong.status, {"error": f"{request_line}: {reason}", "paths": paths()})
        except web.RequestPayloadError as error:
            return _json(400, {"error": f"{request_line}: the body can't be read: {_line(error)}"})
        except ConnectionError as error:  # The client has disconnected.
            return _json(400, {"error": f"{request_line}: {error}"})
        except StaticfireError as error:
            return _json(*refusal(request_line, error))
        except Exception as error:  # An internal error concerns one request only.  # noqa: BLE001
            log.error("control_failed", request_line=request_line, error=repr(error))
            return _json(500, {"error": f"{request_line}: {type(error).__name__}: {error}"})


def _served(route: Route, cluster: ControlledCluster) -> Served:
    """Return the function that aiohttp calls for a route."""

    async def serve(request: web.Request) -> web.StreamResponse:
        if route.method != "GET" and cluster.why_read_only:
            return _json(403, {"error": cluster.why_read_only})
        body = await _body(request)
        if body.strip() and route.body is None:
            raise UsageError("it takes no body; its parameters belong into the address, after a question mark")
        _refuse_repeated(request)
        query = route.read(request.query)
        answering = route.answer(ControlCall(cluster, request.match_info, query, body))
        reply = await (while_connected(request, answering) if route.ends_with_caller else answering)
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
