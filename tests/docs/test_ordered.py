"""docs/ordered.md: its first example, run as it stands: one order's steps are consumed in their order."""

import re
from typing import Any

import pytest

from staticfire import Cluster, Producer, PushSettings
from tests.cli.commands import ROOT

EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_its_steps_are_consumed_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    first, settings = EXAMPLE.findall((ROOT / "docs" / "ordered.md").read_text())
    with Cluster() as cluster, Producer("shop", cluster.namesrv) as producer:
        cluster.create_topic("orders")
        there: dict[str, Any] = {"namesrv": cluster.namesrv, "producer": producer, "PushSettings": PushSettings}
        exec(first, there)
        exec(settings, there)
        assert there["settings"].max_reconsume_times == 3
        with there["consumer"]:
            cluster.clock.advance(seconds=1)  # returns when what is there is consumed
        assert capsys.readouterr().out.splitlines() == ["b'ordered'", "b'paid'", "b'shipped'"]
