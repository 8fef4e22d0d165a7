"""A workload with something else than its file says."""

import pytest

from staticfire.client import ClientSettings
from staticfire.protocol.errors import UsageError
from staticfire.simulation.workload import Brokers, Group, Workload
from staticfire.simulation.workload.varying import varied
from tests.simulation.small import WORKLOAD

pytestmark = pytest.mark.row("S3")


def billing(workload: Workload) -> Group:
    return next(group for group in workload.groups if group.name == "billing")


def test_a_setting_of_members_reaches_all_groups_and_keeps_what_they_have() -> None:
    client = ClientSettings(instance_name="one")
    plain = Workload(WORKLOAD.topics, groups=[Group("billing", "orders", settings={"client": client})])
    found = varied(plain, {"rebalance_interval_ms": "5s", "consume_threads": "3"})
    assert billing(found).settings["consume_threads"] == 3
    assert billing(found).settings["client"].rebalance_interval_ms == 5_000
    assert billing(found).settings["client"].instance_name == "one"
    assert billing(plain).settings == {"client": client}


@pytest.mark.parametrize(("text", "span_ms"), [("off", 0), ("5s", 5_000), ("1m30s", 90_000)])
def test_group_protection_is_both_times_of_all_brokers(text: str, span_ms: int) -> None:
    settings = varied(WORKLOAD, {"group_protection": text}).brokers.settings
    assert (settings["stable_time_ms"], settings["grace_time_ms"]) == (span_ms, span_ms)
    assert settings["flush_disk_type"] == "SYNC_FLUSH"


def test_words_of_the_workload_are_changed() -> None:
    changes = {"members": "5", "queues": "8", "per_second": "0.5", "brokers": "3", "every_seconds": "60"}
    found = varied(WORKLOAD, changes)
    assert [group.members for group in found.groups] == [5, 5]
    assert [topic.queues for topic in found.topics] == [8, 8]
    assert [one.per_second for one in found.producers] == [0.5, 0.5]
    assert (found.brokers.count, found.nemesis.every_seconds) == (3, 60)
    assert varied(WORKLOAD, {"flush_disk_type": "ASYNC_FLUSH"}).brokers == Brokers(
        2, {"flush_disk_type": "ASYNC_FLUSH"}
    )


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("rebalance_interval", "1", "did you mean 'rebalance_interval_ms'?"),
        ("group_protecton", "off", "did you mean 'group_protection'?"),
        ("rebalance_interval_ms", "soon", "rebalance_interval_ms=soon: it must be a whole number from 1"),
        ("group_protection", "5", "group_protection=5: off, or"),
        ("members", "0", "members=0: Group('billing'): members=0; allowed are 1 to 200"),
        ("flush_disk_type", "NEVER", "it must be ASYNC_FLUSH or SYNC_FLUSH"),
    ],
)
def test_what_is_wrong_is_reported(name: str, text: str, words: str) -> None:
    with pytest.raises(UsageError) as reported:
        varied(WORKLOAD, {name: text})
    assert words in str(reported.value)
