"""RocketMQ's JSON: what is written byte by byte, what is forgiven when read, and that only ProtocolError escapes."""

import contextlib
import json
from enum import Enum, IntEnum
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.fastjson import DEPTH_MAX, ObjectKey, decode, decode_as, encode


class QueueKey(msgspec.Struct, frozen=True, order=True, rename="camel"):
    topic: str
    broker_name: str
    queue_id: int


class ProcessQueue(msgspec.Struct, rename="camel"):
    cached_messages: int = 0
    locked: bool = False


class RunningInfo(msgspec.Struct, rename="camel"):
    mq_table: dict[QueueKey, ProcessQueue]


class Broker(msgspec.Struct, rename="camel"):
    broker_addrs: dict[int, str]
    broker_name: str
    zone: str | None = None


class LockedQueues(msgspec.Struct, rename="camel"):
    lock_ok_mq_set: set[QueueKey]


class Model(Enum):
    CLUSTERING = 1
    BROADCASTING = 2


class Perm(IntEnum):
    READ = 4
    WRITE = 2


class Subscription(msgspec.Struct, rename="camel"):
    topic: str
    sub_version: int = 0
    ratio: float = 0.0
    enabled: bool = True
    model: Model = Model.CLUSTERING
    tags: list[str] = []
    note: str | None = None
    extra: dict[str, str] = {}
    inner: "Subscription | None" = None


class OnTheWire(msgspec.Struct, array_like=True):
    zebra: int
    apple: str
    melon: str | None = None


class Loose(msgspec.Struct):
    anything: Any = None


QUEUE = QueueKey("T", "b", 0)
QUEUE_TEXT = b'{"brokerName":"b","queueId":0,"topic":"T"}'


# --- writing


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, b"null"),
        (True, b"true"),
        (-7, b"-7"),
        (2**70, b"1180591620717411303424"),
        (0.5, b"0.5"),
        (float("nan"), b"null"),
        ('say "é\n\\"', '"say \\"é\\n\\\\\\""'.encode()),
        ("half \ud800", b'"half ?"'),
        ([1, (None, "a")], b'[1,[null,"a"]]'),
        ({10, 9}, b"[9,10]"),
        (frozenset({"b", 1, "a"}), b'["a","b",1]'),
        (Model.BROADCASTING, b'"BROADCASTING"'),
        (Perm.READ, b'"READ"'),
        ({"a": None, "b": 1}, b'{"b":1}'),
        ({Model.CLUSTERING: 1, Perm.WRITE: 2, True: 3}, b'{"CLUSTERING":1,"WRITE":2,true:3}'),
        (OnTheWire(1, "x"), b'{"apple":"x","zebra":1}'),
        (QUEUE, QUEUE_TEXT),
        (LockedQueues({QUEUE}), b'{"lockOkMqSet":[' + QUEUE_TEXT + b"]}"),
    ],
)
def test_values_are_written_as_fastjson_writes_them(value: Any, written: bytes) -> None:
    assert encode(value) == written


def test_integer_keys_are_bare_unless_the_reader_wants_standard_json() -> None:
    broker = Broker({0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}, "broker-a")
    assert encode(broker) == b'{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a"}'
    quoted = encode(broker, quote_number_keys=True)
    assert quoted == b'{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"broker-a"}'
    assert decode_as(quoted, Broker) == decode_as(encode(broker), Broker) == broker


def test_a_message_queue_as_key_is_written_where_the_key_stands() -> None:
    info = RunningInfo({QUEUE: ProcessQueue(3, True)})
    written = encode(info)
    assert written == b'{"mqTable":{' + QUEUE_TEXT + b':{"cachedMessages":3,"locked":true}}}'
    assert decode_as(written, RunningInfo) == info
    assert encode(decode(written)) == written


@pytest.mark.parametrize("value", [object(), b"bytes", {1.5: 1}, {(1, 2): 3}, {None: 1}])
def test_what_fastjson_has_no_words_for_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="fastjson can't write"):
        encode(value)


# --- reading plain values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":[1,2.5,"x",true,null]}', {"a": [1, 2.5, "x", True, None]}),
        ("{'a':'it\\'s \"so\"'}", {"a": 'it\'s "so"'}),
        ("{code: 105, extFields: {topic: 'T'}, $ref: 1}", {"code": 105, "extFields": {"topic": "T"}, "$ref": 1}),
        ("{0:1,'1':2,\"2\":3,-4:5}", {0: 1, "1": 2, "2": 3, -4: 5}),
        ("{true:1,null:2}", {"true": 1, "null": 2}),
        ("[1,,2,]", [1, 2]),
        ("{,'a':1,,}", {"a": 1}),
        ("'\\u0041\\x42\\n\\v\\0\\/'", "AB\n\v\0/"),
        ("'\\ud83d\\ude80 \U0001f680'", "\U0001f680 \U0001f680"),
        ("'raw\ttab\nand line'", "raw\ttab\nand line"),
        (" \t\r\n\f\b['x' , 12345678901234567890] \n", ["x", 12345678901234567890]),
        ("{'a':-1.5e3,'b':2E-1,'c':007}", {"a": -1500.0, "b": 0.2, "c": 7}),
        ("{}", {}),
        ("[ ]", []),
    ],
)
def test_every_spelling_fastjson_takes_is_read(text: str, value: Any) -> None:
    assert decode(text.encode()) == value


