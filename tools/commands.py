"""The tables of commands and request codes, from the declarations in protocol/requests/."""

from typing import Any

import msgspec

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.nameserver.server import Nameserver
from staticfire.protocol import requests  # noqa: F401 (fills REQUESTS)
from staticfire.protocol.codes import OWN_CODES, RequestCode
from staticfire.protocol.command import REQUESTS, Declaration, Shape
from staticfire.runtime.live import live_machine


def command_tables() -> str:
    """Return one section per request: its fields and its response's fields in wire order, and their bodies."""
    return "\n\n".join(_section(declaration) for declaration in sorted(REQUESTS.values(), key=_code))


def _code(declaration: Declaration) -> int:
    return declaration.code


def _section(declaration: Declaration) -> str:
    doc = (declaration.request.command.__doc__ or "").split("\n")[0]
    head = ["| | fields, in wire order | body |", "| --- | --- | --- |"]
    rows = [f"### {declaration.code} {declaration.name}", "", doc, "", *head]
    for who, shape in (("request", declaration.request), ("answer", declaration.answer)):
        rows.append(f"| {who} | {_fields(shape) or 'none'} | {_body(shape)} |")
    return "\n".join(rows)


def _fields(shape: Shape) -> str:
    kinds = {field.name: field for field in msgspec.structs.fields(shape.command)}
    texts = []
    for name, wire in shape.names.items():
        field = kinds[name]
        optional = "" if field.required else "?"
        texts.append(f"`{wire}`{optional} {_kind(field.type)}")
    return ", ".join(texts)


def _kind(kind: Any) -> str:
    parts = [
        getattr(part, "__origin__", part).__name__
        for part in getattr(kind, "__args__", (kind,))
        if part is not type(None)
    ]
    return " or ".join(parts)


def _body(shape: Shape) -> str:
    kind = shape.body_type
    if kind is bytes:
        return "bytes"
    if hasattr(kind, "__metadata__"):  # A list with a limit.
        kind = kind.__origin__
    inner = getattr(kind, "__args__", None)
    return f"list of {inner[0].__name__}" if inner else str(kind.__name__)


def request_code_table() -> str:
    """Return the table of all request codes of RocketMQ 5.3 and staticfire, with the servers that handle them."""
    machine = live_machine()
    nameserver = Nameserver(machine).dispatcher.routes.handlers
    broker = Broker(machine, BrokerSettings(store_path_root_dir="unused")).dispatcher.routes.handlers
    served = [code for code in RequestCode if code in broker or code in nameserver]
    rows = [
        f"{len(served)} of {len(list(RequestCode))} request codes are answered. Every other one gets",
        "REQUEST_CODE_NOT_SUPPORTED with its name, and the connection stays.",
        "",
        "| code | name | nameserver | broker |",
        "| --- | --- | --- | --- |",
    ]
    for code in RequestCode:
        own = " (staticfire's own)" if code in OWN_CODES else ""
        marks = ["done" if code in codes else "" for codes in (nameserver, broker)]
        rows.append(f"| {int(code)} | {code.name}{own} | {marks[0]} | {marks[1]} |")
    return "\n".join(rows)
