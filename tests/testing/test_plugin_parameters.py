"""The marker's parameters, each with another value than its default, in a pytest of its own."""

from pathlib import Path

import pytest

from tests.ports import free_ports
from tests.testing.test_plugin import run

pytestmark = pytest.mark.row("E3")


def test_a_cluster_with_users_can_be_tested(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
from staticfire import ClientSettings, NoPermission, Producer, ProducerSettings

pytestmark = pytest.mark.rocketmq(users={"admin": "secret", "shop": "s3cret"})
SHOP = ProducerSettings(client=ClientSettings(access_key="shop", secret_key="s3cret"))

def test_first(rocketmq):
    orders = rocketmq.create_topic("orders", queues=1)
    rocketmq.cluster.users.allow("shop", "Topic:orders", "Pub")
    with Producer("shop", rocketmq.namesrv, SHOP) as shop:
        shop.send(Message(orders, b"1"))
        with pytest.raises(NoPermission):
            shop.send(Message("bills", b"1"))
    rocketmq.send(orders, "2")
    assert [message.body for message in rocketmq.messages(orders)] == [b"1", b"2"]
    assert "no group has consumed anything" in rocketmq.explain()

async def test_second(rocketmq):
    assert await rocketmq.aio.messages("orders") == []
""",
    )
    result.assert_outcomes(passed=2)


def test_each_parameter_of_the_marker_makes_another_cluster(pytester: pytest.Pytester, tmp_path: Path) -> None:
    result = run(
        pytester,
        f"""
import os
import urllib.request

@pytest.mark.rocketmq(replicas=1, isolation="process", failover="auto")
def test_a_slave_takes_over(rocketmq):
    def masters():
        return [one["address"] for one in rocketmq.cluster.replication() if one["answers"] and one["id"] == 0]
    before = masters()
    rocketmq.cluster.broker("broker-a").kill()
    rocketmq.wait_for(masters)
    assert len(before) == 1 and masters() != before

@pytest.mark.rocketmq(nameservers=2, directory={str(tmp_path)!r})
def test_nameservers_and_the_folder(rocketmq):
    assert len(rocketmq.namesrv.split(";")) == 2
    assert os.listdir({str(tmp_path)!r})

@pytest.mark.rocketmq(control_hosts=["shop.example"])
def test_the_control_endpoint_under_another_name(rocketmq):
    for host, status in (("shop.example", 200), ("bank.example", 403)):
        request = urllib.request.Request(rocketmq.cluster.control + "/health", headers={{"Host": host}})
        try:
            with urllib.request.urlopen(request) as answer:
                found = answer.status
        except urllib.error.HTTPError as error:
            found = error.code
        assert found == status
""",
    )
    result.assert_outcomes(passed=3)


def test_ports_an_endpoint_and_what_rocketmq_does_otherwise(pytester: pytest.Pytester) -> None:
    pytest.importorskip("grpc")
    namesrv, _, broker, *_ = free_ports()
    result = run(
        pytester,
        f"""
import socket

from staticfire import BrokerAnswer, Producer

@pytest.mark.rocketmq(namesrv_port={namesrv}, broker_port={broker})
def test_ports(rocketmq):
    assert rocketmq.namesrv == "127.0.0.1:{namesrv}"
    assert rocketmq.cluster.addresses == {{"broker-a": "127.0.0.1:{broker}"}}

@pytest.mark.rocketmq(grpc=True)
def test_the_endpoint(rocketmq):
    host, _, port = rocketmq.cluster.grpc_endpoint.rpartition(":")
    socket.create_connection((host, int(port))).close()

@pytest.mark.rocketmq(compat="rocketmq-5.3.3")
def test_nothing_is_recalled_as_in_rocketmq(rocketmq):
    with Producer("shop", rocketmq.namesrv) as shop:
        sent = shop.send(Message("orders", b"1", delay_ms=60_000))
        with pytest.raises(BrokerAnswer, match="recall"):
            shop.recall("orders", sent.recall_handle or "")
""",
    )
    result.assert_outcomes(passed=3)


def test_programs_of_a_test_find_its_cluster_and_no_other(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a test run under `staticfire run`."""
    for name in ("NAMESRV_ADDR", "ROCKETMQ_ENDPOINT", "STATICFIRE_CONTROL", "STATICFIRE_CONTROL_TOKEN"):
        monkeypatch.setenv(name, "of the outer cluster")
    result = run(
        pytester,
        """
def addresses(rocketmq):
    return {name: text for name, text in rocketmq.environment.items()
            if name in ("NAMESRV_ADDR", "ROCKETMQ_ENDPOINT") or name.startswith("STATICFIRE_CONTROL")}

def test_plain(rocketmq):
    assert addresses(rocketmq) == {"NAMESRV_ADDR": rocketmq.namesrv}
    control = rocketmq.cluster.control
    assert addresses(rocketmq) == {"NAMESRV_ADDR": rocketmq.namesrv, "STATICFIRE_CONTROL": control}

@pytest.mark.rocketmq(grpc=True)
def test_grpc(rocketmq):
    endpoint = rocketmq.cluster.grpc_endpoint
    assert addresses(rocketmq) == {"NAMESRV_ADDR": rocketmq.namesrv, "ROCKETMQ_ENDPOINT": endpoint}
""",
    )
    result.assert_outcomes(passed=2)
