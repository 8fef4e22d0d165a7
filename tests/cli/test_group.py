"""`staticfire group`, the control endpoint's /group, and `cluster.group()`."""

import json
import threading
from collections.abc import Iterator

import pytest

from staticfire import (
    ClientSettings,
    Cluster,
    ConsumeContext,
    ConsumeStatus,
    GroupNotFound,
    Message,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from tests.cli.commands import TIMEOUT_S, call, get, one_line
from tests.protocols import PROTOCOLS


def consumer(namesrv: str, name: str, expression: str, consumed: threading.Semaphore) -> PushConsumer:
    settings = PushSettings(client=ClientSettings(instance_name=name))
    made = PushConsumer("billing", namesrv, settings)
    made.subscribe("orders", expression)

    @made.listener
    def listen(_: tuple[ReceivedMessage, ...], context: ConsumeContext) -> ConsumeStatus:
        consumed.release()
        return ConsumeStatus.CONSUME_SUCCESS

    return made


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two members that want different things, and a message that was consumed."""
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=2)
        consumed = threading.Semaphore(0)
        one, two = (consumer(cluster.namesrv, f"billing-{n}", tags, consumed) for n, tags in ((1, "paid"), (2, "*")))
        with Producer("shop", cluster.namesrv) as producer, one, two:
            producer.send(Message("orders", b"x", tags="paid"))
            assert consumed.acquire(timeout=TIMEOUT_S)
            yield cluster


@pytest.mark.row("O5")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_person_sees_members_queues_and_what_is_wrong(cluster: Cluster, protocol: str) -> None:
    done = call("group", "-n", cluster.namesrv, "--protocol", protocol, "billing", COLUMNS="160")
    assert done.returncode == 0, done.stderr
    head, warning, _, members, *rest = done.stdout.splitlines()
    assert head.startswith("billing (CLUSTERING, CONSUME_FROM_LAST_OFFSET): 2 members, lag 0")
    assert warning.startswith("! members have different subscriptions to topic orders, [*]: ")
    assert members.split()[:5] == ["member", "from", "language", "listens", "wants"]
    assert "@billing-1" in rest[0]
    assert "orders [paid]" in rest[0]
    queues = [line.split() for line in rest if line.startswith("orders ")]
    assert sorted(line[1] for line in queues) == ["broker-a/0", "broker-a/1"]
    headings = next(line for line in rest if line.startswith("topic "))
    owners = [line[headings.index("member") :].split() for line in rest if line.startswith("orders ")]
    assert sorted(owner.partition("@")[2] for (owner,) in owners) == ["billing-1", "billing-2"]


def test_a_program_gets_one_json_object(cluster: Cluster) -> None:
    done = call("group", "-n", cluster.namesrv, "--json", "billing")
    shown = json.loads(one_line(done.stdout))
    assert [member["clientId"].partition("@")[2] for member in shown["members"]] == ["billing-1", "billing-2"]
    assert [warning["kind"] for warning in shown["warnings"]] == ["DIFFERENT_SUBSCRIPTIONS"]
    status, reported = get(f"{cluster.control}/group/billing")
    assert (status, reported["group"], len(reported["members"])) == (200, "billing", 2)
    assert cluster.group("billing").as_json().keys() == shown.keys() == reported.keys()


async def test_the_same_awaited(cluster: Cluster) -> None:
    assert len((await cluster.aio.group("billing")).members) == 2


def test_an_unknown_group_is_reported(cluster: Cluster) -> None:
    done = call("group", "nobody", NAMESRV_ADDR=cluster.namesrv)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no broker knows group nobody" in one_line(done.stderr)
    assert get(f"{cluster.control}/group/nobody")[0] == 404
    with pytest.raises(GroupNotFound):
        cluster.group("nobody")


def test_a_group_whose_members_are_away_shows_how_far_it_came(cluster: Cluster) -> None:
    consumed = threading.Semaphore(0)
    settings = PushSettings(client=ClientSettings(instance_name="once"))
    with Producer("shop", cluster.namesrv) as producer:
        once = PushConsumer("once", cluster.namesrv, settings)
        once.subscribe("orders")

        @once.listener
        def listen(_: tuple[ReceivedMessage, ...], context: ConsumeContext) -> ConsumeStatus:
            consumed.release()
            return ConsumeStatus.CONSUME_SUCCESS

        with once:
            producer.send(Message("orders", b"1"))
            assert consumed.acquire(timeout=TIMEOUT_S)
        for _ in range(2):
            producer.send(Message("orders", b"2"))
    done = call("group", "-n", cluster.namesrv, "once")
    assert done.stdout.splitlines()[0].startswith("once: 0 members, lag ")
    assert "orders" in done.stdout
