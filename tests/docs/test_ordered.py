"""docs/ordered.md: its first example, run as it stands: one order's steps are consumed in their order."""

import re

import staticfire
from staticfire import Cluster, Producer
from tests.cli.commands import ROOT

EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STEPS = [b"ordered", b"paid", b"shipped"]


def test_its_steps_are_consumed_in_order() -> None:
    first, settings = EXAMPLE.findall((ROOT / "docs" / "ordered.md").read_text())
    with Cluster() as cluster, Producer("shop", cluster.namesrv) as producer:
        cluster.create_topic("orders")
        seen: list[bytes] = []
        names = ("Message", "PushConsumer", "PushSettings", "by_hash")
        there = {name: getattr(staticfire, name) for name in names}
        there |= {"namesrv": cluster.namesrv, "producer": producer, "seen": seen}
        exec(first, there)
        exec(settings, there)
        assert there["settings"].max_reconsume_times == 3
        with there["consumer"]:
            cluster.clock.advance(seconds=1)  # returns when what is there is consumed
        assert seen == STEPS
