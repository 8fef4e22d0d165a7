"""Message time at a nameserver that brokers register with and whose clock none of them follows."""

import pytest

from staticfire.protocol.requests.clock import Clock, ClockAnswer
from tests.nameserver.asking import registration
from tests.nameserver.conftest import Connect

pytestmark = pytest.mark.row("S1")


@pytest.mark.parametrize("action", ["freeze", "run", "advance", "scale", "skip"])
async def test_it_moves_nothing_alone_and_says_whom_to_ask(connect: Connect, action: str) -> None:
    client = connect()
    await client.ask(registration())
    answer = await client.ask(Clock(action, by_ms=1, rate=2.0))
    assert answer.code == 1
    assert "use the first nameserver of the brokers' list" in str(answer.remark)
    assert isinstance(await client.ask(Clock("now")), ClockAnswer)


async def test_it_drives_alone_as_long_as_there_are_no_brokers(connect: Connect) -> None:
    answer = await connect().ask(Clock("freeze"))
    assert isinstance(answer, ClockAnswer)
    assert answer.mode == "frozen"
