"""`cluster.dlq()` of clusters that accept only signed requests, or only TLS; and hooks that end by an error."""

import queue
import threading
from collections.abc import Iterator

import pytest

from staticfire import ClientError, Cluster, ConsumeContext, ConsumeStatus, DeadLetter, Message, ReceivedMessage
from staticfire.client import ClientSettings, Producer, ProducerSettings, PushConsumer, PushSettings
from staticfire.runtime.log import logged_to
from tests.cli.commands import TIMEOUT_S

pytestmark = pytest.mark.row("A5", "G7")


@pytest.fixture(params=["users", "TLS"])
def protected(request: pytest.FixtureRequest) -> Iterator[tuple[Cluster, ClientSettings]]:
    """A cluster, and the settings of a client that it accepts."""
    if request.param == "users":
        with Cluster(users={"admin": "secret"}) as cluster:
            yield cluster, ClientSettings(access_key="admin", secret_key="secret")
    else:
        with Cluster(settings={"tlsServerMode": "enforcing"}) as cluster:
            yield cluster, ClientSettings(tls=True)


def bury_one(cluster: Cluster, settings: ClientSettings) -> None:
    """Let a message die of the group billing."""
    died = threading.Event()
    consumer = PushConsumer("billing", cluster.namesrv, PushSettings(client=settings))
    consumer.subscribe("orders")

    @consumer.listener
    def listen(_: tuple[ReceivedMessage, ...], context: ConsumeContext) -> ConsumeStatus:
        context.delay_level_when_next_consume = -1
        died.set()
        return ConsumeStatus.RECONSUME_LATER

    with Producer("shop", cluster.namesrv, ProducerSettings(client=settings)) as producer:
        producer.send(Message("orders", b"one"))
    with consumer:
        assert died.wait(TIMEOUT_S)


def test_dead_letters_are_read_resent_and_reported(protected: tuple[Cluster, ClientSettings]) -> None:
    cluster, settings = protected
    cluster.create_topic("orders", queues=1)
    died: queue.Queue[DeadLetter] = queue.Queue()
    stop = cluster.dlq("billing").on_death(died.put, from_start=True)
    bury_one(cluster, settings)
    assert died.get(timeout=TIMEOUT_S).message.body == b"one"
    stop()
    dlq = cluster.dlq("billing")
    assert dlq.count() == 1
    assert [letter.message.body for letter in dlq.letters()] == [b"one"]
    assert dlq.resend().count == 1


def test_the_error_that_ends_a_hook_is_logged_and_raised() -> None:
    ended = threading.Event()
    with Cluster() as cluster:
        with logged_to(lambda _level, event, _fields: ended.set() if event == "hook_ended" else None):
            stop = cluster.dlq("not a group").on_death(print)
            assert ended.wait(TIMEOUT_S)
        with pytest.raises(ClientError, match="not a group"):
            stop()


def test_a_hook_that_the_end_of_its_cluster_has_ended_is_stopped_without_an_error() -> None:
    with Cluster() as cluster:
        stop = cluster.dlq("billing").on_death(print)
    stop()
