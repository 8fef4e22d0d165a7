"""Message time at a nameserver that brokers register with and whose clock none of them follows."""

import pytest

from staticfire.nameserver.server import Nameserver
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.requests.clock import (
    BrokerClockAnswer,
    Clock,
    ClockAnswer,
    ClockMoved,
    ClockReading,
    RestAnswer,
)
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world.world import SimulatedWorld
from tests.nameserver.asking import NAMESERVER_HOST, registration
from tests.nameserver.conftest import Connect

pytestmark = pytest.mark.row("S1")


@pytest.mark.parametrize("action", ["freeze", "run", "advance", "scale", "skip"])
async def test_it_moves_nothing_alone_and_names_the_owner(connect: Connect, action: str) -> None:
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


async def test_a_watcher_gets_each_change(world: SimulatedWorld, connect: Connect, nameserver: Nameserver) -> None:
    dispatcher = Dispatcher()
    seen: list[ClockMoved] = []
    dispatcher.handle(RequestCode.CLOCK_MOVED, lambda call: seen.append(call.request))
    watcher = ConnectionPool(world.machine("watcher", "10.0.0.3"), dispatcher)
    address = f"{NAMESERVER_HOST}:{nameserver.port}"
    answer = await watcher.ask(address, Clock("watch"))
    assert isinstance(answer, ClockAnswer)
    assert (answer.mode, answer.next_due_ms) == ("real", -1)
    moved = [await connect().ask(Clock(*change)) for change in (("freeze",), ("advance", 60_000), ("run",))]
    await world.run_for(100)
    assert [one.mode for one in seen if one.epoch in {each.epoch for each in moved}] == ["frozen", "frozen", "real"]
    assert seen[-1].message_ms - answer.message_ms >= 60_000
    await watcher.close()
    assert (await connect().ask(Clock("freeze"))).code == 0


async def test_a_broker_whose_response_cant_be_read_is_one_that_refuses(
    world: SimulatedWorld, connect: Connect, nameserver: Nameserver
) -> None:
    """A bit was flipped on its way."""
    dispatcher = Dispatcher()
    dispatcher.handle(RequestCode.SET_BROKER_CLOCK, lambda _: BrokerClockAnswer())
    requests = []

    def unreadable(call: Call) -> RestAnswer:
        requests.append(call.request)
        return RestAnswer(at_rest=1)  # type: ignore[arg-type]

    dispatcher.handle(RequestCode.GET_REST, unreadable)
    broker = ConnectionPool(world.machine("broker", "10.0.0.2"), dispatcher)
    address = f"{NAMESERVER_HOST}:{nameserver.port}"
    await broker.ask(address, registration(clock=ClockReading().text()))
    assert isinstance(await broker.ask(address, Clock("skip")), ClockAnswer)
    await world.run_for(seconds=3)
    assert len(requests) > 2
    assert nameserver.crash is None
    await broker.close()
