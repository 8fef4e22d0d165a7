"""The blocking face: producers, consumers and administration without asyncio."""

import asyncio
import inspect
import os
import queue
import signal
import threading
import traceback
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from staticfire import (
    Admin,
    ClientError,
    Cluster,
    ClusterClient,
    ConnectFailed,
    ConsumeContext,
    ConsumeStatus,
    DeadLetterQueue,
    LitePullConsumer,
    Message,
    NetworkError,
    Producer,
    ProducerSettings,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    SendStatus,
    SimpleConsumer,
    TopicNotFound,
    TransactionProducer,
)
from staticfire.client.admin.admin import BlockingAdmin
from staticfire.client.admin.dead_letter_queue import BlockingDeadLetterQueue
from staticfire.client.cluster.blocking import MARK, BlockingFace, iterating
from staticfire.client.cluster.client_service import ClientService
from staticfire.client.lite_pull.lite_pull_consumer import BlockingLitePullConsumer
from staticfire.client.produce.producer import BlockingProducer
from staticfire.client.produce.transaction_producer import BlockingTransactionProducer
from staticfire.client.pull.pull_consumer import BlockingPullConsumer
from staticfire.client.push.push_consumer import BlockingPushConsumer
from staticfire.client.simple.simple_consumer import BlockingSimpleConsumer
from staticfire.runtime.loop_thread import THREAD_NAME
from staticfire.runtime.service import Service

