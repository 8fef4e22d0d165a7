"""Import the modules of a server process quickly: without garbage collection, and without some modules."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Both are optional for their importers. asyncio uses ssl for TLS, which no server here uses. msgspec uses
# typing_extensions for what `typing` has since Python 3.11. OpenSSL alone takes 10 ms of a start and 3 MiB of memory.
DONE_WITHOUT = ("ssl", "typing_extensions")


@contextmanager
def light_start() -> Iterator[None]:
    """Hide these modules from imports inside the block. They can be imported afterwards.

    Use it only in the main module of a process, around its imports, before anything has loaded asyncio.
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
        # The imported objects are kept for ever, so the garbage collector needn't look at them, now or while messages
        # wait.
        gc.freeze()
        gc.enable()
