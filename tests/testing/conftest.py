"""What tests of the fixture need besides a cluster of staticfire."""

from collections.abc import Iterator

import pytest

from staticfire.runtime.dispatcher import Dispatcher
from staticfire.runtime.live import live_machine
from staticfire.runtime.loop_thread import LoopThread
from staticfire.runtime.server import Server
from tests.testing.kept_modules import KEPT


@pytest.fixture(autouse=True)
def _modules_are_kept() -> Iterator[None]:
    """Restore what is loaded after pytester has forgotten it: this fixture ends after that one."""
    yield
    KEPT.restore()


@pytest.fixture
def nameserver_without_clock() -> Iterator[str]:
    """The address of a server that refuses each request as unknown, as Apache RocketMQ refuses those of our clock."""
    thread, machine = LoopThread("a nameserver without a clock"), live_machine()
    server = Server(machine, Dispatcher())
    port = thread.call(server.listen("127.0.0.1", 0))
    yield f"127.0.0.1:{port}"
    thread.call(server.close())
    thread.call(machine.workers.close())
    thread.close()
