"""docs/producers.md: its examples of Python, run from the first to the last as they stand."""

import re
import time

import staticfire
from staticfire import Cluster, Producer
from tests.cli.commands import ROOT

EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_its_examples_run() -> None:
    examples = EXAMPLE.findall((ROOT / "docs" / "producers.md").read_text())
    assert len(examples) == 4
    with Cluster() as cluster, Producer("shop", cluster.namesrv) as producer:
        cluster.create_topic("orders")
        cluster.create_topic("questions")
        names = ("Message", "PushConsumer", "TransactionProducer", "TransactionState")
        there = {name: getattr(staticfire, name) for name in names}
        there |= {"namesrv": cluster.namesrv, "producer": producer, "time": time}
        for example in examples:
            exec(example, there)
        assert len(there["results"]) == 1_000
