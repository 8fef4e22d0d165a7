"""File descriptors, of which a process may have only so many (`ulimit -n`).

Who lets connections take all of them has none left for its files: segments, saves, a module that is imported late. So
the last of them are kept (`kept_for_files`), and one is held back (`SpareDescriptor`): with it a connection that waits
can be accepted and closed. Else its peer would hear nothing, and the listening socket would stay readable for ever.

A new descriptor has the lowest number that is free (POSIX), so its number tells how near the end is.
"""

import os
import resource
from collections.abc import Callable

KEPT_FOR_FILES_MAX = 256
KEPT_FOR_FILES_SHARE = 4
# Of a small limit a quarter is kept: 16 of 64.
DESCRIPTORS_WANTED_MAX = 65_536
# For CONNECTIONS_MAX and all files. Hard limits of a thousand million make a kernel's tables large for nothing.
TOLD_EVERY_S = 10


def descriptors_max() -> int:
    """Return how many this process may have now; the limit of a running process can be changed from outside."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_limit() -> tuple[int, int]:
    """Raise the soft limit of this process towards its hard one; return it before and after.

    Servers do that themselves: 1,024 is what programs get that use select(), and fewer than a broker has clients.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return soft, soft
    wanted = DESCRIPTORS_WANTED_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED_MAX)
    if wanted > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft, soft
    return soft, max(soft, wanted)


def kept_for_files(limit: int) -> int:
    """Return how many of `limit` descriptors no connection gets."""
    return min(KEPT_FOR_FILES_MAX, limit // KEPT_FOR_FILES_SHARE)


def is_kept_for_files(descriptor: int, limit: int) -> bool:
    """Tell whether a connection that got this descriptor has to give it back."""
    return limit != resource.RLIM_INFINITY and descriptor >= limit - kept_for_files(limit)


class SpareDescriptor:
    """One descriptor that is open for nothing, to be let go of when there is no other."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self.take()

    def take(self) -> bool:
        """Hold one; tell whether there was one to hold."""
        if self._descriptor is None:
            try:
                self._descriptor = os.open(os.devnull, os.O_RDONLY)
            except OSError:
                return False
        return True

    def release(self) -> None:
        """Let go of it; fine when none is held."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class ShortageNotice:
    """Says that connections aren't accepted, in one line for as many as come within TOLD_EVERY_S."""

    def __init__(self, tell: Callable[[str, int], None]) -> None:
        """`tell` gets why, and how many connections that concerned since it was last called."""
        self._tell = tell
        self._told_s = float("-inf")
        self._count = 0

    def refused(self, words: str, now_s: float) -> None:
        self._count += 1
        if now_s - self._told_s >= TOLD_EVERY_S:
            self._told_s = now_s
            self._tell(words, self._count)
            self._count = 0
