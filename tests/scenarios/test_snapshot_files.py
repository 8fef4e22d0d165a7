"""Which files a snapshot contains, and what a broker does if it can't move them into place."""

import errno

import pytest

from staticfire.broker.retention import HOUR_MS
from staticfire.broker.snapshots.plan import OWN_NAMES
from staticfire.protocol.errors import NetworkError, StorageError
from staticfire.protocol.requests.snapshots import RestoreSnapshot, SaveSnapshot
from staticfire.protocol.requests.topics import DeleteTopic
from staticfire.protocol.requests.upkeep import DeleteExpired
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.broker_stand import NAME, BrokerStand
from tests.scenarios.replica_set import HOSTS, MASTER, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("S8")

# What a broker writes next to the data that its snapshots contain. A restore doesn't change it.
OTHER_NAMES = {"abort", "damaged", "journal", "lock", "replication.json", "restoring", "snapshots"}
DELETE_ALL = {"mapped_file_size_commit_log": 64 * 1024, "file_reserved_time": 1}


def note_names(world: SimulatedWorld, who: str, host: str) -> set[str]:
    """Return a set that gets the name of each file and folder that the broker touches in its folder."""
    names = set[str]()

    def note(_: str, path: str) -> None:
        if path.startswith("/store/"):
            names.add(path.split("/")[2])

    world.machine(who, host)
    world.disk(who).before = note
    return names


async def test_a_broker_with_everything_in_use_writes_no_other_names(world: SimulatedWorld) -> None:
    names = note_names(world, NAME, "10.0.0.2")
    stand = BrokerStand(world, journal_enable=True, salvage=True, flush_disk_type="SYNC_FLUSH", **DELETE_ALL)
    await stand.start()
    for topic in ("orders", "gone"):
        assert (await stand.send(topic, b"x" * 20_000)).code == 0
        assert (await stand.send(topic, b"x" * 20_000, DELAY="1")).code == 0
        assert (await stand.send(topic, b"x" * 20_000, TIMER_DELAY_SEC="1")).code == 0
    await world.run_for(seconds=20)
    assert (await stand.ask(DeleteTopic("gone"))).code == 0
    for request in (SaveSnapshot("base"), RestoreSnapshot("base")):
        assert (await stand.ask(request)).code == 0
    stand.jump(3 * HOUR_MS)
    assert (await stand.ask(DeleteExpired())).code == 0
    await stand.send("orders", b"the last one", KEYS="k")
    await world.run_for(seconds=20)
    log = max(path for path in world.disk(NAME).files if path.startswith("/store/commitlog/"))
    world.kill(NAME)
    world.machine(NAME).files.remove("/store/checkpoint")  # So that recovery reads all of the log.
    world.disk(NAME).rot(log, 200, 0xFF)
    await stand.start()
    assert set(OWN_NAMES) < names < {*OWN_NAMES, *OTHER_NAMES}
    await stand.close()


async def test_a_broker_with_a_slave_writes_no_other_names(world: SimulatedWorld) -> None:
    names = [note_names(world, who, HOSTS[who]) for who in (MASTER, SLAVE)]
    pair = ReplicaSet(world)
    await pair.open()
    assert (await pair.send(b"copied")).code == 0
    await pair.until_caught_up()
    for each in names:
        assert "replication.json" in each
        assert each < {*OWN_NAMES, *OTHER_NAMES}
    await pair.close()


@pytest.mark.parametrize("fails", ["move aside", "move into place"])
async def test_a_broker_that_cannot_restore_a_snapshot_accepts_no_message_that_is_lost_later(
    world: SimulatedWorld, fails: str
) -> None:
    stand = BrokerStand(world)
    await stand.start()
    await stand.put_topic("orders")
    await stand.send("orders", b"saved")
    assert (await stand.ask(SaveSnapshot("base"))).code == 0
    await stand.send("orders", b"later")
    target = "/store/restoring/before/consumequeue" if fails == "move aside" else "/store/consumequeue"

    def strike(step: str, path: str) -> None:
        if (step, path) == ("rename", target):
            raise OSError(errno.EBUSY, "Device or resource busy", path)

    world.disk(NAME).before = strike
    answer = await stand.ask(RestoreSnapshot("base"))
    assert answer.code != 0
    expected = [b"saved", b"later"]
    if fails == "move aside":
        assert answer.remark.endswith("Device or resource busy; nothing was changed")
        assert (await stand.send("orders", b"last")).code == 0
        expected.append(b"last")
    else:
        assert answer.remark.endswith("Device or resource busy; restart the broker to complete it")
        with pytest.raises(NetworkError):
            await stand.send("orders", b"last")
        assert str(world.failures(NAME)[0]) == answer.remark
        with pytest.raises(StorageError, match=r"only partly restored in /store: .* restart the broker"):
            await stand.start()  # The disk still has the same problem.
        expected = [b"saved"]
    world.disk(NAME).before = None
    world.kill(NAME)
    await world.run_for(ms=10)
    await stand.start()
    assert await stand.bodies("orders") == expected
    await stand.close()
