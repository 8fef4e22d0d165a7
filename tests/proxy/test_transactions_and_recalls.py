"""Half messages, how they end, and delayed messages that are called back, by gRPC clients."""

import pytest

from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from tests.proxy.grpc_stand import TOPIC, GrpcStand, moment, resource
from tests.proxy.test_sends import stored

pytestmark = pytest.mark.row("G3")

TRANSACTION = pb.MessageType.TRANSACTION
COMMIT, ROLLBACK = pb.TransactionResolution.COMMIT, pb.TransactionResolution.ROLLBACK
FROM_CHECK = pb.TransactionSource.SOURCE_SERVER_CHECK


async def half(stand: GrpcStand, message_id: str = "h1") -> str:
    await stand.put_topic(TOPIC, "TRANSACTION")
    answer = await stand.send(message_type=TRANSACTION, message_id=message_id)
    assert answer.status.code == pb.Code.OK
    return answer.entries[0].transaction_id


async def end(stand: GrpcStand, transaction_id: str, resolution: int, source: int = 1) -> pb.Status:
    answer = await stand.call(
        "EndTransaction", topic=resource(TOPIC), message_id=transaction_id, transaction_id=transaction_id,
        resolution=resolution, source=source,
    )  # fmt: skip
    status: pb.Status = answer.status
    return status


async def settled(stand: GrpcStand) -> list[bytes]:
    await stand.world.run_for(seconds=1)
    return [record.body for record in await stored(stand)]


async def test_a_half_message_is_seen_when_it_is_committed_once(stand: GrpcStand) -> None:
    transaction_id = await half(stand)
    assert transaction_id == "h1"
    assert await settled(stand) == []
    assert (await end(stand, transaction_id, COMMIT)).code == pb.Code.OK
    assert await settled(stand) == [b"x"]
    again = await end(stand, transaction_id, COMMIT)
    assert again.code == 50001
    assert "cannot found transaction data" in again.message
    assert await settled(stand) == [b"x"]


async def test_a_half_message_that_is_rolled_back_is_never_seen(stand: GrpcStand) -> None:
    await stand.producer(TOPIC)
    assert (await end(stand, await half(stand), ROLLBACK)).code == pb.Code.OK
    await stand.cluster.clock("advance", by_ms=600_000)
    assert await settled(stand) == []


@pytest.mark.parametrize(("transaction_id", "code"), [("", 40008), (" ", 40008), ("unknown", 50001)])
async def test_a_transaction_that_is_none_cannot_be_ended(stand: GrpcStand, transaction_id: str, code: int) -> None:
    await half(stand)
    assert (await end(stand, transaction_id, COMMIT)).code == code


async def test_a_resolution_that_says_nothing_leaves_it_open(stand: GrpcStand) -> None:
    stream = await stand.producer(TOPIC)
    transaction_id = await half(stand)
    assert (await end(stand, transaction_id, 0)).code == pb.Code.OK
    assert await settled(stand) == []
    command = await stream.heard()
    assert command.recover_orphaned_transaction_command.transaction_id == transaction_id


async def test_a_client_gets_a_check_of_its_transaction(stand: GrpcStand) -> None:
    stream = await stand.producer(TOPIC)
    transaction_id = await half(stand)
    command = (await stream.heard()).recover_orphaned_transaction_command
    assert command.transaction_id == transaction_id
    system = command.message.system_properties
    assert (command.message.topic.name, command.message.body, system.message_id) == (TOPIC, b"x", "h1")
    assert (system.message_type, system.delivery_attempt) == (TRANSACTION, 1)
    assert not system.HasField("receipt_handle")
    assert (await end(stand, transaction_id, COMMIT, FROM_CHECK)).code == pb.Code.OK
    assert await settled(stand) == [b"x"]


async def test_a_client_that_got_several_checks_may_still_end_its_transaction(stand: GrpcStand) -> None:
    """Each check gives it half a minute more; that of the send is over by then."""
    stream = await stand.producer(TOPIC)
    transaction_id = await half(stand)
    for _ in range(2):
        command = (await stream.heard()).recover_orphaned_transaction_command
        assert command.transaction_id == transaction_id
    assert (await end(stand, transaction_id, COMMIT, FROM_CHECK)).code == pb.Code.OK
    assert await settled(stand) == [b"x"]


