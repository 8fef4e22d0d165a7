"""Input and output of compiled functions, laid out so that one byte too many is seen.

What is read: an array has no byte behind its items, so that a sanitizer sees the first one beyond. A bytes object ends
in a NUL of its own, which is poisoned for the length of a call.

What is written: the NUL behind each bytes object that comes back must still be one.
"""

import ctypes
from array import array
from collections.abc import Iterator
from contextlib import contextmanager

NUL_AT = bytes.__basicsize__ - 1
# From the address of a bytes object to its first byte; as far behind its last one is the NUL.
SHARED_BYTES_MAX = 1
# Objects of so few bytes are CPython's own, one for all.
_process = ctypes.CDLL(None)
IS_SANITIZED = hasattr(_process, "__asan_poison_memory_region")


@contextmanager
def guarded(data: bytes, is_array: bool) -> "Iterator[bytes | array[int]]":
    """Yield the same bytes in memory of their own, with nothing readable behind them while the sanitizer watches."""
    if is_array:
        yield array("B", data)[:]  # A slice has room for its items only; what is made of bytes has more.
        return
    own = bytes(bytearray(data))
    if not IS_SANITIZED or len(own) <= SHARED_BYTES_MAX:
        yield own
        return
    nul = ctypes.c_void_p(id(own) + NUL_AT + len(own))
    _process.__asan_poison_memory_region(nul, ctypes.c_size_t(1))
    try:
        yield own
    finally:
        _process.__asan_unpoison_memory_region(nul, ctypes.c_size_t(1))


def check_ends(made: object) -> None:
    """Fail if a bytes object, at any depth of tuples, lists and dicts, was written beyond its end."""
    if isinstance(made, bytes):
        assert ctypes.string_at(id(made) + NUL_AT + len(made), 1) == b"\0", "written beyond the end"
    elif isinstance(made, dict):
        check_ends([*made, *made.values()])
    elif isinstance(made, list | tuple):
        for one in made:
            check_ends(one)
