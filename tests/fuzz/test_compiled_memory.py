"""The compiled twin gives back what it takes: after spoilt inputs, after callbacks that fail, and without memory."""

import gc
import sys
import tracemalloc
from array import array
from collections.abc import Callable
from contextlib import suppress
from itertools import islice, pairwise
from typing import Any

import pytest

from staticfire.protocol.compiled import twin
from tests.fuzz.compiled_inputs import SPOT, USUAL, Callbacks
from tests.fuzz.compiled_parts import Entry, entries

pytestmark = pytest.mark.skipif(twin is None, reason="built without a compiler, or STATICFIRE_PURE_PYTHON is set")

EACH = pytest.mark.parametrize("entry", [] if twin is None else entries(twin), ids=lambda entry: entry.name)
ROUNDS = 3
SPOILT_STEP = 5
# One bit or two of each byte: all of them would take half a minute while memory is traced.
ALLOCATIONS_MAX = 2_000
# More than any call makes.


class CallbackFailed(Exception):
    """Raised by a callback."""


def check_kept(work: Callable[[], object]) -> None:
    """Fail if each round of work leaves more bytes, or references to None or a queue, than there were.

    What leaks does so in each round; what CPython or pytest keeps for themselves now and then, doesn't.
    """
    # Numbers that are kept as objects would count, too.
    noted = [array("q", bytes(24)) for _ in range(ROUNDS + 1)]
    work()
    tracemalloc.start()
    try:
        work()  # What is traced takes memory itself, once.
        gc.collect()
        measure(noted[0])
        for after in noted[1:]:
            work()
            gc.collect()
            measure(after)
    finally:
        tracemalloc.stop()
    more = [[now - then for now, then in zip(after, before, strict=True)] for before, after in pairwise(noted)]
    least = [min(column) for column in zip(*more, strict=True)]
    assert max(least) <= 0, f"each round keeps {least[0]} bytes, {least[1]} of None, {least[2]} of the queue"


def measure(into: "array[int]") -> None:
    """Note the bytes that are in use, and the references to None and to the queue that messages go to."""
    into[0] = tracemalloc.get_traced_memory()[0]
    into[1] = sys.getrefcount(None)
    into[2] = sys.getrefcount(SPOT)


@EACH
def test_nothing_is_kept_of_any_input(entry: Entry) -> None:
    def work() -> None:
        for data in entry.inputs:
            entry.run(data)
            for spoilt in islice(entry.spoilt(data), None, None, SPOILT_STEP):
                entry.run(spoilt)

    check_kept(work)


def fails_at(call: Callable[..., object], turn: int) -> Callable[..., object]:
    """Return the same, but that its n-th call raises."""
    turns = iter(range(turn))

    def fail(*arguments: object) -> object:
        if next(turns, None) is None:
            raise CallbackFailed
        return call(*arguments)

    return fail


WRONG: list[Any] = [
    None, 5, "text", (), (SPOT,), (SPOT, b""), (SPOT, b"", 1), (SPOT, "text", 1), (SPOT, b"abcd", "1"), -1, 1 << 70,
]  # fmt: skip
ERRORS = CallbackFailed, TypeError, ValueError, OverflowError, SystemError
# SystemError is what CPython raises where `find` returns no tuple.


def failing() -> list[Callbacks]:
    """Return callbacks of which one raises at its first, second ... call, or returns what it may not."""
    usual = USUAL._asdict()
    made = [USUAL._replace(**{name: fails_at(usual[name], turn)}) for name in usual for turn in range(4)]
    return made + [USUAL._replace(**{name: returns(wrong)}) for name in usual for wrong in WRONG]


def returns(wrong: object) -> Callable[..., object]:
    return lambda *_: wrong


@EACH
def test_nothing_is_kept_where_a_callback_fails(entry: Entry) -> None:
    def work() -> None:
        for data in entry.inputs:
            for callbacks in failing():
                with suppress(*ERRORS):
                    entry.run(data, callbacks)

    check_kept(work)


@EACH
def test_without_memory_an_error_is_raised_and_nothing_kept(entry: Entry) -> None:
    """Each allocation of a call fails in turn."""
    hooks = pytest.importorskip("_testcapi", reason="a Python without its own test modules")

    def work() -> None:
        for data in entry.inputs:
            for allowed in range(ALLOCATIONS_MAX):
                hooks.set_nomemory(allowed, allowed + 1)
                try:
                    entry.call(data, USUAL)
                except MemoryError:
                    continue
                else:
                    break
                finally:
                    hooks.remove_mem_hooks()
            else:
                pytest.fail("no call has ended")

    check_kept(work)
