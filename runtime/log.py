"""Logging set-up: structlog, one line per event, constant event names with fields.

`logger("broker")` costs nothing until the first line: structlog takes 45 ms to import, which a broker's start can't
spare.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from staticfire.runtime.log_sink import LogSink

LineTaker = Callable[[str, str, dict[str, object]], None]
"""Level, event, fields."""

_configured = False
_takers: list[LineTaker] = []
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
# Nothing is logged as critical: who sets that wants no lines.


class Logger:
    """Structured lines of one component: `log.info("pull_held", topic=topic, queue_id=3)`."""

    def __init__(self, component: str) -> None:
        self._component = component
        self._bound: Any = None

    def debug(self, event: str, **fields: object) -> None:
        self._emit("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._emit("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._emit("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._emit("error", event, fields)

    def _emit(self, level: str, event: str, fields: dict[str, object]) -> None:
        if _takers:
            _takers[-1](level, event, fields)
            return
        if _LEVELS[level] < _threshold():
            return
        if self._bound is None:
            self._bound = _structlog().get_logger().bind(component=self._component)
        getattr(self._bound, level)(event, **fields)


def logger(component: str) -> Logger:
    """Return the logger of a component."""
    return Logger(component)


@contextmanager
def logged_to(taker: LineTaker) -> Iterator[None]:
    """Give all lines of this process to `taker`, whatever their level, and print none: a simulation counts them."""
    _takers.append(taker)
    try:
        yield
    finally:
        _takers.remove(taker)


def load() -> None:
    """Import what the first line needs: a process that has run out of file descriptors can't any more."""
    _structlog()


def _threshold() -> int:
    return _LEVELS.get(os.environ.get("STATICFIRE_LOG_LEVEL", "warning").lower(), _LEVELS["warning"])


def _structlog() -> Any:
    """Import structlog without its optional terminal library, and configure it once."""
    global _configured
    hidden = "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]
        # structlog.dev tries to import rich, which costs 100 ms and which no server process needs.
    try:
        import structlog
    finally:
        if hidden:
            del sys.modules["rich"]
    if not _configured:
        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso"),
                structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "component", "event"]),
            ],
            logger_factory=structlog.PrintLoggerFactory(file=cast(TextIO, LogSink())),
            cache_logger_on_first_use=True,
        )
        _configured = True
    return structlog
