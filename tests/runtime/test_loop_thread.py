"""An event loop in a thread of its own: every call ends, whatever happens to caller, coroutine or thread."""

import asyncio
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import FrameType

import pytest

from staticfire.protocol.errors import AnswerTimeout, ClientError
from staticfire.runtime.loop_thread import LoopThread


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread("the test")
    yield thread
    thread.close()


async def forever(ended: list[str] | None = None) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        if ended is not None:
            await asyncio.sleep(0)  # Cleaning up takes a turn of the loop or two.
            ended.append("cleaned up")


async def until_it_waits(caller: int) -> None:
    """Return when a thread waits for a result.

    Before, it wakes the loop. asyncio ignores an OSError of that, so also the TimeoutError of a signal handler.
    """
    while True:
        frame = sys._current_frames()[caller]  # house: no thread reports that it waits
        if frame.f_code is threading.Condition.wait.__code__:
            return
        await asyncio.sleep(0)


def test_results_and_errors_come_back(thread: LoopThread) -> None:
    async def add(one: int, other: int) -> int:
        return one + other

    async def fail() -> None:
        raise LookupError("nothing there")

    assert thread.call(add(1, 2)) == 3
    with pytest.raises(LookupError, match="nothing there"):
        thread.call(fail())


def test_call_that_takes_too_long_is_cancelled_and_has_cleaned_up_at_the_end(thread: LoopThread) -> None:
    ended: list[str] = []
    with pytest.raises(AnswerTimeout, match=r"the test: not done within 0\.01 s"):
        thread.call(forever(ended), timeout_s=0.01)
    thread.close()
    assert ended == ["cleaned up"]


def test_timeout_of_the_coroutine_itself_stays_what_it_is(thread: LoopThread) -> None:
    async def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        thread.call(fail(), timeout_s=10)


def test_call_that_is_done_just_after_its_timeout_returns_its_result(thread: LoopThread) -> None:
    may_end = asyncio.Event()

    async def end_late() -> str:
        await may_end.wait()
        return "done"

    async def let_it_end() -> None:
        may_end.set()

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code is Future.result.__code__:
            sys.setprofile(None)
            thread.call(let_it_end())
            thread.call(asyncio.sleep(0))  # The other coroutine needs one more turn of the loop.

    sys.setprofile(watch)
    try:
        assert thread.call(end_late(), timeout_s=0.01) == "done"
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("timeout_s", [None, 3_600])
def test_timeout_of_a_signal_handler_stays_what_it_is(thread: LoopThread, timeout_s: float | None) -> None:
    """Test frameworks limit the time of a test in this way."""
    caller = threading.get_ident()

    def end_test(*_: object) -> None:
        raise TimeoutError("the test takes too long")

    async def ring() -> None:
        await until_it_waits(caller)
        asyncio.get_running_loop().call_soon(signal.pthread_kill, caller, signal.SIGALRM)
        await forever()

    before = signal.signal(signal.SIGALRM, end_test)
    try:
        with pytest.raises(TimeoutError, match="the test takes too long"):
            thread.call(ring(), timeout_s)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_ctrl_c_ends_the_call_and_its_coroutine(thread: LoopThread) -> None:
    ended: list[str] = []

    caller = threading.get_ident()

    async def press_ctrl_c() -> None:
        await until_it_waits(caller)
        asyncio.get_running_loop().call_soon(signal.pthread_kill, caller, signal.SIGINT)
        await forever(ended)

    with pytest.raises(KeyboardInterrupt):
        thread.call(press_ctrl_c())
    thread.close()
    assert ended == ["cleaned up"]


def test_close_ends_calls_of_other_threads_in_words(thread: LoopThread) -> None:
    waiting = thread.submit(forever())
    thread.close()
    with pytest.raises(ClientError, match="closed while this call waited"):
        waiting.result(1)
    with pytest.raises(ClientError, match="the test is closed"):
        thread.call(forever())
    thread.close()


def test_cancelled_future_cancels_its_coroutine(thread: LoopThread) -> None:
    ended: list[str] = []
    assert thread.submit(forever(ended)).cancel()
    thread.close()
    assert ended in ([], ["cleaned up"])  # Nothing at all where it hadn't begun.


def test_thread_that_would_wait_for_itself_gets_an_error(thread: LoopThread) -> None:
    async def nested() -> None:
        thread.call(forever())

    with pytest.raises(ClientError, match="would wait for itself"):
        thread.call(nested())


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_ends_the_loop_is_raised_where_a_caller_waits(thread: LoopThread, error: type[BaseException]) -> None:
    async def end_it() -> None:
        raise error(3)

    other = thread.submit(forever())
    with pytest.raises(error):
        thread.call(end_it())
    with pytest.raises(ClientError):
        other.result(1)
    thread.close()
    assert isinstance(thread.error, error)
    with pytest.raises(ClientError, match=f"has ended: {error.__name__}"):
        thread.call(forever())


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_child_of_a_fork_gets_an_error_and_closes_nothing(thread: LoopThread) -> None:
    async def answer() -> int:
        return 7

    def in_child() -> None:
        with pytest.raises(ClientError, match="forked"):
            thread.call(answer())
        assert thread.is_copy
        thread.close()

    assert exit_code_of_child(in_child) == 0
    assert thread.call(answer()) == 7


def test_many_threads_call_one_loop(thread: LoopThread) -> None:
    seen: list[int] = []

    async def add(number: int) -> None:
        await asyncio.sleep(0)
        seen.append(number)

    callers = [threading.Thread(target=lambda n=n: thread.call(add(n))) for n in range(20)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sorted(seen) == list(range(20))


def exit_code_of_child(work: Callable[[], None]) -> int:
    """Do some work in a fork of this process; return its exit code."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 (the child must not go on as a test)
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
