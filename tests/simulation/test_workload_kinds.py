"""Values of another kind than a word takes are told, and what such words can't have."""

import pytest

from staticfire.client import MessageModel
from staticfire.protocol.errors import UsageError
from staticfire.simulation.workload import Brokers, Group, Nemesis, Producers, Topic, Workload
from staticfire.simulation.world.link import LinkQuality

pytestmark = pytest.mark.row("S3")

ORDERS = [Topic("orders")]
HERE = {
    "Topic": Topic, "Group": Group, "Producers": Producers, "Workload": Workload, "Nemesis": Nemesis, "ORDERS": ORDERS,
    "Brokers": Brokers, "LinkQuality": LinkQuality, "MessageModel": MessageModel,
}  # fmt: skip

WRONG = {
    "Topic('orders', 2.5)": "Topic: queues=2.5; it must be a whole number",
    "Topic('orders', True)": "Topic: queues=True; it must be a whole number",
    "Group('g', 'o', members=2.5)": "Group: members=2.5; it must be a whole number",
    "Group('g', 5)": "Group: topic=5; it must be a text or a list, each a text",
    "Group('g', 'o', takes_ms=(0.5, 1.5))": "takes_ms=(0.5, 1.5); it must be (a whole number, a whole number)",
    "Group('g', 'o', listener=5)": "listener=5; it must be a function or nothing",
    "Group('g', 'o', batch=0)": "Group('g'): batch=0; allowed are 1 to 1024",
    "Group('g', 'o', retries_max=-7)": "retries_max=-7; allowed are 0 to 1000",
    "Group('g', 'o', retries_max=99999999999)": "retries_max=99999999999; allowed are 0 to 1000",
    "Group('g', 'o', settings={'client': {}})": "Group('g'): client={}; it must be ClientSettings",
    "Group('g', 'o', fails=0.1, settings={'message_model': MessageModel.BROADCASTING})": "a filter, order, pops or",
    "Group('g', 'o', way='fast')": "there is no kind of consumer 'fast'",
    "Group('g', 'o', way='simple')": "only simple consumers pop",
    "Producers('orders', name='ünï/..')": "contains characters other than",
    "Producers('orders', per_second=float('nan'))": "per_second=nan; it must be a number",
    "Brokers(settings={'flush_disk_type': 5})": "Brokers: flush_disk_type=5; it must be a text",
    "Nemesis(may=5)": "may=5; it must be a list, each a text",
    "Workload('orders')": "topics='orders'; it must be a list, each Topic",
    "Workload(ORDERS, Producers('orders'))": "it must be a list, each Producers",
    "Workload(ORDERS, network='slow')": "network='slow'; it must be LinkQuality",
    "Workload(ORDERS, network=LinkQuality(delay_ms='x'))": "network: delay_ms='x'; it must be a number",
    "Workload(ORDERS, checkers=[Topic])": "it must contain subclasses of Checker",
    "Workload(ORDERS, [Producers('orders', name='g')], [Group('g', 'orders')])": "name of a group and of producers",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_of_another_kind_is_reported(text: str) -> None:
    with pytest.raises(UsageError) as reported:
        eval(text, HERE)
    assert WRONG[text] in str(reported.value)
    assert "\n" not in str(reported.value)


def test_what_is_as_good_is_taken() -> None:
    Workload(
        tuple(ORDERS),
        groups=[Group("billing", ("orders",), takes_ms=[0, 5])],  # type: ignore[arg-type]
        nemesis=Nemesis("kill broker", every_seconds=5),
        network=LinkQuality(delay_ms=1),
    )
