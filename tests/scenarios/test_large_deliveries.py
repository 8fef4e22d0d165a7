"""Messages whose later form is larger than a segment, or that can't be delivered for a while, are never dropped."""

from itertools import product
from typing import Any

import pytest

from staticfire.protocol.names import HALF_TOPIC
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.protocol.sys_flag import TransactionKind
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.broker_stand import NAME, BrokerStand
from tests.scenarios.logged import LogLine
from tests.scenarios.replica_set import MASTER, SLAVE, ReplicaSet

KIB = 1024
# It is longer than the topics in which messages wait.
TOPIC = "t" * 120
DELAYS: dict[str, dict[str, Any]] = {"level": {"DELAY": "1"}, "timer": {"TIMER_DELAY_SEC": "1"}}
A_FILE = b"not a folder"


@pytest.mark.row("D1")
@pytest.mark.parametrize("kind", DELAYS)
async def test_each_delayed_message_that_is_accepted_is_delivered(world: SimulatedWorld, kind: str) -> None:
    """The delivered form of some of them is larger than a segment, because of the topic and the times of a timer."""
    pair = ReplicaSet(world, mapped_file_size_commit_log=64 * KIB)
    await pair.open(topic=TOPIC)
    accepted = []
    for size in range(65_536 - 700, 65_536, 20):
        if (await pair.send(b"x" * size, topic=TOPIC, **DELAYS[kind])).code == 0:
            accepted.append(size)
    assert 0 < len(accepted) < 35
    await world.run_for(seconds=3)
    assert (await pair.send(b"a small one", topic=TOPIC)).code == 0
    for _ in range(2):
        await pair.until_caught_up()
        for name in (MASTER, SLAVE):
            assert [len(body) for body in await pair.bodies(name, topic=TOPIC)] == [*accepted, 11]
        pair.assert_equal(MASTER, SLAVE)
        for name in (MASTER, SLAVE):
            world.kill(name)
            await pair.start(name)
    await pair.close()


@pytest.mark.row("D1")
async def test_messages_that_waited_while_segments_became_smaller_are_delivered(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await stand.put_topic("orders")
    body = b"x" * 100_000
    for properties in DELAYS.values():
        assert (await stand.send("orders", b"before " + body, **properties)).code == 0
    await world.run_for(seconds=3)
    assert (await stand.send("orders", body, DELAY="3")).code == 0
    assert (await stand.send("orders", body, TIMER_DELAY_SEC="10")).code == 0
    half = await stand.send("orders", body, TRAN_MSG="true", PGROUP="producers")
    assert half.code == 0
    await stand.restart(mapped_file_size_commit_log=64 * KIB)
    assert "too large" in ((await stand.send("orders", body)).remark or "")
    (record,) = await stand.stored(HALF_TOPIC)
    commit = int(TransactionKind.COMMIT)
    end = EndTransaction("producers", record.queue_offset, record.log_position, commit, False, "id", "id")
    assert (await stand.ask(end)).code == 0
    await world.run_for(seconds=11)
    expected = [len(body) + 7] * 2 + [len(body)] * 3
    for _ in range(2):
        assert list(map(len, await stand.bodies("orders"))) == expected
        assert (await stand.send("orders", b"small")).code == 0
        expected.append(5)
        await stand.kill_and_start()
    await stand.restart(mapped_file_size_commit_log=64 * 1024 * KIB)
    assert list(map(len, await stand.bodies("orders"))) == expected
    world.kill(NAME)


@pytest.mark.row("D1")
@pytest.mark.parametrize("kind", DELAYS)
async def test_a_message_whose_queue_cannot_be_loaded_waits_and_the_others_are_delivered(
    world: SimulatedWorld, stand: BrokerStand, kind: str, logged: list[LogLine]
) -> None:
    for topic in ("orders", "blocked"):
        await stand.put_topic(topic)
    other = {"level": {"DELAY": "2"}, "timer": DELAYS["timer"]}[kind]
    for number, (properties, topic) in product(range(300), ((DELAYS[kind], "blocked"), (other, "orders"))):
        assert (await stand.send(topic, b"%d" % number, **properties)).code == 0
    path = "/store/consumequeue/blocked"
    await world.stop(NAME)
    world.machine(NAME).files.replace(path, A_FILE)
    await stand.start()
    await world.run_for(seconds=20)
    expected = [b"%d" % number for number in range(300)]
    assert await stand.bodies("orders") == expected
    (line,) = [line for line in logged if line.event.endswith("_not_delivered")]
    assert "can't be a queue's folder, a file is in its place: move it away" in str(line.fields["error"])
    stand.broker.state.machine.files.remove(path)
    await world.run_for(seconds=1)
    assert await stand.bodies("blocked") == expected
    assert await stand.bodies("orders") == expected
