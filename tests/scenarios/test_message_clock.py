"""The file of a broker's clock when the disk fails."""

import pytest

from staticfire.broker.clock.message_clock import MessageClock
from staticfire.protocol.errors import StorageError
from staticfire.protocol.requests.clock import FROZEN, ClockReading
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.files import SimulatedFile


async def test_a_failed_write_closes_the_file_and_keeps_the_time(
    world: SimulatedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[SimulatedFile] = []
    monkeypatch.setattr(SimulatedFile, "close", lambda file: closed.append(file))
    machine = world.machine("broker")
    machine.files.make_folder("/store")
    clock = MessageClock(machine.clock, machine.files, "/store/clock.json")
    now_ms = clock.message_ms()
    clock.set(ClockReading(1, FROZEN, 0.0, now_ms))
    world.disk("broker").fail_write()
    with pytest.raises(StorageError, match=r"clock\.json can't be written"):
        clock.set(ClockReading(2, FROZEN, 0.0, now_ms + 1_000))
    assert len(closed) == 1
    assert (clock.epoch, clock.message_ms()) == (1, now_ms)
