"""Headers in JSON as nobody of ours writes them: with the compiled twin of sends and without they end the same."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from staticfire.protocol import compiled
from staticfire.protocol.codecs import JSON, codec_for
from tests.broker.two_brokers import PLAIN, SEGMENT_BYTES, Both, sent

pytestmark = pytest.mark.skipif(
    compiled.twin is None, reason="built without a compiler, or STATICFIRE_PURE_PYTHON is set"
)


@pytest.fixture
def both(tmp_path: Path) -> Both:
    return Both(tmp_path)


@pytest.fixture(scope="module")
def everlasting(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("runs"), mapped_file_size_commit_log=4 * SEGMENT_BYTES)


FIELDS = {
    "a": "shop", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000123", "h": "0",
    "i": PLAIN, "j": "0", "k": "false", "m": "false",
}  # fmt: skip
REST = {"flag": 0, "language": "PYTHON", "opaque": 5, "serializeTypeCurrentRPC": "JSON", "version": 0}


def header(fields: dict[str, Any], *rest: tuple[str, Any]) -> str:
    """Return a header as Java writes it, with its version."""
    known = json.loads(codec_for(JSON).encode_request(sent(), 1, False)[8:].decode("latin-1").split("hello")[0])
    pairs = [("code", 310), ("extFields", fields), *(rest or (REST | {"version": known["version"]}).items())]
    return "{" + ",".join(f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in pairs) + "}"


def framed(text: str, body: bytes = b"hello") -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return (4 + len(data) + len(body)).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data + body


WHOLE = header(FIELDS)
HEADERS: dict[str, Callable[[], str]] = {
    "as Java writes it": lambda: WHOLE,
    "blanks": lambda: WHOLE.replace(":", ": "),
    "blanks in front": lambda: " " + WHOLE,
    "more behind": lambda: WHOLE + " ",
    "two codes": lambda: WHOLE[:-1] + ',"code":10}',
    "two topics": lambda: WHOLE.replace('"b":"orders"', '"b":"orders","b":"größer"'),
    "two opaques": lambda: WHOLE[:-1] + ',"opaque":6}',
    "two fields": lambda: WHOLE[:-1] + ',"extFields":{}}',
    "another field": lambda: header(FIELDS | {"z": "1"}),
    "another key": lambda: WHOLE[:-1] + ',"more":1}',
    "numbers as numbers": lambda: header(FIELDS | {"e": 1, "g": 5}),
    "a number with a sign": lambda: header(FIELDS | {"e": "+1"}),
    "a number with a zero": lambda: header(FIELDS | {"e": "01"}),
    "a number with a blank": lambda: header(FIELDS | {"e": " 1"}),
    "no digits": lambda: header(FIELDS | {"e": "-"}),
    "an empty number": lambda: header(FIELDS | {"e": ""}),
    "zero below zero": lambda: header(FIELDS | {"g": "-0"}),
    "a fraction": lambda: header(FIELDS | {"g": "1.0"}),
    "an exponent": lambda: header(FIELDS | {"g": "1e3"}),
    "a long number": lambda: header(FIELDS | {"g": "9" * 19}),
    "a longer number": lambda: header(FIELDS | {"g": "9" * 30}),
    "the largest number": lambda: header(FIELDS | {"g": str(2**63 - 1)}),
    "a time below zero": lambda: header(FIELDS | {"g": "-5"}),
    "a queue beyond an int": lambda: header(FIELDS | {"e": str(2**31)}),
    "a truth in another case": lambda: header(FIELDS | {"k": "True", "m": "FALSE"}),
    "a truth as a number": lambda: header(FIELDS | {"m": "0"}),
    "truths as truths": lambda: header(FIELDS | {"k": True, "m": False}),
    "a truth for a number": lambda: header(FIELDS | {"e": True}),
    "a number for a truth": lambda: header(FIELDS | {"m": 0}),
    "a number for a text": lambda: header(FIELDS | {"b": 5}),
    "a truth for a text": lambda: header(FIELDS | {"a": False}),
    "a fraction without quotes": lambda: header(FIELDS | {"e": 1.0}),
    "a list in another field": lambda: header(FIELDS | {"z": [1]}),
    "a fraction in another field": lambda: header(FIELDS | {"z": 1.5}),
    "an escape in another field": lambda: header(FIELDS | {"z": "ä\n"}),
    "as C++ writes it": lambda: header(
        FIELDS | {"d": 4, "e": 1, "f": 0, "h": 0, "k": "0", "m": "0", "Signature": "//iq+="}
    ),
    "batch 1": lambda: header(FIELDS | {"m": "1"}),
    "no truth": lambda: header(FIELDS | {"k": "maybe"}),
    "a batch": lambda: header(FIELDS | {"m": "true"}),
    "nothing for a field": lambda: header(FIELDS | {"j": None}),
    "a retry": lambda: header(FIELDS | {"j": "2"}),
    "how often": lambda: header(FIELDS | {"l": "16"}),
    "how often, in words": lambda: header(FIELDS | {"l": "often"}),
    "a topic that isn't ASCII": lambda: header(FIELDS | {"b": "größer"}),
    "the same, raw": lambda: header(FIELDS).replace('"orders"', '"größer"'),
    "a group that isn't ASCII": lambda: header(FIELDS | {"a": "größer"}).replace("\\u00f6\\u00df", "öß"),
    "an escaped topic": lambda: WHOLE.replace('"orders"', '"\\u006frders"'),
    "a name with an escape": lambda: WHOLE.replace('"b":', '"\\u0062":'),
    "escapes of all kinds": lambda: header(FIELDS | {"i": PLAIN + 'k\x01"\\/\b\f\n\r\t\x00\x1f\x7f\x02'}),
    "an escape in capitals": lambda: WHOLE.replace("order-1", "\\u004F\\u004f"),
    "an escape beyond ASCII": lambda: WHOLE.replace("order-1", "\\u00e4"),
    "an escape of a surrogate": lambda: WHOLE.replace("order-1", "\\ud800"),
    "an escape cut off": lambda: WHOLE.replace("order-1", "\\u00"),
    "no escape": lambda: WHOLE.replace("order-1", "\\q"),
    "a raw control character": lambda: WHOLE.replace("order-1", "a\x02b"),
    "a raw tab": lambda: WHOLE.replace("order-1", "a\tb"),
    "a raw DEL": lambda: WHOLE.replace("order-1", "a\x7fb"),
    "an id that JSON escapes": lambda: header(FIELDS | {"i": 'UNIQ_KEY\x01a"b\\c\x02'}),
    "a short id": lambda: header(FIELDS | {"i": "UNIQ_KEY\x01a\x02"}),
    "no properties": lambda: header({name: value for name, value in FIELDS.items() if name != "i"}),
    "no topic": lambda: header({name: value for name, value in FIELDS.items() if name != "b"}),
    "no time": lambda: header({name: value for name, value in FIELDS.items() if name != "g"}),
    "no group": lambda: header({name: value for name, value in FIELDS.items() if name != "a"}),
    "no fields": lambda: header({}),
    "a remark": lambda: WHOLE[:-1] + ',"remark":"hello"}',
    "an empty remark": lambda: WHOLE[:-1] + ',"remark":""}',
    "no remark": lambda: WHOLE[:-1] + ',"remark":null}',
    "one-way": lambda: WHOLE.replace('"flag":0', '"flag":2'),
    "no flag": lambda: WHOLE.replace('"flag":0,', ""),
    "no opaque": lambda: WHOLE.replace('"opaque":5,', ""),
    "an opaque below zero": lambda: WHOLE.replace('"opaque":5,', '"opaque":-5,'),
    "an opaque beyond an int": lambda: WHOLE.replace('"opaque":5,', '"opaque":5000000000,'),
    "an opaque as text": lambda: WHOLE.replace('"opaque":5,', '"opaque":"5",'),
    "another language": lambda: WHOLE.replace("PYTHON", "JAVA"),
    "no language": lambda: WHOLE.replace('"language":"PYTHON",', ""),
    "another version": lambda: WHOLE.replace('"version":', '"version":1'),
    "a version beyond an int": lambda: WHOLE.replace('"version":', '"version":1234567890'),
    "another order": lambda: '{"code":310,' + ",".join(reversed(WHOLE[12:-1].split(',"f', 1))) + "}",
    "a comma too many": lambda: WHOLE[:-1] + ",}",
    "a comma too many in the fields": lambda: WHOLE.replace('"m":"false"', '"m":"false",'),
    "no end": lambda: WHOLE[:-1],
    "names of the first version": lambda: WHOLE.replace('"code":310', '"code":10'),
    "nothing": lambda: "",
    "half a code": lambda: '{"code":310',
    "a code alone": lambda: '{"code":310}',
    "an array": lambda: "[]",
}
TAKEN = [
    "as C++ writes it",
    "another field",
    "numbers as numbers",
    "truths as truths",
    "as Java writes it",
    "a time below zero",
    "how often",
    "an escape in capitals",
    "an empty remark",
    "no remark",
]
TAKEN += ["no flag", "an opaque below zero", "a short id", "no group"]


@pytest.mark.parametrize("name", HEADERS)
def test_any_header_ends_as_one_by_one(both: Both, name: str) -> None:
    frame = framed(HEADERS[name]())
    both.take(framed(WHOLE) + frame + framed(WHOLE))
    both.take(frame)


@pytest.mark.parametrize("name", TAKEN)
def test_usual_headers_need_no_call(both: Both, name: str) -> None:
    both.take(framed(WHOLE))
    assert both.calls_of(framed(HEADERS[name]())) == 0


@given(st.data())
@settings(max_examples=120)
def test_so_does_any_header_that_is_cut_or_changed(everlasting: Both, data: st.DataObject) -> None:
    text = HEADERS[data.draw(st.sampled_from(list(HEADERS)))]()
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(begin + 6, len(text))))
    middle = data.draw(st.text(st.sampled_from('"\\{}[]:,0159-u\x00\x01\x02 aeä'), max_size=4))
    everlasting.take(framed(WHOLE) + framed(text[:begin] + middle + text[end:]) + framed(WHOLE))
    for side in (everlasting.quick, everlasting.slow):
        side.reader.clear()
