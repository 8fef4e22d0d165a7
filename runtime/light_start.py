"""Import the modules of a process quickly, and don't let the garbage collector examine them again and again.

Imported objects are never freed. Only a process that runs nothing else may change how its garbage collector works, so
a cluster inside a user's program doesn't.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Both are optional for their importers. asyncio uses ssl for TLS, which no server here uses. msgspec uses
# typing_extensions for what `typing` has since Python 3.11. OpenSSL alone takes 10 ms of a start and 3 MiB of memory.
DONE_WITHOUT = ("ssl", "typing_extensions")

# The threshold of the garbage collector, in objects. With Python's default of 700, it would examine the imported
# objects about a hundred times during the start of a command.
COLLECT_AFTER = 50_000
# The threshold after the imports: fifty thousand objects that are freed together take 40 ms.
COLLECT_LOADED_AFTER = 5_000


def collect_rarely() -> None:
    """Let the garbage collector of a process that runs nothing else examine fewer objects less often."""
    gc.set_threshold(COLLECT_AFTER)


def keep_loaded() -> None:
    """Let the garbage collector leave out what is loaded now, and work in small steps.

    It would examine the sixty thousand objects of the dashboard in 40 ms, while a page waits. In a process that runs
    other things, too, nothing changes.
    """
    if gc.get_threshold()[0] == COLLECT_AFTER:
        gc.freeze()
        gc.set_threshold(COLLECT_LOADED_AFTER)


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
        # So that the garbage collector doesn't examine the imported objects, now or while messages wait.
        gc.freeze()
        gc.enable()
