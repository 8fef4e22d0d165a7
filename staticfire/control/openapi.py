"""The OpenAPI description of the control endpoint, and an HTML page, generated from the routes. Pure."""

import html
from collections.abc import Iterable
from typing import Any

import msgspec

from staticfire.control.access import OPEN_PATHS
from staticfire.control.routes import JSON, PLACES, Route

OPENAPI_VERSION = "3.1.0"
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {"type": "string", "description": "the problem, and what to do"},
        "code": {"type": "string", "description": "RocketMQ's name of the response code, where a server refused"},
    },
}
COMMON = {
    400: "a parameter or the body is invalid; the error names it",
    403: "an unknown host name, a page of another site, or a server of the cluster doesn't permit it",
    409: "not now: a server is busy with something else",
    502: "a server of the cluster doesn't respond, or refuses the request",
}
NO_TOKEN = {401: "the token is missing or wrong: Authorization: Bearer TOKEN"}


def describe(routes: Iterable[Route], version: str, needs_token: bool) -> dict[str, Any]:
    """Return the description, ready for JSON."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.plain_path, {})[route.method.lower()] = _operation(route, needs_token)
    found: dict[str, Any] = {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "staticfire, the control endpoint",
            "version": version,
            "description": "A throwaway RocketMQ cluster for your tests: inspect and control it.",
        },
        "paths": paths,
        "components": {"schemas": {"Error": ERROR}},
    }
    if needs_token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _operation(route: Route, needs_token: bool) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.text,
        "operationId": _name_of(route),
        "parameters": [*_of_path(route), *_of_query(route)],
        "responses": _answers(route, needs_token),
    }
    if needs_token and route.path in OPEN_PATHS:
        operation["security"] = []
    if route.body is not None:
        operation["requestBody"] = {"required": False, "content": {JSON: {"schema": _schema(route.body)}}}
    return operation


def _name_of(route: Route) -> str:
    parts = [part.strip("{}") for part in route.plain_path.split("/") if part]
    return "_".join([route.method.lower(), *parts]).replace(".", "_")


def _of_path(route: Route) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1}
    return [
        {"name": name, "in": "path", "required": True, "description": PLACES[name], "schema": schema}
        for name in route.places
    ]


def _of_query(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": one.name, "in": "query", "required": False, "description": one.text, "schema": one.schema()}
        for one in route.query
    ]


def _answers(route: Route, needs_token: bool) -> dict[str, Any]:
    schema = {"type": "object"} if route.kind == JSON else {"type": "string"}
    refusals = {**COMMON, **(NO_TOKEN if needs_token else {}), **route.refusals}
    refused = {"schema": {"$ref": "#/components/schemas/Error"}}
    answers: dict[str, Any] = {"200": {"description": "done", "content": {route.kind: {"schema": schema}}}}
    for status, text in sorted(refusals.items()):
        content = {"schema": {"type": "object"}} if status == 503 else refused
        answers[str(status)] = {"description": text, "content": {JSON: content}}
    return answers


def _schema(body: type) -> dict[str, Any]:
    if body is dict:
        return {"type": "object"}
    (schema,), components = msgspec.json.schema_components([body], ref_template="#/$defs/{name}")
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    found: dict[str, Any] = components.get(name, schema)
    return found


def page(routes: Iterable[Route], url: str) -> str:
    """Return the description as one HTML page without scripts."""
    rows = []
    for route in routes:
        named = [f"<li><code>{html.escape(one.name)}</code> {html.escape(one.text)}</li>" for one in route.query]
        method = "" if route.method == "GET" else f"-X {route.method} "
        call = html.escape(f"curl {method}'{url}{route.plain_path}'")
        rows.append(
            f"<section><h2><b>{route.method}</b> {html.escape(route.plain_path)}</h2>"
            f"<p>{html.escape(route.text)}</p><pre>{call}</pre>"
            + (f"<details><summary>parameters</summary><ul>{''.join(named)}</ul></details>" if named else "")
            + "</section>"
        )
    return _PAGE.replace("ROWS", "\n".join(rows))


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>staticfire: the control endpoint</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h2 { font: 600 1rem ui-monospace, monospace; margin: 1.6rem 0 0 } h2 b { color: #06c }
p { margin: .2rem 0 } pre { background: #f4f4f4; padding: .4rem .6rem; margin: .3rem 0; overflow-x: auto }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd } pre { background: #262626 } }
</style>
<h1>The control endpoint</h1>
<p>Inspect and control this cluster. For programs: <a href="/openapi.json">/openapi.json</a>.</p>
ROWS
</html>
"""
