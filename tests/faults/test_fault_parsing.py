"""Rules from words of users, and the errors for words that have no meaning."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from staticfire.faults.parsing import checked, parse_fault
from staticfire.faults.showing import in_words
from staticfire.protocol.errors import UsageError
from staticfire.protocol.requests.faults import FaultRule

SENDS = [10, 310, 320, 9001]


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"code": "send_message", "answer": "SYSTEM_BUSY", "times": "3"}, {"codes": SENDS, "times": 3}),
        ({"code": 10, "answer": 14, "remark": "later"}, {"codes": [10], "answer_code": 14, "remark": "later"}),
        ({"code": "PULL_MESSAGE,HEART_BEAT", "drop": True}, {"codes": [11, 361, 34], "direction": "request"}),
        ({"client": "billing-2", "delay": "200ms", "jitter": "50ms"}, {"delay_ms": 200, "jitter_ms": 50}),
        ({"delay": timedelta(seconds=1), "direction": "answer"}, {"delay_ms": 1_000, "direction": "answer"}),
        ({"drop": "answer", "probability": "0.1", "seed": 7}, {"direction": "answer", "probability": 0.1, "seed": 7}),
        ({"code": "NOTIFY_CONSUMER_IDS_CHANGED", "drop": True}, {"codes": [40], "direction": "server"}),
        ({"corrupt": True}, {"action": "corrupt", "direction": "answer"}),
        ({"bandwidth": "10k"}, {"bytes_per_second": 10_000, "direction": "answer"}),
        ({"skew": "-5m", "language": "java"}, {"skew_ms": -300_000, "language": 0}),
        ({"queue": "0", "close": "answer"}, {"queue_id": 0, "direction": "answer"}),
        ({"duplicate": True, "from_": 5, "until": "1970-01-01T00:00:01Z"}, {"from_ms": 5, "until_ms": 1_000}),
        ({"drop": True, "until": datetime(1970, 1, 2, tzinfo=UTC)}, {"until_ms": 86_400_000}),
        ({"broker": "broker-b", "freeze": "20s"}, {"action": "freeze", "lifetime_ms": 20_000}),
        ({"broker": "broker-b", "kill": True, "lifetime": "5s"}, {"action": "kill", "lifetime_ms": 5_000}),
        ({"broker": "b", "readOnly": True}, {"action": "read-only", "answer_code": 16}),
        ({"address": "::ffff:10.0.0.9", "drop": True}, {"address": "10.0.0.9"}),
        ({"address": "[0:0::1]:4711", "drop": True}, {"address": "[::1]:4711"}),
        ({"address": "10.0.0.9:4711", "drop": True}, {"address": "10.0.0.9:4711"}),
        ({"code": "HEART_BEAT", "topic": "t", "group": "g", "drop": True}, {"topic": "t", "group": "g"}),
        ({"code": "LOCK_BATCH_MQ", "topic": "t", "group": "g", "drop": True}, {"codes": [41]}),
        ({"code": "SEND_MANY", "queue": 1, "topic": "t", "drop": True}, {"codes": [9001]}),
        ({"code": "HEART_BEAT,PULL_MESSAGE", "queue": 1, "drop": True}, {"queue_id": 1}),
        ({"code": "GET_CONSUMER_RUNNING_INFO", "drop": "server"}, {"direction": "server"}),
        ({"answer": "32767"}, {"answer_code": 32_767}),
        ({"drop": True, "stays": True}, {"stays": True}),
        ({"answer": 10, "direction": "answer"}, {"answer_code": 10, "direction": "answer"}),
        ({"drop": True}, {"until_ms": -1, "lifetime_ms": 0}),
        ({"disk-full": "true", "topic": None, "close": False}, {"action": "disk-full"}),
    ],
)  # fmt: skip
def test_words_make_a_rule(given: dict[str, Any], fields: dict[str, Any]) -> None:
    rule = parse_fault(given).rule
    assert {name: getattr(rule, name) for name in fields} == fields
    assert in_words(rule)


def test_places_and_sides_are_names() -> None:
    assert parse_fault({"broker": "broker-a, broker-b", "drop": True}).places == ("broker-a", "broker-b")
    assert parse_fault({"partition": "broker-a,c-1 / nameserver"}).sides == (("broker-a", "c-1"), ("nameserver",))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"code": "SEND_MESAGE", "drop": True}, "did you mean SEND_MESSAGE"),
        ({"code": "zzz", "drop": True}, "write its name, like SEND_MESSAGE"),
        ({"code": "77777", "drop": True}, "'77777' is not a request code"),
        ({"code": "EXPORT_ROCKSDB_CONFIG_TO_JSON", "drop": True}, "isn't supported"),
        ({"code": "GET_FAULTS", "drop": True}, "rules can't hit it"),
        ({"code": "SEND_MESSAGE"}, "the rule has no action"),
        ({"drop": True, "close": True}, "drop and close can't be combined"),
        ({"drop": "answer", "direction": "request"}, "different directions"),
        ({"drop": "both"}, "drop=both"),
        ({"answer": "SYSTEM_BUSY", "direction": "server"}, "goes with request or answer"),
        ({"answer": "SUCCESS"}, "the result is missing"),
        ({"answer": "SYSTEM_BUSYY"}, "did you mean SYSTEM_BUSY"),
        ({"delay": "200"}, "is not a duration"),
        ({"delay": 200}, "write a duration"),
        ({"delay": "50ms", "jitter": "60ms"}, "smaller jitter"),
        ({"drop": True, "jitter": "1s"}, "jitter can't be combined with drop"),
        ({"drop": True, "probability": 0}, "above 0"),
        ({"drop": True, "probability": "nan"}, "above 0"),
        ({"drop": True, "times": 0}, "from 1 to"),
        ({"drop": True, "times": True}, "from 1 to"),
        ({"drop": True, "from": 9, "until": 5}, "would never hit"),
        ({"drop": True, "language": "JAV"}, "did you mean JAVA"),
        ({"drop": True, "queue": -1}, "queue=-1"),
        ({"bandwidth": "fast"}, "bytes per second"),
        ({"bandwidth": "0"}, "bytes per second"),
        ({"freeze": "20s"}, "needs a server"),
        ({"broker": "b", "freeze": "20s", "lifetime": "3s"}, "leave lifetime out"),
        ({"broker": "b", "kill": True, "times": 3}, "times can't be combined with kill"),
        ({"broker": "b", "read_only": True, "topic": "t"}, "topic can't be combined with read-only"),
        ({"partition": "broker-a"}, "with a slash"),
        ({"partition": "a/a"}, "both sides"),
        ({"partition": "a/b", "broker": "a"}, "broker can't be combined with partition"),
        ({"dealy": "2s"}, "did you mean delay"),
        ({"broker": "b", "freeze": "0s"}, "freeze=0s: the time must be above 0"),
        ({"broker": "b", "kill": timedelta(0)}, "the time must be above 0"),
        ({"drop": True, "lifetime": "0s"}, "lifetime=0s: the time must be above 0; leave it out"),
        ({"drop": True, "lifetime": timedelta(0)}, "the time must be above 0"),
        ({"drop": True, "until": 0}, "until is not after 1970"),
        ({"drop": True, "until": "1970-01-01T00:00:00Z"}, "until is not after 1970"),
        ({"code": "SEND_MESSAGE", "direction": "server", "delay": "1s"}, "servers don't send SEND_MESSAGE"),
        ({"code": "10,PULL_MESSAGE", "drop": "server"}, "servers don't send 10,PULL_MESSAGE"),
        ({"address": "localhost", "drop": True}, "address=localhost: write an IP address"),
        ({"address": "ünï", "drop": True}, "write an IP address"),
        ({"address": "127.0.0.1:70000", "drop": True}, "write an IP address"),
        ({"code": "HEART_BEAT", "queue": 3, "drop": True}, "HEART_BEAT has no queue"),
        ({"code": "GET_BROKER_CONFIG", "topic": "t", "drop": True}, "GET_BROKER_CONFIG has no topic"),
        ({"code": "GET_BROKER_CONFIG,30", "group": "g", "drop": True}, "GET_BROKER_CONFIG,30 has no group"),
        ({"broker": ",", "drop": True}, "broker=,: write names"),
        ({"answer": "--5"}, "'--5' is not a response code"),
        ({"answer": "-5"}, "answer=-5: codes are 1 to 32,767"),
        ({"answer": 40_000}, "codes are 1 to 32,767"),
        ({"answer": "9" * 26}, "codes are 1 to 32,767"),
        ({"answer": "9" * 6_000}, "codes are 1 to 32,767"),
        ({"answer": "RPC_TIME_OUT"}, "codes are 1 to 32,767"),
        ({"topic": {"a": 1}, "drop": True}, "topic={'a': 1}: it must be text"),
        ({"group": ["g"], "drop": True}, "it must be text"),
        ({"client": True, "drop": True}, "it must be text"),
        ({"code": ["SEND_MESSAGE"], "drop": True}, "it must be text or a number"),
        ({"language": {"a": 1}, "drop": True}, "it must be text or a number"),
        ({"answer": {"a": 1}}, "it must be text or a number"),
        ({"answer": "SYSTEM_BUSY", "remark": [1]}, "it must be text"),
        ({"partition": {"a/b": 1}}, "it must be text"),
        ({"broker": [{"a": 1}], "drop": True}, "write names"),
    ],
)
def test_words_without_a_meaning_are_refused_with_the_reason(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_fault(given)


@pytest.mark.parametrize(
    "fields",
    [{"action": "explode"}, {"action": "delay", "delay_ms": -1}, {"action": "drop", "probability": float("nan")},
     {"action": "delay", "delay_ms": 1 << 60}, {"action": "skew", "skew_ms": -(1 << 63)},
     {"action": "drop", "language": 99}, {"action": "answer with"}, {"action": "answer with", "answer_code": 40_000},
     {"action": "drop", "address": "localhost"}, {"action": "drop", "until_ms": 0}, {"action": "drop", "until_ms": -2},
     {"action": "drop", "codes": [34], "queue_id": 3}, {"action": "drop", "codes": [10], "direction": "server"},
     {"action": "corrupt", "direction": "request"}, {"action": "bandwidth", "direction": "answer"}],
)  # fmt: skip
def test_rules_made_by_others_are_checked_too(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        checked(FaultRule(**fields))


def test_a_number_below_zero_is_reported_as_it_was_written() -> None:
    with pytest.raises(UsageError, match="until=-5: it must not be negative"):
        checked(FaultRule(action="drop", until_ms=-5))