async def test_an_end_that_its_broker_did_not_get_can_be_repeated(stand: GrpcStand) -> None:
    transaction_id = await half(stand)
    stand.world.kill("broker-a")
    await stand.world.run_for(ms=100)
    assert (await end(stand, transaction_id, COMMIT)).code != pb.Code.OK
    await stand.cluster.start_broker("broker-a")
    assert (await end(stand, transaction_id, COMMIT)).code == pb.Code.OK
    assert await settled(stand) == [b"x"]


async def test_another_client_gets_the_check_when_the_first_has_gone_and_a_new_one_from_a_new_proxy(
    stand: GrpcStand,
) -> None:
    first = await stand.producer(TOPIC, client_id="p1")
    await stand.put_topic(TOPIC, "TRANSACTION")
    assert (await stand.send(message_type=TRANSACTION)).status.code == pb.Code.OK
    assert (await stand.call("NotifyClientTermination", client_id="p1")).status.code == pb.Code.OK
    await stand.stop_proxy()
    await stand.start_proxy()
    second = await stand.producer(TOPIC, client_id="p2")
    command = (await second.heard()).recover_orphaned_transaction_command
    assert first.answers.empty()
    assert (await end(stand, command.transaction_id, COMMIT, FROM_CHECK)).code == pb.Code.OK
    assert await settled(stand) == [b"x"]


async def test_clients_get_checks_in_turn(stand: GrpcStand) -> None:
    streams = [await stand.producer(TOPIC, client_id=f"p{number}") for number in range(2)]
    for number in range(4):
        await half(stand, f"h{number}")
    await stand.world.run_for(seconds=12)
    assert [stream.answers.qsize() for stream in streams] == [2, 2]


# -- recalls -----------------------------------------------------------------------------------------------------------


async def recall(stand: GrpcStand, handle: str, topic: str = "late") -> pb.RecallMessageResponse:
    answer: pb.RecallMessageResponse = await stand.call("RecallMessage", topic=resource(topic), recall_handle=handle)
    return answer


async def test_a_delayed_message_is_called_back_before_it_comes(stand: GrpcStand) -> None:
    await stand.put_topic("late", "DELAY")
    deliver = moment(stand.machine.clock.wall_ms() + 5_000)
    kept, called = [
        (await stand.send("late", body, delivery_timestamp=deliver, message_id=body.decode())).entries[0].recall_handle
        for body in (b"kept", b"called")
    ]
    answer = await recall(stand, called)
    assert (answer.status.code, answer.message_id) == (pb.Code.OK, "called")
    await stand.world.run_for(seconds=8)
    assert [record.body for record in await stored(stand, "late")] == [b"kept"]
    late = await recall(stand, kept)
    assert (late.status.code, late.status.message) == (50001, "recall failed, timestamp invalid")


@pytest.mark.parametrize(
    ("topic", "handle", "code"),
    [
        ("late", "xx", 50001),
        ("late", "", 50001),
        ("plain", "djEgbGF0ZSBicm9rZXItYSAxIGlk", 40014),
        ("late", "djEgbGF0ZSBub2JvZHkgMSBpZA==", 40000),  # v1 late nobody 1 id
        ("", "xx", 40002),
    ],
)
async def test_a_recall_is_refused(stand: GrpcStand, topic: str, handle: str, code: int) -> None:
    await stand.put_topic("late", "DELAY")
    await stand.put_topic("plain")
    assert (await recall(stand, handle, topic)).status.code == code


@pytest.mark.parametrize("stand", [{"recall_message_enable": False}], indirect=True)
async def test_a_broker_that_recalls_nothing_says_so(stand: GrpcStand) -> None:
    await stand.put_topic("late", "DELAY")
    deliver = moment(stand.machine.clock.wall_ms() + 5_000)
    handle = (await stand.send("late", delivery_timestamp=deliver)).entries[0].recall_handle
    answer = await recall(stand, handle)
    assert answer.status.code == 50001
    assert "forbidden" in answer.status.message
