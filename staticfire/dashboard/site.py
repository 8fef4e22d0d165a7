"""Serves the dashboard: pages, their live parts, actions, the login, scripts and styles.

Behaviour
- GET a page; GET /live?page=... sends its live part as server-sent events; GET /data/rates is the overview's chart,
  GET /data/dlq/GROUP all dead letters of a group.
- GET /do/NAME shows what an action will change, POST /do/NAME carries it out. A POST must come from a page of this
  endpoint: its Origin, or what the browser reports about its site, shows that.
- With a token, everything but files needs the cookie of a login or the token itself.
- No page has scripts or styles of its own (Content-Security-Policy), and none may be shown inside another page.
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from aiohttp import web

from staticfire.control.access import Access
from staticfire.control.callers import while_connected
from staticfire.control.controlled_cluster import ControlledCluster
from staticfire.control.dashboard_place import DASHBOARD, HOW_TO_GET_IT, dashboard_is_installed
from staticfire.control.half_requests import HALF_REQUEST_S
from staticfire.control.login_cookie import LASTS_MS, cookie_name
from staticfire.control.routes import LINES
from staticfire.dashboard.actions import ACTIONS, PageAction
from staticfire.dashboard.addresses import match
from staticfire.dashboard.calls import Calls, Refused
from staticfire.dashboard.files import served_file
from staticfire.dashboard.live import LivePages
from staticfire.dashboard.pages import MENU, FoundPage, find_page
from staticfire.dashboard.shown import bytes_text
from staticfire.dashboard.views.page_call import PageCall
from staticfire.dashboard.watch import Watch, rates
from staticfire.protocol.errors import StaticfireError
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine

if TYPE_CHECKING:
    from multidict import MultiMapping

log = logger("dashboard")

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
FILE_AGE = "public, max-age=31536000, immutable"
# After this time without reading, a browser gets no more events, so that its page isn't rendered in vain.
UNREAD_S = 30.0
EXPORT = "/data/dlq/{group}"
ADDRESS_CHARS_MAX = 4_000
# Elements that a filter replaces by those of its response. So an error has such an element around it.
REPLACED = frozenset({"live", "letters"})
SAME_SITE = frozenset({"same-origin", "none"})


class Dashboard:
    """The dashboard of one cluster."""

    def __init__(self, cluster: ControlledCluster, access: Access, machine: Machine) -> None:
        self._cluster = cluster
        self._access = access
        self._machine = machine
        self._calls = Calls(cluster)
        self._watch = Watch(self._calls, machine)
        self._live = LivePages(self._live_part, machine, self._calls.round)

    async def close(self) -> None:
        """End everything in the background."""
        await self._live.close()
        await self._watch.close()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Respond to a request below /ui."""
        path = request.rel_url.raw_path.removeprefix(DASHBOARD) or "/"
        if not dashboard_is_installed():
            words = f"The dashboard needs one more package: {HOW_TO_GET_IT}\n"
            return web.Response(status=501, text=words, headers=HEADERS)
        if path.startswith("/static/"):
            return self._file(request, path.removeprefix("/static/"))
        if request.method == "POST" and (words := why_not_same_site(request.headers)):
            return self._error_page(request, 403, words)
        try:
            return await self._checked(request, path)
        except Refused as refused:
            return self._error_page(request, refused.status, str(refused))
        except StaticfireError as error:
            return self._error_page(request, 502, str(error))

    async def _checked(self, request: web.Request, path: str) -> web.StreamResponse:
        """Respond to a request if it may see pages. Raises: Refused, StaticfireError."""
        if path == "/login":
            return await self._login(request)
        cookie, now_ms = request.cookies.get(cookie_name(request.host)), self._machine.clock.wall_ms()
        if self._access.why_page_locked(request.headers.get("Authorization"), cookie, now_ms):
            return self._login_needed(request)
        if path == "/logout":
            return self._logged_out(request)
        return await self._routed(request, path)

    async def _routed(self, request: web.Request, path: str) -> web.StreamResponse:
        if path.startswith("/do/"):
            return await self._action(request, path.removeprefix("/do/"))
        if request.method not in ("GET", "HEAD"):
            return self._error_page(request, 405, "This page can only be read.")
        if path == "/live":
            return await self._follow(request)
        if path == "/data/rates":
            self._watch.look()
            return web.json_response(rates(list(self._watch.samples)), headers=HEADERS)
        if (place := match(EXPORT, path)) is not None:
            return await self._export(request, place)
        found = find_page(path)
        if found is None:
            return self._error_page(request, 404, "There is no such page.")
        values = await self._values(found, request.query)
        return self._page(request, found.page.template, found.page.section, values)

    # -- pages ---------------------------------------------------------------------------------------------------

    async def _values(self, found: FoundPage, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of a page's own. Raises: Refused."""
        if found.page.needs_staticfire and self._cluster.client_settings.protocol == "rocketmq":
            raise Refused(404, {"error": found.page.needs_staticfire})
        async with self._cluster.sharing():
            values = await found.page.load(PageCall(self._calls, found.place, query, self._watch.first_overview))
        return {"title": found.place.get("topic") or found.place.get("group") or found.page.title, **values}

    def _frame(self, section: str, here: str) -> dict[str, Any]:
        """Return the values that all pages share."""
        return {
            "section": section,
            "menu": MENU,
            "here": here,
            "namesrv": self._cluster.namesrv,
            "why_read_only": self._cluster.why_read_only,
            "has_login": self._cluster.needs_token,
            "is_staticfire": self._cluster.client_settings.protocol == "staticfire",
        }

    def _page(
        self, request: web.Request, template: str, section: str, values: Mapping[str, Any], status: int = 200
    ) -> web.Response:
        from staticfire.dashboard.rendering import has_block, render

        frame = self._frame(section, request.rel_url.raw_path_qs)
        is_live = status == 200 and has_block(template, "live")
        text = render(template, {"is_live": is_live, "title": "", **frame, **values})
        answer = web.Response(status=status, text=text, content_type="text/html", charset="utf-8", headers=HEADERS)
        answer.enable_compression()
        return answer

    def _error_page(self, request: web.Request, status: int, words: str) -> web.Response:
        values: dict[str, Any] = {"status": status, "words": words, "title": f"Error {status}"}
        # When the cluster responds again, the page that was requested takes the place of the error.
        values["is_live"] = status >= 500 and request.method == "GET" and self._has_live_part(request)
        if request.headers.get("HX-Request"):
            target = request.headers.get("HX-Target", "")
            values["replaced"] = target if target in REPLACED else ""
            return self._page(request, "error_box.html", "", values, status)
        return self._page(request, "error.html", "", values, status)

    def _has_live_part(self, request: web.Request) -> bool:
        from staticfire.dashboard.rendering import has_block

        found = find_page(path_of(request.rel_url.raw_path_qs))
        return found is not None and has_block(found.page.template, "live")

    async def _export(self, request: web.Request, place: Mapping[str, str]) -> web.StreamResponse:
        """Send all dead letters of a group: a browser with the cookie of a login can't use the endpoint's own call."""
        lines = await self._calls.lines("/dlq/{group}/export", place)
        answer = web.StreamResponse(headers={**HEADERS, "Content-Type": LINES, "Content-Disposition": "attachment"})
        await answer.prepare(request)
        async for line in lines:
            await answer.write(line)
        return answer

    # -- live ----------------------------------------------------------------------------------------------------

    async def _live_part(self, page: str) -> str:
        """Return the live part of a page, by its address; the error if it can't be made now."""
        from staticfire.dashboard.rendering import render, render_block

        found = find_page(path_of(page))
        assert found is not None, page  # `_follow` has checked it.
        try:
            values = await self._values(found, dict(parse_qsl(urlsplit(page).query)))
            values = {**self._frame(found.page.section, page), **values}
            return render_block(found.page.template, "live", values)
        except Refused as refused:
            return render("error_box.html", {"status": refused.status, "words": str(refused)})
        except StaticfireError as error:
            return render("error_box.html", {"status": 502, "words": str(error)})
        except Exception as error:  # An internal error concerns one page only.  # noqa: BLE001
            log.error("dashboard_failed", page=page, error=repr(error))
            return render("error_box.html", {"status": 500, "words": f"{type(error).__name__}: {error}"})

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        from staticfire.dashboard.rendering import has_block

        page = request.query.get("page", "")
        is_ours = page.startswith(f"{DASHBOARD}/") and len(page) <= ADDRESS_CHARS_MAX
        found = find_page(path_of(page)) if is_ours else None
        if found is None or not has_block(found.page.template, "live"):
            return self._error_page(request, 404, "There is no such page, or it has no part that changes.")
        if self._live.is_full_for(page):
            return self._error_page(request, 503, "Too many pages are watched at the same time.")
        answer = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        await answer.prepare(request)
        async with aclosing(self._live.follow(page)) as parts:
            async for text in parts:
                if not await is_written(answer, event_of(text)):
                    if request.transport is not None:
                        request.transport.abort()  # Otherwise closing would wait until it has read the rest.
                    break
        return answer

    # -- actions -------------------------------------------------------------------------------------------------

    async def _action(self, request: web.Request, name: str) -> web.Response:
        action = ACTIONS.get(name)
        if action is None:
            return self._error_page(request, 404, "There is no such action.")
        if request.method != "POST":
            return await self._confirm(request, action)
        form = await posted(request)
        work = action.carry_out(self._calls, form)
        words = await (while_connected(request, work) if action.ends_with_caller else work)
        values = {"words": words, "back": action.back_from(form), "title": action.title}
        answer = self._page(request, "done_box.html" if request.headers.get("HX-Request") else "done.html", "", values)
        answer.headers["HX-Trigger"] = "changed"
        return answer

    async def _confirm(self, request: web.Request, action: PageAction) -> web.Response:
        """Return the page that shows what an action will change."""
        form = form_of(request.query)
        async with self._cluster.sharing():
            warnings = await action.warnings(self._calls, form)
        values = {
            "action": action,
            "warnings": warnings,
            "form": form,
            "back": action.back_from(form),
            "title": action.title,
        }
        return self._page(request, "confirm.html", "", values)

    # -- login ---------------------------------------------------------------------------------------------------

    async def _login(self, request: web.Request) -> web.Response:
        if request.method != "POST":
            return self._login_page(request, "")
        form = await posted(request)
        until_ms = self._machine.clock.wall_ms() + LASTS_MS
        cookie = self._access.cookie_for(form.get("token", ""), until_ms)
        if cookie is None:
            return self._login_page(request, "This isn't the token.")
        back = form.get("back", "")
        # Only an address of our own: another one would send people to a foreign page after a login.
        is_ours = back.startswith(f"{DASHBOARD}/") and "\\" not in back and back.isascii() and back.isprintable()
        target = back if is_ours else f"{DASHBOARD}/"
        answer = web.Response(status=303, headers={**HEADERS, "Location": target})
        options: dict[str, Any] = {"httponly": True, "samesite": "Strict", "secure": request.secure}
        answer.set_cookie(cookie_name(request.host), cookie, max_age=LASTS_MS // 1_000, path=DASHBOARD, **options)
        return answer

    def _login_needed(self, request: web.Request) -> web.Response:
        """Return the login. A part of a page has no place for it, so htmx opens the page again, which shows it."""
        answer = self._login_page(request, "")
        if request.headers.get("HX-Request"):
            shown = urlsplit(request.headers.get("HX-Current-URL", "")).path
            opened = shown if shown.startswith(f"{DASHBOARD}/") else f"{DASHBOARD}/"
            answer.headers["HX-Redirect"] = request.rel_url.raw_path_qs if request.method == "GET" else opened
        return answer

    def _login_page(self, request: web.Request, problem: str) -> web.Response:
        back = request.rel_url.raw_path_qs
        if back.startswith(f"{DASHBOARD}/login"):
            back = f"{DASHBOARD}/"
        return self._page(request, "login.html", "", {"problem": problem, "back": back, "title": "Login"}, status=401)

    def _logged_out(self, request: web.Request) -> web.Response:
        answer = web.Response(status=303, headers={**HEADERS, "Location": f"{DASHBOARD}/login"})
        answer.del_cookie(cookie_name(request.host), path=DASHBOARD)
        return answer

    # -- files ---------------------------------------------------------------------------------------------------

    def _file(self, request: web.Request, name: str) -> web.Response:
        file = served_file(name)
        if file is None:
            return web.Response(status=404, text="There is no such file.\n", headers=HEADERS)
        headers = {**HEADERS, "Content-Type": file.kind, "Cache-Control": FILE_AGE, "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            return web.Response(body=file.packed, headers={**headers, "Content-Encoding": "gzip"})
        return web.Response(body=file.data, headers=headers)


def why_not_same_site(headers: Mapping[str, str]) -> str:
    """Return why a POST is refused, or "": it must come from a page of this endpoint, which every browser reports."""
    origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site")
    if site is not None and site not in SAME_SITE:
        return "The request comes from a page of another site."
    if origin is None and site is None:
        return "The request doesn't say which page it comes from. Programs use the control endpoint, without /ui."
    if origin is not None and origin.partition("://")[2] != headers.get("Host", ""):
        return "The request comes from a page of another site."
    return ""


async def posted(request: web.Request) -> dict[str, str]:
    """Return the fields of the form that a request brings. Raises: Refused (it is incomplete, too large, no form)."""
    try:
        async with asyncio.timeout(HALF_REQUEST_S):
            return form_of(await request.post())
    except TimeoutError:
        raise Refused(408, {"error": f"The form was incomplete after {HALF_REQUEST_S:.0f} seconds."}) from None
    except web.HTTPRequestEntityTooLarge:
        words = f"The form is too large: up to {bytes_text(request.client_max_size)} are accepted."
        raise Refused(413, {"error": f"{words} Send large messages with a program."}) from None
    except (ValueError, LookupError) as error:
        raise Refused(400, {"error": f"The form can't be read: {error}"}) from None


def form_of(given: "MultiMapping[Any]") -> dict[str, str]:
    """Return the fields of a form. A field that is given several times, as by boxes that are chosen, has all values."""
    form: dict[str, str] = {}
    for name, value in given.items():
        if isinstance(value, str):
            form[name] = f"{form[name]} {value}" if name in form else value
    return form


async def is_written(answer: web.StreamResponse, data: bytes) -> bool:
    """Send data; return False if the browser is gone, or hasn't read what it was sent before for a long time."""
    try:
        async with asyncio.timeout(UNREAD_S):
            await answer.write(data)
    except (ConnectionError, TimeoutError):
        return False
    return True


def path_of(page: str) -> str:
    """Return the path of a page below /ui, still quoted, from its address."""
    return urlsplit(page).path.removeprefix(DASHBOARD) or "/"


def event_of(text: str) -> bytes:
    """Return a server-sent event; a comment if the text is empty."""
    if not text:
        return b": \n\n"
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"{lines}\n".encode()
