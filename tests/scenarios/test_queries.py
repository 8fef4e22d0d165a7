"""Messages looked up by key, by unique id, by position and by place in a queue."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from staticfire.broker import key_index
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.queries import QueryConsumeQueue, QueryMessage, ViewMessage
from staticfire.protocol.requests.topics import DeleteTopic
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import BrokerStand

pytestmark = pytest.mark.row("F3")
FOREVER = (1 << 63) - 1


async def ask(stand: BrokerStand, key: str, topic: str = "orders", messages_max: int = 32, **fields: Any) -> Any:
    begin_ms, end_ms = fields.pop("begin_ms", 0), fields.pop("end_ms", FOREVER)
    return await stand.ask(QueryMessage(topic, key, messages_max, begin_ms, end_ms, **fields))


async def look_up(stand: BrokerStand, key: str, **fields: Any) -> Sequence[StoredRecord]:
    answer = await ask(stand, key, **fields)
    records: Sequence[StoredRecord] = [] if answer.code else answer.body.records
    return records


async def bodies(stand: BrokerStand, key: str, **fields: Any) -> list[bytes]:
    return [record.body for record in await look_up(stand, key, **fields)]


async def test_each_of_a_messages_keys_finds_it_at_once(stand: BrokerStand) -> None:
    await stand.send("orders", b"a", KEYS="42 red")
    await stand.send("orders", b"b", 1, KEYS="42")
    await stand.send("bills", b"c", KEYS="42")
    assert await bodies(stand, "42") == [b"a", b"b"]
    assert await bodies(stand, "red") == [b"a"]
    assert await bodies(stand, "4") == []


async def test_the_unique_id_finds_a_message(stand: BrokerStand) -> None:
    sent = await stand.send("orders", b"a")
    assert await bodies(stand, sent.transaction_id or "", unique_key_query=True) == [b"a"]


async def test_nothing_found_is_reported_with_both_fields(stand: BrokerStand) -> None:
    answer = await ask(stand, "42")
    assert answer.code == ResponseCode.QUERY_NOT_FOUND
    assert answer.remark == "can not find message, maybe time range not correct"


async def test_the_newest_win_and_come_oldest_first(stand: BrokerStand) -> None:
    for number in range(200):
        await stand.send("orders", b"%d" % number, KEYS="42")
    assert await bodies(stand, "42", messages_max=3) == [b"197", b"198", b"199"]
    assert len(await bodies(stand, "42", messages_max=1_000)) == 64
    assert len(await bodies(stand, "42", messages_max=1, unique_key_query=True)) == 32
    assert await bodies(stand, "42", messages_max=0) == []


async def test_only_what_was_stored_within_the_times(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"a", KEYS="42")
    await world.run_for(seconds=5)
    middle_ms = stand.message_ms
    await stand.send("orders", b"b", KEYS="42")
    assert await bodies(stand, "42", begin_ms=middle_ms) == [b"b"]
    assert await bodies(stand, "42", end_ms=middle_ms - 1) == [b"a"]


async def test_the_index_says_how_far_it_reaches(stand: BrokerStand) -> None:
    await stand.send("orders", b"a", KEYS="42")
    sent = await stand.send("orders", b"b")
    answer = await ask(stand, "42")
    assert answer.index_last_update_phyoffset == parse_offset_id(str(sent.msg_id))[1]
    assert answer.index_last_update_timestamp > 0


async def test_a_deleted_topic_has_no_messages(stand: BrokerStand) -> None:
    await stand.send("orders", b"a", KEYS="42")
    await stand.ask(DeleteTopic("orders"))
    assert await bodies(stand, "42") == []
    await stand.send("orders", b"b", KEYS="42")
    assert await bodies(stand, "42") == [b"b"]


async def test_a_killed_broker_finds_all_that_it_has(stand: BrokerStand) -> None:
    for number in range(50):
        await stand.send("orders", b"%d" % number, KEYS=f"k{number}")
    await stand.kill_and_start()
    assert await bodies(stand, "k0") == [b"0"]
    assert await bodies(stand, "k49") == [b"49"]


async def test_the_index_spans_segments_and_large_messages(world: SimulatedWorld) -> None:
    stand = BrokerStand(world, mapped_file_size_commit_log=1_000_000)
    await stand.start()
    for number in range(8):
        await stand.send("orders", bytes([number]) * 400_000, KEYS=f"k{number}")
    assert [await bodies(stand, f"k{number}") for number in range(8)] == [[bytes([n]) * 400_000] for n in range(8)]
    await stand.close()


async def test_a_delayed_message_is_found_when_it_was_delivered(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"a", KEYS="42", DELAY="1")
    assert await bodies(stand, "42") == []
    await world.run_for(seconds=2)
    assert await bodies(stand, "42") == [b"a"]


async def test_a_position_finds_its_message_and_no_other_does(stand: BrokerStand) -> None:
    sent = await stand.send("orders", b"a")
    position = parse_offset_id(str(sent.msg_id))[1]
    answer = await stand.ask(ViewMessage(position))
    assert [record.body for record in answer.body.records] == [b"a"]
    for wrong in (position + 1, -1, 1 << 40):
        answer = await stand.ask(ViewMessage(wrong))
        assert (answer.code, answer.remark) == (1, f"can not find message by the offset, {wrong}")


async def test_a_consume_queue_shows_its_entries(stand: BrokerStand) -> None:
    positions = [parse_offset_id(str((await stand.send("orders", b"x", TAGS="red")).msg_id))[1] for _ in range(3)]
    answer = await stand.ask(QueryConsumeQueue("orders", 0, 1, 10))
    assert [entry.physic_offset for entry in answer.body.queue_data] == positions[1:]
    assert (answer.body.min_queue_index, answer.body.max_queue_index) == (0, 3)
    answer = await stand.ask(QueryConsumeQueue("orders", 0, 3, 10))
    assert (answer.code, answer.remark, answer.body) == (0, "Index 3 of 0@orders is not exist!", None)
    answer = await stand.ask(QueryConsumeQueue("nothing", 0, 0, 10))
    assert (answer.code, answer.remark) == (1, "0@nothing is not exist!")


async def test_what_retention_removed_is_not_found(world: SimulatedWorld) -> None:
    stand = BrokerStand(world, mapped_file_size_commit_log=1_000_000)
    await stand.start()
    for number in range(5):
        await stand.send("orders", bytes(400_000), KEYS=f"k{number}")
    await world.run_for(seconds=20)
    store = stand.broker.state.store
    assert store.remove_segments_before(store.max_position)
    assert [len(await look_up(stand, f"k{number}")) for number in range(5)] == [0, 0, 0, 0, 1]
    await world.run_for(seconds=20)
    assert [len(await look_up(stand, f"k{number}")) for number in range(5)] == [0, 0, 0, 0, 1]
    await stand.close()


# -- kinds of keys, and pages ------------------------------------------------------------------------------------------


async def test_a_query_can_ask_for_one_kind_of_key(stand: BrokerStand) -> None:
    await stand.send("orders", b"a", KEYS="42", UNIQ_KEY="one")
    await stand.send("orders", b"b", KEYS="one", UNIQ_KEY="42")
    assert await bodies(stand, "42", index_type="K") == [b"a"]
    assert await bodies(stand, "42", index_type="U") == [b"b"]
    assert await bodies(stand, "42", index_type="") == [b"a", b"b"]
    answer = await ask(stand, "42", index_type="T")
    assert (answer.code, answer.remark) == (29, "indexType T is not supported: K (keys) and U (unique ids) are")


async def test_page_by_page_every_message_with_a_key_is_found_once(stand: BrokerStand) -> None:
    host = "0A00000200002A9F"
    for number in range(150):
        await stand.send("orders", b"%d" % number, KEYS="42" if number % 3 else "42 43")
    pages: list[list[bytes]] = []
    last_key = ""
    while page := await look_up(stand, "42", messages_max=64, last_key=last_key):
        pages.append([record.body for record in page])
        last_key = f"{host}{page[0].log_position:016X}"
    assert [len(page) for page in pages] == [64, 64, 22]
    assert [body for page in reversed(pages) for body in page] == [b"%d" % number for number in range(150)]
    answer = await ask(stand, "42", last_key="nonsense")
    assert answer.code == 29
    assert answer.remark.startswith(
        "lastKey must be the offset message id of the oldest message of the previous page: "
    )


async def test_an_index_that_has_to_be_made_first_says_what_it_lacks(
    stand: BrokerStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        await stand.send("orders", bytes(100_000), KEYS=f"k{number}")
    await stand.kill_and_start()
    monkeypatch.setattr(key_index, "CATCH_UP_MS_MAX", -1)
    answer = await ask(stand, "k19")
    assert answer.code == ResponseCode.QUERY_NOT_FOUND
    words = r"not found: the key index is being built and still lacks 1\.9 MiB of the log: try again later"
    assert re.fullmatch(words, answer.remark)
    monkeypatch.undo()
    assert len(await bodies(stand, "k19")) == 1
    assert (await ask(stand, "k19")).remark is None
