"""RocketMQ's records that are kept for the next group, over a log on the simulated disk."""

import pytest

from staticfire.broker.pulls.record_cache import RecordCache
from staticfire.protocol.command import RocketmqRecords
from staticfire.protocol.rocketmq_record import rocketmq_records, to_rocketmq
from tests.broker.store.stand import StoreStand

HOST, OTHER_HOST = b"\x7f\0\0\1\0\0\x2a\x9f", b"\x0a\0\0\1\0\0\x2a\x9f"


@pytest.fixture
def stand() -> StoreStand:
    stand = StoreStand()
    stand.open()
    stand.send(b"a", b"b", b"c")
    stand.send(b"elsewhere", queue_id=1)
    stand.send(b"d")
    return stand


def pulled(stand: StoreStand, kept: RecordCache, offset: int = 0, host: bytes = HOST) -> list[bytes]:
    found = stand.store.read(stand.store.queue("orders", 0), offset, 32)
    body = kept.records(("orders", 0), found, host)
    return body.records if isinstance(body, RocketmqRecords) else rocketmq_records(body.slices, host)


def translated(stand: StoreStand, offset: int = 0, host: bytes = HOST) -> list[bytes]:
    found = stand.store.read(stand.store.queue("orders", 0), offset, 32)
    return [
        to_rocketmq(stand.store.log.read(position, size), host)
        for position, size in zip(found.positions, found.sizes, strict=True)
    ]


def test_what_is_pulled_for_the_first_time_is_not_kept(stand: StoreStand) -> None:
    kept = RecordCache(stand.store)
    first = pulled(stand, kept)
    assert first == translated(stand)
    second, third = pulled(stand, kept), pulled(stand, kept)
    assert first == second == third
    assert [one is other for one, other in zip(first, second, strict=True)] == [False] * 4
    assert [one is other for one, other in zip(second, third, strict=True)] == [True] * 4


def test_the_next_group_gets_the_same_records_wherever_it_begins(stand: StoreStand) -> None:
    kept = RecordCache(stand.store)
    pulled(stand, kept)
    first = pulled(stand, kept, 1)
    assert first == translated(stand, 1)
    again = pulled(stand, kept, 0)
    assert again == translated(stand, 0)
    assert all(one is other for one, other in zip(first, again[1:], strict=True))


def test_each_store_host_has_its_own(stand: StoreStand) -> None:
    kept = RecordCache(stand.store)
    assert pulled(stand, kept) == translated(stand)
    assert pulled(stand, kept, host=OTHER_HOST) == translated(stand, host=OTHER_HOST)


def test_what_is_requested_stays_and_the_rest_goes(stand: StoreStand) -> None:
    kept = RecordCache(stand.store, generation_bytes=1)  # each answer is a generation of its own
    pulled(stand, kept, 3)
    first = pulled(stand, kept, 3)
    assert pulled(stand, kept, 3)[0] is first[0]
    queue = stand.store.queue("orders", 1)
    for _ in range(3):
        other = stand.store.read(queue, 0, 32)
        kept.records(("orders", 1), other, HOST)
    again = pulled(stand, kept, 3)
    assert again == first
    assert again[0] is not first[0]
