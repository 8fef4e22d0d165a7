"""Limit the use of file descriptors, because a process may have only a certain number of them (`ulimit -n`).

If connections took all descriptors, none would be left for files: segments, state files, a module that is imported
late. So the last descriptors are reserved for files (`kept_for_files`), and one more is held as a spare
(`SpareDescriptor`). With the spare one, a waiting connection can be accepted and closed. Without it, the peer would get
no reaction, and the listening socket would stay readable for ever.

A new descriptor always gets the lowest free number (POSIX), so its number shows how near the limit is.
"""

import os
import resource
from collections.abc import Callable

KEPT_FOR_FILES_MAX = 256
# Of a small limit, a quarter is reserved: 16 of 64.
KEPT_FOR_FILES_SHARE = 4
# Enough for CONNECTIONS_MAX and all files. Some hard limits are about a thousand million; using them would only make
# the kernel's tables large.
DESCRIPTORS_WANTED_MAX = 65_536
REPORT_EVERY_S = 10


def descriptors_max() -> int:
    """Return the current limit of this process. It can be changed from outside while the process runs."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_limit() -> tuple[int, int]:
    """Raise the soft limit of this process towards its hard limit; return the soft limit before and after.

    Servers must do this themselves: the default of 1,024 is meant for programs that use select(), and a broker may have
    more clients than that.
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
    """Return how many of `limit` descriptors are reserved and not available to connections."""
    return min(KEPT_FOR_FILES_MAX, limit // KEPT_FOR_FILES_SHARE)


def is_kept_for_files(descriptor: int, limit: int) -> bool:
    """Return whether a connection must give back this descriptor, because it is reserved for files."""
    return limit != resource.RLIM_INFINITY and descriptor >= limit - kept_for_files(limit)


class SpareDescriptor:
    """One open descriptor without a use, which is released when no other is free."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self.take()

    def take(self) -> bool:
        """Open the spare descriptor; return whether it is open now."""
        if self._descriptor is None:
            try:
                self._descriptor = os.open(os.devnull, os.O_RDONLY)
            except OSError:
                return False
        return True

    def release(self) -> None:
        """Close the spare descriptor, if it is open."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class ShortageNotice:
    """Report that connections are refused: one report for all refusals within REPORT_EVERY_S."""

    def __init__(self, tell: Callable[[str, int], None]) -> None:
        """`tell` gets the reason, and how many connections were refused since its last call."""
        self._tell = tell
        self._reported_s = float("-inf")
        self._count = 0

    def refused(self, words: str, now_s: float) -> None:
        self._count += 1
        if now_s - self._reported_s >= REPORT_EVERY_S:
            self._reported_s = now_s
            self._tell(words, self._count)
            self._count = 0