FACES: list[tuple[type[BlockingFace[Any]], type[ClientService]]] = [
    (BlockingAdmin, Admin),
    (BlockingLitePullConsumer, LitePullConsumer),
    (BlockingProducer, Producer),
    (BlockingPullConsumer, PullConsumer),
    (BlockingPushConsumer, PushConsumer),
    (BlockingDeadLetterQueue, DeadLetterQueue),
    (BlockingSimpleConsumer, SimpleConsumer),
    (BlockingTransactionProducer, TransactionProducer),
]
BEFORE_THE_START = {"add_hook", "listener", "ordered_listener", "on_queues_changed", "describe", "is_ordered"}
"""Of consumers: what is set or asked before `with`, on the object itself."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=2)
        yield cluster


@pytest.fixture
def producer(cluster: Cluster) -> Iterator[BlockingProducer]:
    with Producer("shop", cluster.namesrv) as producer:
        yield producer


def loop_threads() -> set[threading.Thread]:
    """Return the threads with an event loop."""
    return {thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME)}


@pytest.mark.parametrize(("face", "service"), FACES)
def test_face_has_every_public_method_of_its_class(face: type[BlockingFace[Any]], service: type[ClientService]) -> None:
    wanted = {name for name in dir(service) if not name.startswith("_")} - set(dir(ClientService)) - BEFORE_THE_START
    assert wanted <= set(dir(face))
    for name in wanted:
        method = getattr(service, name)
        if inspect.isfunction(method):
            assert getattr(getattr(face, name), MARK) is method


@pytest.mark.parametrize(("face", "service"), FACES)
def test_signatures_are_those_of_the_class(face: type[BlockingFace[Any]], service: type[ClientService]) -> None:
    for name, method in vars(face).items():
        if hasattr(method, MARK):
            assert inspect.signature(method).parameters == inspect.signature(getattr(service, name)).parameters
            assert method.__doc__


# -- a program without asyncio -----------------------------------------------------------------------------------------


def test_messages_are_sent_and_read(cluster: Cluster, producer: BlockingProducer) -> None:
    with Admin(cluster.namesrv) as admin, PullConsumer("report", cluster.namesrv) as consumer:
        admin.create_topic("bills", queues=1)
        assert producer.send(Message("bills", b"one")).status is SendStatus.SEND_OK
        assert len(producer.send_many(Message("bills", body) for body in (b"two", b"three"))) == 2
        assert producer.send_batch([Message("bills", b"four"), Message("bills", b"five")]).queue_offset == 3
        assert producer.post(Message("bills", b"six")).result().queue_offset == 5
        (queue,) = consumer.queues("bills")
        found = consumer.pull(queue, consumer.min_offset(queue))
        assert [message.body for message in found.messages] == [b"one", b"two", b"three", b"four", b"five", b"six"]
        assert [queue.topic for queue in producer.queues("bills")] == ["bills"]


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_listener_gets_messages(cluster: Cluster, producer: BlockingProducer, kind: str) -> None:
    consumed: queue.Queue[bytes] = queue.Queue()
    consumer = PushConsumer(f"billing-{kind}", cluster.namesrv)
    consumer.subscribe("orders", kind)

    def put(messages: tuple[ReceivedMessage, ...]) -> ConsumeStatus:
        for message in messages:
            consumed.put(message.body)
        return ConsumeStatus.CONSUME_SUCCESS

    if kind == "plain":
        consumer.listener(lambda messages, context: put(messages))
    else:

        @consumer.listener
        async def bill(messages: tuple[ReceivedMessage, ...], context: ConsumeContext) -> ConsumeStatus:
            return put(messages)

    with consumer as running:
        assert [queue.topic for queue in running.assignment].count("orders") == 2
        producer.send(Message("orders", b"1", tags=kind))
        assert consumed.get(timeout=60) == b"1"
    assert consumer.assignment == []


def test_listener_sends_with_another_face_and_stops_its_consumer(cluster: Cluster, producer: BlockingProducer) -> None:
    consumer = PushConsumer("forwarding", cluster.namesrv)
    consumer.subscribe("orders", "forward")
    answered: list[SendStatus] = []

    with consumer_with_listener(consumer, producer, answered) as running:
        producer.send(Message("orders", b"go on", tags="forward"))
        assert running.wait(60)
    assert answered == [SendStatus.SEND_OK]


def consumer_with_listener(consumer: PushConsumer, producer: BlockingProducer, answered: list[SendStatus]) -> Any:
    """Give a consumer a listener that forwards, and stops the consumer from where it runs."""

    class Both:
        def __enter__(self) -> BlockingPushConsumer:
            self.running = consumer.__enter__()
            return self.running

        def __exit__(self, *exc_info: object) -> None:
            consumer.__exit__(*exc_info)

    both = Both()

    @consumer.listener
    def forward(messages: tuple[ReceivedMessage, ...], context: ConsumeContext) -> ConsumeStatus:
        answered.extend(producer.send(Message("orders", message.body)).status for message in messages)
        both.running.stop()
        return ConsumeStatus.CONSUME_SUCCESS

    return both


def test_consumer_itself_can_be_steered_while_it_runs(cluster: Cluster) -> None:
    consumer = PushConsumer("steered", cluster.namesrv)
    consumer.subscribe("orders")
    consumer.listener(lambda messages, context: ConsumeStatus.CONSUME_SUCCESS)
    with consumer as running:
        consumer.suspend()
        consumer.resume()
        consumer.update_consume_threads(3)
        assert running.consume_threads == 3
        assert set(running.cached) == set(running.assignment)
        assert not running.wait(0.01)


def test_object_itself_leads_to_the_face(cluster: Cluster) -> None:
    producer: Any = Producer("forgotten-as", cluster.namesrv)
    with producer:
        assert producer.send(Message("orders", b"1")).status is SendStatus.SEND_OK
        assert len(producer.send_many([Message("orders", b"2")])) == 1


def test_several_share_one_client_and_its_thread(cluster: Cluster) -> None:
    before = loop_threads()
    with (
        ClusterClient(cluster.namesrv) as client,
        Producer("one", client=client) as one,
        Producer("other", client=client) as other,
        Admin(client=client) as admin,
    ):
        assert one.send(Message("orders", b"1")).status is SendStatus.SEND_OK
        assert other.send(Message("orders", b"2")).status is SendStatus.SEND_OK
        assert list(admin.masters()) == ["broker-a"]
        assert len(loop_threads() - before) == 1
    assert loop_threads() <= before


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_errors_are_those_of_the_asyncio_methods(cluster: Cluster, producer: BlockingProducer) -> None:
    with PullConsumer("report", cluster.namesrv) as consumer, pytest.raises(TopicNotFound, match="nowhere"):
        consumer.queues("nowhere")
    with pytest.raises(ClientError, match="isn't that of the queue"):
        producer.post(Message("bills", b""), producer.queues("orders")[0])


def test_failed_start_leaves_no_thread() -> None:
    before = loop_threads()
    consumer = PushConsumer("billing", "127.0.0.1:1")
    consumer.subscribe("orders")
    consumer.listener(lambda messages, context: ConsumeStatus.CONSUME_SUCCESS)
    with pytest.raises(NetworkError, match=r"127\.0\.0\.1:1"), consumer:
        pass
    assert loop_threads() <= before


def test_no_server_is_reported_within_the_deadline() -> None:
    settings = ProducerSettings(send_msg_timeout_ms=300)
    with Producer("shop", "127.0.0.1:1", settings) as producer, pytest.raises(ConnectFailed):
        producer.send(Message("orders", b"1"))


def test_face_outside_of_its_block_says_so(cluster: Cluster) -> None:
    with Producer("left", cluster.namesrv) as producer:
        pass
    with pytest.raises(ClientError, match="Producer left is closed: use it inside its `with` block"):
        producer.send(Message("orders", b"1"))


async def test_blocking_in_an_event_loop_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ClientError, match="`async with`"), Producer("shop", cluster.namesrv):
        pass

    def use() -> BlockingProducer:
        with Producer("elsewhere", cluster.namesrv) as producer:
            asyncio.run(call_in_loop(producer))
        return producer

    async def call_in_loop(producer: BlockingProducer) -> None:
        with pytest.raises(ClientError, match="would block the running event loop"):
            producer.send(Message("orders", b"1"))

    await asyncio.get_running_loop().run_in_executor(None, use)


def test_async_listener_that_blocks_on_its_own_loop_gets_an_error(cluster: Cluster, producer: BlockingProducer) -> None:
    reported: queue.Queue[str] = queue.Queue()
    consumer = PushConsumer("own-loop", cluster.namesrv)
    consumer.subscribe("orders", "own")
    blocking: list[BlockingPushConsumer] = []

    @consumer.listener
    async def bill(messages: Any, context: ConsumeContext) -> ConsumeStatus:
        try:
            blocking[0].wait()
        except ClientError as error:
            reported.put(str(error))
        return ConsumeStatus.CONSUME_SUCCESS

    with consumer as running:
        blocking.append(running)
        producer.send(Message("orders", b"1", tags="own"))
        assert "a call from its own event loop would wait for itself" in reported.get(timeout=60)


async def test_loops_and_threads_dont_mix_over_a_shared_client(cluster: Cluster) -> None:
    async with ClusterClient(cluster.namesrv) as client:
        with pytest.raises(ClientError, match="opened with `async with`"):
            await asyncio.get_running_loop().run_in_executor(None, Producer("a", client=client).__enter__)

    def other_way() -> None:
        async def enter(client: ClusterClient) -> None:
            async with Producer("b", client=client):
                pass

        with ClusterClient(cluster.namesrv) as client, pytest.raises(ClientError, match="opened with `with`"):
            asyncio.run(enter(client))

    await asyncio.get_running_loop().run_in_executor(None, other_way)


def test_ctrl_c_while_a_consumer_waits_leaves_in_order(cluster: Cluster) -> None:
    before = loop_threads()
    consumer = PushConsumer("interrupted", cluster.namesrv)
    consumer.subscribe("orders")
    consumer.listener(lambda messages, context: ConsumeStatus.CONSUME_SUCCESS)
    with pytest.raises(KeyboardInterrupt), consumer as running:
        wait_for_ctrl_c(running)
    with Admin(cluster.namesrv) as admin:
        assert admin.members("interrupted") == []
    assert loop_threads() <= before


def wait_for_ctrl_c(running: BlockingPushConsumer) -> None:
    threading.Timer(0.05, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)).start()
    running.wait()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_child_of_a_fork_gets_an_error_and_unregisters_nothing(cluster: Cluster) -> None:
    with Producer("forked", cluster.namesrv) as producer:
        child = os.fork()
        if child == 0:
            try:
                with pytest.raises(ClientError, match="create a new one"):
                    producer.send(Message("orders", b"1"))
                producer.service.__exit__(None, None, None)
            except BaseException:  # noqa: BLE001 (the child must not go on as a test)
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert producer.send(Message("orders", b"still there")).status is SendStatus.SEND_OK


# -- the mechanism, for classes to come --------------------------------------------------------------------------------


class Countdown(Admin):
    """A client class with an asynchronous iterator."""

    ended = False

    async def down(self, start: int) -> AsyncIterator[int | None]:
        try:
            while start:
                yield start
                start -= 1
                await asyncio.sleep(0)
            yield None
        finally:
            self.ended = True


class BlockingCountdown(BlockingFace[Countdown]):
    down = iterating(Countdown.down)


def test_asynchronous_iterators_become_iterators(cluster: Cluster) -> None:
    countdown = Countdown(cluster.namesrv)
    face = BlockingCountdown.enter(countdown)
    try:
        assert list(face.down(3)) == [3, 2, 1, None]
        countdown.ended = False
        started = face.down(9)
        assert next(started) == 9
        started.close()  # type: ignore[attr-defined]  # it is a generator
        assert countdown.ended
    finally:
        face.leave()


def test_every_service_of_a_client_has_a_face() -> None:
    def below(cls: type) -> set[type]:
        subclasses: list[type] = type.__subclasses__(cls)
        return {cls}.union(*(below(one) for one in subclasses))

    own = {cls for cls in below(ClientService) if cls.__module__.startswith("staticfire.client.")}
    assert own - {ClientService, Service} == {service for _, service in FACES}