def test_an_object_as_key_is_the_same_in_any_order_of_its_fields() -> None:
    read = decode(b"{{'topic':'T',\"queueId\":0}:1,{queueId:0,topic:'T',}:2,{a:{b:[1,{c:2}]}}:3}")
    first, second = read
    assert read == {first: 2, second: 3}
    assert first == ObjectKey.of({"queueId": 0, "topic": "T"})
    assert first.as_dict() == {"queueId": 0, "topic": "T"}
    assert second.as_dict() == {"a": {"b": [1, {"c": 2}]}}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "character 0: expected a value, found the end"),
        (b"   ", "character 3: expected a value, found the end"),
        (b"{'a' 1}", "character 5: expected ':', found '1}'"),
        (b"{'a':}", "character 5: expected a value"),
        (b"{'a':1 'b':2}", "expected ',' or '}'"),
        (b"{'a':1", "character 6: expected ',' or '}', found the end"),
        (b"[1 2]", "expected ',' or ']'"),
        (b"[1", "expected ',' or ']', found the end"),
        (b"{[1]:2}", "expected a key or '}'"),
        (b"{1.5:2}", "expected a key or '}'"),
        (b"{{{a:1}:2}:3}", "character 2: expected a name within an object key, found"),
        (b"{{a:{{b:1}:2}}:3}", "expected a name within an object key"),
        (b"{'a':NaN}", "character 5: expected a value, found 'NaN}'"),
        (b"[Infinity]", "expected a value"),
        (b"[-]", "character 1: expected a value or ']', found '-]'"),
        (b"[1e999]", "within the range of a double"),
        (b"[" + b"9" * 5000 + b"]", "no more than 640 digits"),
        (b"{} x", "character 3: expected the end, found 'x'"),
        (b"{'a':'b", "character 5: expected a value, found"),
        (b"'\\q'", "expected an escape"),
        (b"'\\u12'", "expected an escape"),
        (b"'\\ud800'", "expected surrogates in pairs"),
        (b"{'a\xff':1}", "byte 3: expected UTF-8, found 0xff"),
        (b"[" * 100_000, "no more than 64 levels"),
        (b'{"a":' * 100_000, "no more than 64 levels"),
        (b"{" * 100_000, "a name within an object key"),
    ],
)
def test_malformed_json_says_where_and_what_was_expected(data: bytes, words: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        decode(data)
    assert words in str(refused.value)
    assert len(refused.value.args) == 1


@pytest.mark.parametrize("shape", [b"[%b]", b'{"a":%b}', b"{'a':%b}"])
def test_the_depth_limit_is_the_same_for_both_readers(shape: bytes) -> None:
    deepest = b"1"
    for _ in range(DEPTH_MAX):
        deepest = shape % deepest
    decode(deepest)
    with pytest.raises(ProtocolError, match=f"no more than {DEPTH_MAX} levels"):
        decode(shape % deepest)
    with pytest.raises(ProtocolError, match=f"no more than {DEPTH_MAX} levels"):
        decode_as(b'{"anything":%b}' % deepest, Loose)


# --- reading into types


@pytest.mark.parametrize(
    "data",
    [
        b'{"topic":"T","subVersion":4,"ratio":0.5,"enabled":false}',
        b'{"topic":"T","subVersion":"4","ratio":"0.5","enabled":"false","unknown":[{}]}',
        b"{topic:'T',subVersion:'4',ratio:.5,enabled:'FALSE'}".replace(b".5", b"0.5"),
        b'{"topic":"T","subVersion":4,"ratio":0.5,"enabled":false,"tags":null,"model":null,"extra":null,"note":null}',
        b"{'topic':'T','subVersion':4,'ratio':0.5,'enabled':false,'model':'CLUSTERING',9:9,{a:1}:1}",
    ],
)
def test_a_type_is_read_from_every_spelling_of_its_fields(data: bytes) -> None:
    assert decode_as(data, Subscription) == Subscription("T", 4, 0.5, False)


def test_numbers_and_booleans_are_taken_as_text() -> None:
    read = decode_as(
        b'{"topic":7,"extra":{"queueId":3,"batch":true,"x":1.5,"none":null,"s":"t"},"tags":[1]}', Subscription
    )
    assert read.topic == "7"
    assert read.extra == {"queueId": "3", "batch": "true", "x": "1.5", "s": "t"}
    assert read.tags == ["1"]


def test_enums_and_nested_types_make_the_round_trip() -> None:
    value = Subscription("T", model=Model.BROADCASTING, inner=Subscription("U", note="n", tags=["a"]))
    assert decode_as(encode(value), Subscription) == value


@pytest.mark.parametrize("addresses", [b'{0:"a",1:"b"}', b'{"0":"a","1":"b"}', b"{'0':'a',1:'b',}"])
def test_integer_keys_are_read_bare_or_quoted(addresses: bytes) -> None:
    read = decode_as(b'{"brokerName":"b","brokerAddrs":' + addresses + b"}", Broker)
    assert read == Broker({0: "a", 1: "b"}, "b")


def test_bare_integer_keys_become_text_where_the_keys_are_text() -> None:
    assert decode_as(b"{1:'a'}", dict[str, str]) == {"1": "a"}


def test_object_keys_are_read_with_the_same_habits() -> None:
    read = decode_as(b"{'mqTable':{{'queueId':'0',topic:'T','brokerName':'b','x':null}:{locked:'true'}}}", RunningInfo)
    assert read == RunningInfo({QUEUE: ProcessQueue(0, True)})
    assert decode_as(b'{"mqTable":{}}', RunningInfo) == RunningInfo({})


@pytest.mark.parametrize(
    ("data", "type_", "words"),
    [
        (b'{"subVersion":1}', Subscription, "JSON of a Subscription: Object missing required field `topic`"),
        (b'{"topic":null}', Subscription, "missing required field `topic`"),
        (b"{topic:'T',inner:{}}", Subscription, "missing required field `topic` - at `$.inner`"),
        (b'{"topic":"T","subVersion":"four"}', Subscription, "`$.subVersion`"),
        (b'{"topic":["T"]}', Subscription, "`$.topic`"),
        (b"[]", Subscription, "Expected `object`, got `array`"),
        (b'{"mqTable":{{"topic":"T","queueId":0}:{}}}', RunningInfo, "missing required field `brokerName`"),
        (b'{"mqTable":{"T":{}}}', RunningInfo, "Expected `object`, got `str`"),
        (b'{"brokerName":"b","brokerAddrs":{"x":"a"}}', Broker, "Expected `int`"),
        (b'{"brokerName":"b","brokerAddrs":{{a:1}:"a"}}', Broker, "Expected `int`"),
        (b'{"topic":', Subscription, "character 9: expected a value, found the end"),
        (b'{"topic":"\xff"}', Subscription, "expected UTF-8"),
        (b'{"topic":"T","unknown":' + b"[" * 100_000, Subscription, "no more than 64 levels"),
    ],
)
def test_what_does_not_fit_names_the_field(data: bytes, type_: type[Any], words: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        decode_as(data, type_)
    assert words in str(refused.value)
    assert len(refused.value.args) == 1


# --- everything else there is

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
object_keys = st.dictionaries(st.text(), scalars.filter(lambda value: value is not None), max_size=3).map(ObjectKey.of)
plain = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | object_keys, inner),
    max_leaves=20,
)
symbols = st.sampled_from(
    [*"{}[],:'\"\\-.0123456789eE \n", "\\u", "d8", "true", "null", "NaN", "a", "$", "é", "\ud800"]
)
jumble = st.lists(symbols).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))
types = st.sampled_from([RunningInfo, Broker, Subscription, LockedQueues, Loose, dict[int, Any], dict[str, str], Any])


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@given(plain)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert decode(encode(value)) == without_nulls(value)


