"""Traces as text: RocketMQ's form, to and fro."""

import pytest

from staticfire.protocol.trace import (
    EndTransactionTrace,
    PubTrace,
    RecallTrace,
    SubAfterTrace,
    SubBeforeTrace,
    Trace,
    decode_traces,
    encode_trace,
)

PUB = PubTrace(
    1700000000000, "DefaultRegion", "shop", "orders", "ID", "paid", "k1 k2", "127.0.0.1:10911", 12, 3, 0, "OFFSET"
)
TRACES: list[tuple[Trace, str]] = [
    (
        PUB,
        "Pub|1700000000000|DefaultRegion|shop|orders|ID|paid|k1 k2|127.0.0.1:10911|12|3|0|OFFSET|true",
    ),
    (
        SubBeforeTrace(1700000000001, "DefaultRegion", "billing", "REQUEST", "ID", 2, "k1 k2"),
        "SubBefore|1700000000001|DefaultRegion|billing|REQUEST|ID|2|k1 k2",
    ),
    (
        SubAfterTrace("REQUEST", "ID", 5, False, "k1 k2", 2, 1700000000006, "billing"),
        "SubAfter|REQUEST|ID|5|false|k1 k2|2|1700000000006|billing",
    ),
    (
        EndTransactionTrace(1, "DefaultRegion", "shop", "orders", "ID", "null", "null", "h", 2, "ID", "COMMIT", True),
        "EndTransaction|1|DefaultRegion|shop|orders|ID|null|null|h|2|ID|COMMIT|true",
    ),
    (RecallTrace(1, "DefaultRegion", "shop", "orders", "ID", False), "Recall|1|DefaultRegion|shop|orders|ID|false"),
]


@pytest.mark.parametrize(("trace", "text"), TRACES, ids=lambda each: type(each).__name__)
def test_each_kind_is_written_as_rocketmq_does_and_read_back(trace: Trace, text: str) -> None:
    written = encode_trace(trace)
    assert written == text.replace("|", "\x01") + "\x02"
    assert decode_traces(written) == [trace]


def test_several_traces_are_one_text() -> None:
    text = "".join(encode_trace(trace) for trace, _ in TRACES)
    assert decode_traces(text) == [trace for trace, _ in TRACES]


def test_older_clients_write_fewer_fields() -> None:
    [short] = decode_traces("SubAfter\x01REQUEST\x01ID\x015\x01true\x01k1\x02")
    assert (short.context_code, short.group) == (0, "")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text", ["", "\x02", "Pub\x02", "Nonsense\x01a\x02", "Pub\x01when\x01x\x02", "SubBefore\x011\x02"]
)
def test_what_is_no_trace_is_passed_over(text: str) -> None:
    assert decode_traces(text + encode_trace(PUB)) == [PUB]


def test_a_separator_inside_a_value_ends_nothing() -> None:
    [trace] = decode_traces(encode_trace(RecallTrace(1, "a\x01b\x02c", "g", "t", "ID")))
    assert trace.region == "a b c"  # type: ignore[union-attr]
