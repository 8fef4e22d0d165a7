"""The control endpoint itself.

Behaviour: JSON in every answer, errors included. An unknown path answers with the list of paths, a wrong method with
the right one, a page of another site or an unknown host name with 403 (hosts.py). What fails inside is a 500 with its
words. Bytes that are no HTTP are answered with 400, and told in one line.
Not done: dashboard.
"""

import json
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from staticfire.client.admin.clock import ClusterClock
from staticfire.client.admin.dead_letter_queue import DeadLetterQueue
from staticfire.control import clock, dlq, faults, group, journal
from staticfire.control.health import complaints
from staticfire.control.hosts import KnownHosts, is_cross_site
from staticfire.control.reset import reset
from staticfire.control.view import ClusterView
from staticfire.fault_rules import ClusterFaults
from staticfire.protocol.errors import StaticfireError
from staticfire.runtime.live import live_machine
from staticfire.runtime.log import logger
from staticfire.runtime.pool import ConnectionPool

log = logger("control")

REASON_CHARS_MAX = 200
CLOSE_TIMEOUT_S = 1.0
# How long running answers may take when the cluster stops.

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ControlSite:
    """Serves one cluster over HTTP."""

    def __init__(self, cluster: ClusterView, hosts: KnownHosts) -> None:
        self._cluster = cluster
        self._hosts = hosts
        self._machine = live_machine()
        self._pool = ConnectionPool(self._machine)
        self._runner: web.AppRunner | None = None
        self.paths = {
            "GET /": "what the cluster consists of",
            "GET /health": "200 when every listener accepts and every route is registered, else 503 and why",
            "POST /reset": "forget all messages, topics, groups and offsets",
            **clock.PATHS,
            **dlq.PATHS,
            **journal.PATHS,
            **group.PATHS,
            **faults.PATHS,
        }

    async def open(self, sock: socket.socket) -> None:
        """Serve at a listening socket."""
        app = web.Application(middlewares=[self._errors_as_json])
        app.add_routes(
            [
                web.get("/", self._what_there_is),
                web.get("/health", self._health),
                web.post("/reset", self._reset),
                web.get("/clock", self._clock),
                web.post("/clock", self._clock_mode),
                web.post("/clock/advance", self._clock_advance),
                web.get("/dlq", self._dlq_counts),
                web.get("/dlq/{group}", self._dlq_letters),
                web.get("/dlq/{group}/letters/{letter:.+}", self._dlq_letter),
                web.get("/dlq/{group}/export", self._dlq_export),
                web.post("/dlq/{group}/resend", self._dlq_resend),
                web.get("/group/{group}", self._group),
                web.get("/explain/{group}", self._explain),
                web.get("/journal", self._journal),
                web.get("/requests", self._requests),
                web.get("/faults", self._faults_shown),
                web.post("/faults", self._fault_added),
                web.delete("/faults", self._faults_cleared),
                web.delete("/faults/{number}", self._fault_removed),
            ]
        )
        complaints_log = logging.Logger("control", logging.WARNING)
        complaints_log.addHandler(_OneLine())
        self._runner = web.AppRunner(app, access_log=None, logger=complaints_log, shutdown_timeout=CLOSE_TIMEOUT_S)
        await self._runner.setup()
        await web.SockSite(self._runner, sock).start()

    async def close(self) -> None:
        """Stop serving and let go of the connections to the cluster."""
        if self._runner is not None:
            await self._runner.cleanup()
        await self._pool.close()
        await self._machine.workers.close()

    async def _what_there_is(self, _: web.Request) -> web.Response:
        return _json(200, {**self._cluster.describe(), "paths": self.paths})

    async def _health(self, _: web.Request) -> web.Response:
        wrong = await complaints(self._pool, self._cluster)
        return _json(503 if wrong else 200, {"healthy": not wrong, "problems": wrong})

    async def _reset(self, _: web.Request) -> web.Response:
        return _json(200, await reset(self._pool, self._cluster.namesrv, self._cluster.addresses.values()))

    async def _clock(self, _: web.Request) -> web.Response:
        return _json(*await clock.show(self._cluster_clock()))

    async def _clock_mode(self, request: web.Request) -> web.Response:
        return _json(*await clock.go_on(self._cluster_clock(), request.query, await request.read()))

    async def _clock_advance(self, request: web.Request) -> web.Response:
        return _json(*await clock.advance(self._cluster_clock(), request.query))

    async def _dlq_counts(self, _: web.Request) -> web.Response:
        return _json(*await dlq.counts(self._cluster.namesrv))

    async def _dlq_letters(self, request: web.Request) -> web.Response:
        return _json(*await dlq.letters(self._cluster.namesrv, request.match_info["group"], request.query))

    async def _dlq_letter(self, request: web.Request) -> web.Response:
        place = request.match_info
        return _json(*await dlq.letter(self._cluster.namesrv, place["group"], place["letter"]))

    async def _dlq_export(self, request: web.Request) -> web.StreamResponse:
        group_name = request.match_info["group"]
        wrong = await dlq.why_not(self._cluster.namesrv, group_name)  # Told before the answer has begun.
        if wrong is not None:
            return _json(*wrong)
        async with DeadLetterQueue(group_name, self._cluster.namesrv) as queue:
            answer = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
            await answer.prepare(request)
            async for line in dlq.lines(queue):
                await answer.write(line)
            return answer

    async def _dlq_resend(self, request: web.Request) -> web.Response:
        return _json(*await dlq.resend(self._cluster.namesrv, request.match_info["group"], await request.read()))

    async def _explain(self, request: web.Request) -> web.Response:
        group_name, topic = request.match_info["group"], request.query.get("topic")
        return _json(200, await group.explain(self._cluster.namesrv, group_name, topic))

    async def _group(self, request: web.Request) -> web.Response:
        return _json(*await group.show(self._cluster.namesrv, request.match_info["group"]))

    async def _journal(self, request: web.Request) -> web.Response:
        return _json(*await journal.events(self._cluster.namesrv, request.query))

    async def _requests(self, request: web.Request) -> web.Response:
        return _json(*await journal.requests(self._cluster.namesrv, request.query))

    async def _faults_shown(self, _: web.Request) -> web.Response:
        return _json(*await faults.show(self._faults()))

    async def _fault_added(self, request: web.Request) -> web.Response:
        return _json(*await faults.add(self._faults(), request.query, await request.read()))

    async def _fault_removed(self, request: web.Request) -> web.Response:
        return _json(*await faults.remove(self._faults(), request.match_info["number"]))

    async def _faults_cleared(self, _: web.Request) -> web.Response:
        return _json(*await faults.clear(self._faults()))

    def _faults(self) -> ClusterFaults:
        cluster = self._cluster
        return ClusterFaults(self._pool, cluster.namesrv, cluster.process_faults, cluster.addresses)

    def _cluster_clock(self) -> ClusterClock:
        return ClusterClock(self._pool, self._cluster.namesrv)

    def _why_foreign(self, request: web.Request) -> str:
        """Say why a request isn't answered: any page in a browser could reset a cluster otherwise."""
        hosts = request.headers.getall("Host", [])
        address = request.transport.get_extra_info("sockname")[0] if request.transport else ""
        if len(hosts) != 1:
            return "one Host header is needed"
        if not self._hosts.knows(hosts[0], address):
            return (
                f"the host name {hosts[0]!r} isn't known here; if it is yours, name it: --control-hosts of up and run, "
                "STATICFIRE_CONTROL_HOSTS, or Cluster(control_hosts=[...])"
            )
        if is_cross_site(request.headers.get("Origin"), hosts[0]):
            return "this comes from a page of another site"
        return ""

    @web.middleware
    async def _errors_as_json(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        asked = f"{request.method} {request.path}"
        if words := self._why_foreign(request):
            return _json(403, {"error": f"{asked}: {words}"})
        try:
            return await handler(request)
        except web.HTTPMethodNotAllowed as wrong:
            allowed = ", ".join(sorted(wrong.allowed_methods))
            answer = _json(405, {"error": f"{asked}: use {allowed}", "paths": self.paths})
            answer.headers["Allow"] = allowed
            return answer
        except web.HTTPException as wrong:
            return _json(wrong.status, {"error": f"{asked}: {wrong.reason}", "paths": self.paths})
        except web.RequestPayloadError as error:
            return _json(400, {"error": f"{asked}: the body can't be read: {_line(error)}"})
        except ConnectionError as error:  # Who asked has left.
            return _json(400, {"error": f"{asked}: {error}"})
        except StaticfireError as error:
            return _json(502, {"error": f"{asked}: {error}"})
        except Exception as error:  # One request: what went wrong is its answer.  # noqa: BLE001
            log.error("control_failed", asked=asked, error=repr(error))
            return _json(500, {"error": f"{asked}: {type(error).__name__}: {error}"})


class _OneLine(logging.Handler):
    """What aiohttp complains about, as one line of ours: bytes that are no HTTP are no reason for a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        log.warning("request_unreadable", reason=_line(error or record.getMessage()))


def _line(error: BaseException | str) -> str:
    return " ".join(str(error).split())[:REASON_CHARS_MAX]


def _json(status: int, content: dict[str, Any]) -> web.Response:
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return web.Response(status=status, text=text, content_type="application/json")