@given(plain, st.data())
def test_both_readers_agree_on_standard_json(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value if not isinstance(value, dict) else list(value.values()), skipkeys=True, ensure_ascii=False)
    assert decode(text.encode() + b" ") == decode(b"['',%b]" % text.encode())[1]


@given(
    st.dictionaries(st.builds(QueueKey, st.text(), st.text(), st.integers()), st.builds(ProcessQueue, st.integers()))
)
def test_tables_with_object_keys_make_the_round_trip(table: dict[QueueKey, ProcessQueue]) -> None:
    assert decode_as(encode(RunningInfo(table)), RunningInfo) == RunningInfo(table)


def read_without_harm(data: bytes, type_: Any) -> None:
    with contextlib.suppress(ProtocolError):
        encode(decode(data))
    with contextlib.suppress(ProtocolError):
        encode(decode_as(data, type_))


@given(jumble | st.binary(), types)
@example(b"\xef\xbb\xbf{}", Any)
@example(b"{{a:[]}:1}", dict[int, Any])
@example(b"{{2:2,'2':3,'1':{1:1,'':1}}:4}", Any)
@example(b'{"anything":{{a:1}:2}}', Loose)
def test_no_bytes_do_more_than_a_protocol_error(data: bytes, type_: Any) -> None:
    read_without_harm(data, type_)


@given(plain, st.data(), types)
def test_a_damaged_body_does_no_more_than_a_protocol_error(value: Any, data: st.DataObject, type_: Any) -> None:
    body = bytearray(encode({"mqTable": value, "topic": value, "brokerAddrs": value, "anything": value}))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at : at + data.draw(st.integers(0, 3))] = data.draw(jumble)
    read_without_harm(bytes(body), type_)
