"""When a queue is pulled no further."""

import pytest

from staticfire.client import (
    ClientSettings,
    LitePullSettings,
    MessageModel,
    ProducerSettings,
    PullSettings,
    SimpleSettings,
)
from staticfire.client.consume.queues.flow_control import FlowControl
from staticfire.client.consume.queues.process_queue import ProcessQueue
from staticfire.client.settings.push_settings import MIB, PushSettings
from staticfire.protocol.errors import UsageError
from tests.client.received import received, several

pytestmark = pytest.mark.row("P2")


def fullness(flow: FlowControl, cache: ProcessQueue) -> str | None:
    return flow.fullness(cache, is_in_order=False)


def queue_of(*offsets: int, body: bytes = b"x") -> ProcessQueue:
    queue = ProcessQueue()
    queue.put([received(offset, body) for offset in offsets])
    return queue


def test_a_thousand_messages_may_be_cached() -> None:
    flow = FlowControl(PushSettings())
    assert fullness(flow, queue_of(*range(1_000))) is None
    assert fullness(flow, queue_of(*range(1_001))) == "1001 messages are cached, 1000 is the limit"


def test_a_hundred_mib_may_be_cached() -> None:
    flow = FlowControl(PushSettings(pull_threshold_size_for_queue_mib=1))
    assert fullness(flow, queue_of(0, body=bytes(2 * MIB - 1))) is None
    assert fullness(flow, queue_of(0, body=bytes(2 * MIB))) == "2 MiB are cached, 1 is the limit"


def test_offsets_may_be_two_thousand_apart() -> None:
    flow = FlowControl(PushSettings())
    assert fullness(flow, queue_of(5, 2_005)) is None
    assert (
        fullness(flow, queue_of(5, 2_006))
        == "offset 5 isn't processed yet; the cached offsets span 2001, the limit is 2000"
    )


def test_a_topics_threshold_is_shared_by_its_queues() -> None:
    flow = FlowControl(PushSettings(pull_threshold_for_topic=10, pull_threshold_size_for_topic_mib=4))
    flow.share(4)
    assert fullness(flow, queue_of(0, 1)) is None
    assert fullness(flow, queue_of(0, 1, 2)) is not None
    assert fullness(flow, queue_of(0, body=bytes(2 * MIB))) is not None
    flow.share(100)
    assert fullness(flow, queue_of(0)) is None
    assert fullness(flow, queue_of(0, 1)) is not None


def test_there_is_room_again_when_half_is_free() -> None:
    flow = FlowControl(PushSettings())
    queue = queue_of(*range(1_001))
    queue.remove(several(*range(500)))
    assert not flow.has_room(queue, is_in_order=False)
    queue.remove(several(500))
    assert flow.has_room(queue, is_in_order=False)


def test_thresholds_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError, match=r"pull_threshold_for_queue=0 is out of range: 1 to 65535"):
        PushSettings(pull_threshold_for_queue=0)


@pytest.mark.parametrize(
    ("cls", "name", "value", "words"),
    [
        (ClientSettings, "rebalance_interval_ms", -1, "is out of range: 1 to 2147483647 are allowed"),
        (ProducerSettings, "send_msg_timeout_ms", 0, "is out of range: 1 to 2147483647 are allowed"),
        (ProducerSettings, "gathered_messages_max", 20_000, "is out of range: 1 to 16384 are allowed"),
        (PullSettings, "offset_timeout_ms", float("nan"), "is out of range: 1 to 2147483647 are allowed"),
        (PushSettings, "consume_threads", "20", ": it must be a number from 1 to 1000"),
    ],
)
def test_settings_that_nothing_could_work_with_are_refused(cls: type, name: str, value: object, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        cls(**{name: value})
    assert str(caught.value) == f"{name}={value}{'' if words[0] == ':' else ' '}{words}"
    with pytest.raises(UsageError, match="consume_threads=1001"):
        PushSettings(consume_threads=1_001)


@pytest.mark.parametrize("cls", [PushSettings, LitePullSettings, SimpleSettings])
@pytest.mark.parametrize("value", ["CONSUME_FROM_FIRST_OFFSET", None, MessageModel.CLUSTERING])
def test_a_setting_that_takes_one_of_some_values_names_them(cls: type, value: object) -> None:
    with pytest.raises(UsageError) as caught:
        cls(consume_from_where=value)
    assert str(caught.value) == (
        f"consume_from_where={value!r}: it must be one of ConsumeFromWhere.LAST_OFFSET, ConsumeFromWhere.FIRST_OFFSET, "
        "ConsumeFromWhere.TIMESTAMP"
    )
    with pytest.raises(UsageError, match=r"must be one of MessageModel.CLUSTERING, MessageModel.BROADCASTING"):
        PushSettings(message_model="BROADCASTING")  # type: ignore[arg-type]
