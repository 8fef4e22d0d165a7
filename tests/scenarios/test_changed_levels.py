"""Restarts with another messageDelayLevel: messages that wait keep their times."""

import pytest

from staticfire.protocol.delay_levels import DELAY_LEVELS_DEFAULT
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import NAME, BrokerStand
from tests.scenarios.logged import LogLine

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


def levels_with(delay: str, level: int = 3) -> str:
    """Return the default levels, but with another delay for one of them."""
    delays = DELAY_LEVELS_DEFAULT.split()
    delays[level - 1] = delay
    return " ".join(delays)


@pytest.mark.row("D1")
@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_delay_that_became_longer_is_for_messages_that_are_sent_later(
    world: SimulatedWorld, stand: BrokerStand, logged: list[LogLine], is_killed: bool
) -> None:
    await stand.send("orders", b"10 s", DELAY="3")
    await world.run_for(seconds=2)
    if is_killed:  # The entry may be in no file yet, and is computed from the record.
        world.kill(NAME)
        await world.run_for(10)
        await stand.start(message_delay_level=levels_with("1h"))
    else:
        await stand.restart(message_delay_level=levels_with("1h"))
    await stand.send("orders", b"1 h", DELAY="3")
    await world.run_for(seconds=9)
    assert await stand.bodies("orders") == [b"10 s"]
    await stand.restart(message_delay_level=levels_with("2h"))
    await world.run_for(minutes=58)
    assert await stand.bodies("orders") == [b"10 s"]
    await world.run_for(minutes=3)
    assert await stand.bodies("orders") == [b"10 s", b"1 h"]
    assert [line for line in logged if line.event == "queue_entry_mended"] == []


@pytest.mark.parametrize("levels", [levels_with("1h"), levels_with("1s"), "1s 5s"])
async def test_entries_of_other_levels_are_no_damage_for_the_scrub(
    world: SimulatedWorld, stand: BrokerStand, levels: str
) -> None:
    for level in ("1", "3", "18"):
        await stand.send("orders", b"x", DELAY=level)
    await world.run_for(seconds=12)
    await stand.restart(message_delay_level=levels)
    await stand.stored(SCHEDULE, 2)
    findings = stand.broker.state.store.findings
    rounds = findings.scrub_rounds
    await world.run_for(minutes=5)
    assert findings.scrub_rounds > rounds
    assert findings.mended_entries == 0


async def test_messages_wait_for_the_time_of_their_level_also_if_its_queue_is_lost(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await stand.send("orders", b"x", DELAY="3")
    await world.stop(NAME)
    for path in [path for path in world.disk(NAME).files if "/consumequeue/" in path or path.endswith("/checkpoint")]:
        world.disk(NAME).remove(path)
    await stand.start(message_delay_level=levels_with("1h"))
    await world.run_for(seconds=11)
    assert await stand.bodies("orders") == [b"x"]


async def test_levels_whose_messages_a_loss_of_power_took_are_not_those_of_later_ones(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await stand.send("orders", b"10 s", DELAY="3")
    await stand.restart(message_delay_level=levels_with("1h"), flush_interval_commit_log=3_600_000)
    for _ in range(5):
        await stand.send("orders", b"lost")
    await stand.restart(message_delay_level=levels_with("1m"), flush_interval_commit_log=3_600_000)
    await stand.kill_and_start(power_loss=True)
    await stand.send("orders", b"1 m", DELAY="3")
    await stand.restart(message_delay_level=levels_with("2h"))
    await world.run_for(seconds=62)
    assert (await stand.bodies("orders"))[-2:] == [b"10 s", b"1 m"]
    assert stand.broker.state.store.findings.mended_entries == 0


async def test_a_broker_without_the_file_of_its_levels_says_so_if_it_is_broken(
    world: SimulatedWorld, stand: BrokerStand, logged: list[LogLine]
) -> None:
    path = "/store/config/delayLevels.json"
    await stand.send("orders", b"x", DELAY="3")
    await world.stop(NAME)
    world.disk(NAME).files[path].content[:5] = b"torn!"
    await stand.start()
    assert [line.fields["file"] for line in logged if line.event == "state_file_made_anew"] == ["delayLevels.json"]
    await world.run_for(seconds=11)
    assert await stand.bodies("orders") == [b"x"]


@pytest.mark.row("D2")
async def test_what_was_delivered_before_its_level_went_isnt_delivered_again_when_the_level_is_back(
    world: SimulatedWorld, stand: BrokerStand, logged: list[LogLine]
) -> None:
    """Only the log knows the delivery: the file of the progress is older than the kill."""
    await stand.restart(message_delay_level="1s 5s 10s")
    await world.run_for(seconds=15)
    await stand.send("orders", b"x", DELAY="3")
    await world.run_for(seconds=10.2)
    assert await stand.bodies("orders") == [b"x"]
    world.kill(NAME)
    await world.run_for(10)
    await stand.start(message_delay_level="1s 5s")
    await stand.send("orders", b"y", DELAY="1")
    await world.run_for(seconds=20)
    await stand.restart(message_delay_level="1s 5s 10s")
    await world.run_for(seconds=15)
    assert await stand.bodies("orders") == [b"x", b"y"]
    assert [line.fields for line in logged if line.event == "delayed_messages_stranded"] == []


@pytest.mark.row("D2")
async def test_a_level_that_is_gone_keeps_its_progress_and_what_waits(
    world: SimulatedWorld, stand: BrokerStand, logged: list[LogLine]
) -> None:
    await stand.restart(message_delay_level="1s 5s 10s")
    await world.run_for(seconds=15)
    await stand.send("orders", b"1", DELAY="3")
    await world.run_for(seconds=9)
    await stand.send("orders", b"2", DELAY="3")
    await world.run_for(seconds=1.2)
    for _ in range(2):
        world.kill(NAME)
        await world.run_for(10)
        await stand.start(message_delay_level="1s 5s")
        await world.run_for(seconds=20)
    stranded = [line.fields["messages"] for line in logged if line.event == "delayed_messages_stranded"]
    assert stranded == [1, 1]
    await stand.restart(message_delay_level="1s 5s 10s")
    await world.run_for(seconds=1)
    assert await stand.bodies("orders") == [b"1", b"2"]


@pytest.mark.row("D2")
async def test_progress_is_saved_as_the_log_grows_also_if_only_a_level_that_is_gone_waits(
    world: SimulatedWorld, stand: BrokerStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next start would read all of the log."""
    monkeypatch.setattr("staticfire.broker.delay.service.SAVE_BYTES", 1_000)
    await stand.send("orders", b"x", DELAY="3")
    await stand.restart(message_delay_level="1s 5s")
    for _ in range(10):
        await stand.send("orders", bytes(1_000))
    end = stand.broker.state.store.max_position
    await world.run_for(seconds=15)
    saved = world.machine(NAME).files.read_bytes("/store/config/delayOffset.json")
    assert b'"logPosition": %d' % end in saved
