"""Set up logging with structlog: one line per event, a constant event name with fields.

`logger("broker")` costs nothing until the first line. Importing structlog takes 45 ms, which is too long for a broker's
start.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from staticfire.runtime.log_sink import LogSink

LineTaker = Callable[[str, str, dict[str, object]], None]
"""It is called with level, event and fields."""

_configured = False
_takers: list[LineTaker] = []
# Nothing is logged as critical, so this level turns logging off.
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


class Logger:
    """Writes structured lines of one component: `log.info("pull_held", topic=topic, queue_id=3)`."""

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
    """Pass all lines of this process to `taker`, of any level, and print none. A simulation counts them like this."""
    _takers.append(taker)
    try:
        yield
    finally:
        _takers.remove(taker)


def load() -> None:
    """Import structlog before the first line: a process without free file descriptors can't import it any more."""
    _structlog()


def _threshold() -> int:
    return _LEVELS.get(os.environ.get("STATICFIRE_LOG_LEVEL", "warning").lower(), _LEVELS["warning"])


def _structlog() -> Any:
    """Import structlog without its optional terminal library, and configure it once."""
    global _configured
    hidden = "rich" not in sys.modules
    if hidden:
        # structlog.dev tries to import rich, which takes 100 ms. No server process needs it.
        sys.modules["rich"] = None  # type: ignore[assignment]
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
