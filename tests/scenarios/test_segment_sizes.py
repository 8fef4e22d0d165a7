"""mappedFileSizeCommitLog is changed at all brokers of a set."""

import pytest

from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("P7")
KIB = 1024


@pytest.mark.parametrize(("before", "after"), [(64, 16), (16, 64), (24, 16)])
async def test_a_new_slave_copies_segments_of_all_sizes(world: SimulatedWorld, before: int, after: int) -> None:
    pair = await ReplicaSet(world, mapped_file_size_commit_log=before * KIB).open(slaves=0)
    for number in range(150):
        await pair.send(b"%d" % number * 100)
    pair.settings["mapped_file_size_commit_log"] = after * KIB
    await pair.restart(MASTER)
    for number in range(100):
        await pair.send(b"%d" % number * 100)
    await pair.start(SLAVE)
    await pair.until_caught_up()
    await pair.restart(SLAVE)
    await pair.fill(messages=100)
    assert (await pair.failover()).lost == 0
    await pair.until_caught_up(MASTER, SLAVE)
    assert len(await pair.bodies(SLAVE)) == len(await pair.bodies(MASTER)) == 350
    pair.assert_equal(MASTER, SLAVE)
    await pair.close()
