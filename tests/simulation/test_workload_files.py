"""A workload file with an error is told with its line and the reason."""

from pathlib import Path

import pytest

from staticfire.protocol.errors import UsageError
from staticfire.simulation.workload.loading import load_workload
from staticfire.simulation.world.chance import source_of_chance
from tests.house.source import ROOT

pytestmark = pytest.mark.row("S3")

HEAD = "from staticfire.simulation.workload import Brokers, Group, Nemesis, Producers, Topic, Transactions, Workload\n"

WRONG = {
    "workload = Workload(topics=[])": "2: the workload has no topic",
    "workload = Workload(": "2: '(' was never closed",
    "workload = 5": "defines no `workload`",
    "1 / 0": "2: ZeroDivisionError",
    "Producers('orders', rate=5)": "2: Producers has no 'rate'; there are 'topic', 'per_second'",
    "Producers('orders', per_secnd=5)": "2: Producers has no 'per_secnd'; did you mean 'per_second'",
    "Producers('orders', per_second=-1)": "per_second=-1; it must be above 0",
    "Nemesis(may=['kil broker'])": "2: there is no fault 'kil broker'; did you mean 'kill broker'",
    "Brokers(settings={'flush_disk': 1})": "no setting of BrokerSettings 'flush_disk'; did you mean 'flush_disk_type'",
    "Brokers(settings={'flush_disk_type': 'X'})": "no value of flush_disk_type 'X'",
    "Brokers(settings={'listen_port': 99999})": "99999",
    "Group('g', 't', settings={'pull_batch': 1})": "did you mean 'pull_batch_size'",
    "Group('billing', 'orders', ordered=True, poison=0.1)": "set retries_max",
    "Group('billing', 'orders', ordered=True, popped=True)": "push consumers can't pop in order",
    "Group('billing', 'orders', fails=3)": "fails=3 is not a share",
    "workload = Workload([Topic('orders')], [Producers('oders')])": "no topic 'oders'; did you mean 'orders'",
    "workload = Workload([Topic('orders')], groups=[Group('g', 'x')])": "no topic 'x'; there are 'orders'",
    "workload = Workload([Topic('orders')] * 2)": "topic 'orders' exists twice",
    "Topic('a b')": "2: topic 'a b'",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_reported_with_its_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.py"
    path.write_text(HEAD + text + "\n")
    with pytest.raises(UsageError) as reported:
        load_workload(str(path))
    assert str(reported.value).startswith(str(path))
    assert WRONG[text] in str(reported.value)


def test_a_workload_may_be_made_for_each_seed(tmp_path: Path) -> None:
    path = tmp_path / "shop.py"
    path.write_text(
        f"{HEAD}\ndef workload(chance):\n    return Workload([Topic('orders', chance.choice([1, 2, 4]))])\n"
    )
    make = load_workload(str(path))
    assert {make(source_of_chance(seed)).topics[0].queues for seed in range(20)} == {1, 2, 4}
    path.write_text(f"{HEAD}\ndef workload(chance):\n    return Topic('orders', 0)\n")
    with pytest.raises(UsageError, match=r"shop\.py:4: topic orders: 0 queues"):
        load_workload(str(path))(source_of_chance(1))


def test_the_example_can_be_loaded() -> None:
    load_workload(str(ROOT / "examples" / "simulations" / "shop.py"))(source_of_chance(1))
