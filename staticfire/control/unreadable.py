"""Respond in JSON to bytes that aren't a request: aiohttp refuses them in plain text, before it looks for a route."""

import json
from http import HTTPStatus

from aiohttp import web

CHARS_MAX = 500
SERVER_ERROR = 500


class RefusesInJson(web.RequestHandler):
    """aiohttp's handler of one connection, whose refusals are JSON like every other response."""

    __slots__ = ()  # `refuse_in_json` changes the class of an object, which must have room for the same attributes.

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return aiohttp's response to an error, with its text in JSON. aiohttp logs the error."""
        refused = super().handle_error(request, status, exc, message)
        if isinstance(refused, web.Response) and refused.text is not None:
            words = " ".join(refused.text.split())[:CHARS_MAX]
            reason = f"the request can't be read: {words}" if status < SERVER_ERROR else HTTPStatus(status).phrase
            refused.text = json.dumps({"error": reason}, ensure_ascii=False) + "\n"
            refused.content_type = "application/json"
        return refused


def refuse_in_json(handler: web.RequestHandler) -> None:
    """Have a connection's handler refuse in JSON. aiohttp takes no other class for the handlers that it creates."""
    handler.__class__ = RefusesInJson
