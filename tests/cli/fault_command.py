"""`staticfire fault` as the command line runs it, but in the tests' process; and what its tests have in common."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from staticfire import Cluster
from staticfire.cli import main
from staticfire.runtime.ports import listen_on
from tests.cli.commands import one_line

Say = Callable[..., str]


def fault_of(cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    """Return what runs the command on a cluster that is as at its start, with a topic; it returns the output, or the
    error.
    """
    cluster.reset()
    cluster.create_topic("orders", queues=1)
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
    monkeypatch.setenv("STATICFIRE_CONTROL", cluster.control)

    def say(*arguments: str, exit_code: int = 0) -> str:
        assert main(["fault", *arguments]) == exit_code
        out, err = capsys.readouterr()
        return one_line(err) if exit_code else out

    return say


@contextmanager
def port_taken(cluster: Cluster, name: str) -> Iterator[None]:
    """Another program listens on the port of a killed broker."""
    host, _, port = cluster.addresses[name].rpartition(":")
    with listen_on(host, int(port), ""):
        yield
