"""How servers import what they consist of: no garbage is collected, and in their own processes much is left out."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

DONE_WITHOUT = ("ssl", "typing_extensions")
# Both are optional to who asks for them: asyncio for TLS, which no server here speaks, msgspec for what `typing` has
# since Python 3.11. OpenSSL alone is 10 ms of a start and 3 MiB of memory.


@contextmanager
def light_start() -> Iterator[None]:
    """Let imports do without these modules; who asks for one of them later gets it.

    Only for the main module of a process, around its imports, before anything has loaded asyncio.
    """
    hidden = [name for name in DONE_WITHOUT if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    gc.disable()
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
        # What was imported stays, so no collection has to look at it: neither now nor while messages wait.
        gc.freeze()
        gc.enable()


@contextmanager
def collection_paused() -> Iterator[None]:
    """Import in somebody else's process without collecting garbage: all of it stays, and would be looked at often."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
