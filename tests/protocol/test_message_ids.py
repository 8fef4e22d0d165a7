"""Addresses and message ids."""

import pytest
from hypothesis import given, strategies as st

from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.hosts import host_text, pack_host, unpack_host
from staticfire.protocol.message_ids import (
    UniqueIds,
    month_around,
    offset_id,
    offset_id_prefix,
    offset_ids,
    parse_offset_id,
)

HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
NOVEMBER_2023_MS = 1_698_796_800_000
MID_NOVEMBER_MS = 1_700_000_000_000


def test_the_offset_id_of_a_real_broker() -> None:
    host = pack_host("127.0.0.1", 20911)
    assert offset_id(offset_id_prefix(host), 0x8E9) == "7F000001000051AF00000000000008E9"
    host = pack_host("::1", 20951)
    assert offset_id(offset_id_prefix(host), 0x949) == "00000000000000000000000000000001000051D70000000000000949"


@given(HOSTS, st.integers(-(2**63), 2**63 - 1))
def test_an_offset_id_comes_back(host: bytes, position: int) -> None:
    text = offset_id(offset_id_prefix(host), position)
    assert parse_offset_id(text) == parse_offset_id(text.lower()) == (host, position)


@pytest.mark.parametrize("text", ["", "00" * 15, "00" * 17, "0G" * 16, "00 " * 10 + "00", "\u0660" * 32])
def test_what_is_no_offset_id_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="not an offset message id"):
        parse_offset_id(text)


@given(st.text(max_size=60))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        parse_offset_id(text)
    except ProtocolError:
        pass


def test_the_parts_of_a_unique_id() -> None:
    ids = UniqueIds(bytes([127, 0, 0, 1]), pid=42, class_loader_hash=0x139A5548)
    since_month = MID_NOVEMBER_MS - NOVEMBER_2023_MS
    assert ids.next_id(MID_NOVEMBER_MS) == f"7F000001002A139A5548{since_month:08X}0000"
    assert ids.next_id(MID_NOVEMBER_MS) == f"7F000001002A139A5548{since_month:08X}0001"
    assert len(UniqueIds(bytes(16), 1 << 20, 1 << 40).next_id(0)) == 56


def test_the_counter_goes_round_after_65536_ids() -> None:
    ids = UniqueIds(bytes(4), 1, 2)
    made = [ids.next_id(MID_NOVEMBER_MS) for _ in range(65_537)]
    assert len(set(made)) == 65_536
    assert made[0] == made[-1]


def test_time_starts_again_with_each_month_and_does_not_go_below_it() -> None:
    ids = UniqueIds(bytes(4), 1, 2)
    december_ms = month_around(MID_NOVEMBER_MS, 0)[1]
    assert ids.next_id(december_ms - 1)[20:28] == f"{30 * 86_400_000 - 1:08X}"
    assert ids.next_id(december_ms)[20:28] == "00000000"
    assert ids.next_id(december_ms - 999_999)[20:28] == "00000000"
    assert ids.next_id(december_ms - 1_000_000)[20:28] == f"{2**32 - 1_000_000:08X}"


def test_months_begin_at_midnight_of_the_zone() -> None:
    assert month_around(MID_NOVEMBER_MS, 0) == (NOVEMBER_2023_MS, NOVEMBER_2023_MS + 30 * 86_400_000)
    hour_ms = 3_600_000
    begin, end = month_around(NOVEMBER_2023_MS - 1, 8 * hour_ms)
    assert (begin, end) == (NOVEMBER_2023_MS - 8 * hour_ms, NOVEMBER_2023_MS + (30 * 24 - 8) * hour_ms)


@given(HOSTS)
def test_a_host_comes_back(host: bytes) -> None:
    ip, port = unpack_host(host)
    if not ip.startswith("::ffff:"):
        assert pack_host(ip, port) == host
    assert host_text(host).endswith(f":{port}")


def test_hosts_as_people_read_them() -> None:
    assert host_text(pack_host("10.0.0.1", 10911)) == "10.0.0.1:10911"
    assert host_text(pack_host("fe80::1%eth0", 10911)) == "[fe80::1]:10911"
    assert host_text(pack_host("::ffff:10.0.0.1", 10911)) == "10.0.0.1:10911"


@pytest.mark.parametrize(("ip", "port"), [("localhost", 1), ("", 1), ("10.0.0.1", 2**31), ("10.0.0.256", 1)])
def test_what_is_no_address_is_refused(ip: str, port: int) -> None:
    with pytest.raises(ProtocolError, match="not the address of a host"):
        pack_host(ip, port)


def test_a_host_of_another_length_is_refused() -> None:
    with pytest.raises(ProtocolError, match="6 bytes"):
        unpack_host(bytes(6))


def test_the_ids_of_a_batch_are_those_of_its_messages() -> None:
    prefix = offset_id_prefix(bytes(8))
    assert offset_ids(prefix, [1, 2**40]) == f"{offset_id(prefix, 1)},{offset_id(prefix, 2**40)}"
    assert offset_ids(prefix, []) == ""
