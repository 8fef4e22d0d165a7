"""Templates and their filters. Everything that a template writes is escaped, except the HTML that filters return."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from staticfire.dashboard.addresses import address
from staticfire.dashboard.files import served_file
from staticfire.dashboard.shown import bytes_text, duration_text, moment_text


@cache
def environment() -> Environment:
    """Return the templates."""
    made = Environment(
        loader=PackageLoader("staticfire.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {"number": number, "moment": moment, "real_moment": real_moment, "duration": duration_text}
    made.filters |= {"bytes": bytes_text}
    made.globals |= {"address": address, "static": static}
    return made


def render(template: str, values: Mapping[str, Any]) -> str:
    """Return a page."""
    return environment().get_template(template).render(values)


def render_block(template: str, block: str, values: Mapping[str, Any]) -> str:
    """Return one block of a page: the part that is replaced while it is watched."""
    page = environment().get_template(template)
    return "".join(page.blocks[block](page.new_context(dict(values))))


def has_block(template: str, block: str) -> bool:
    """Return whether a page has a block of its own."""
    return block in environment().get_template(template).blocks


def number(value: float | None) -> Markup:
    """Return a number that the browser puts into the reader's format. None: it isn't known now."""
    if value is None:
        return Markup('<span class="none">unknown</span>')
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
    return Markup('<data value="{}">{}</data>').format(value, text)


def moment(ms: int | None) -> Markup:
    """Return a time of message time."""
    return _time(ms, "message")


def real_moment(ms: int | None) -> Markup:
    """Return a time of the wall clock."""
    return _time(ms, "real")


def _time(ms: int | None, clock: str) -> Markup:
    if not ms or ms < 0:
        return Markup('<span class="none">-</span>')
    return Markup('<time data-ms="{}" data-clock="{}">{}</time>').format(ms, clock, moment_text(ms))


def static(name: str) -> str:
    """Return the address of a script or style."""
    file = served_file(name)
    version = "" if file is None else file.version
    return address(f"/static/{name}", v=version)
