"""Offsets: 14, 15, 29, 30, 31, 32."""

from collections.abc import Iterator
from dataclasses import replace

from tests.oracle.step import Ask, Step, Value, with_each, without_each

TOPIC = "{run}pulled"
QUEUE: dict[str, Value] = {"topic": TOPIC, "queueId": "0"}
GROUP: dict[str, Value] = {"consumerGroup": "{run}committers", **QUEUE}
CODES = {"max": 30, "min": 31, "earliest": 32, "search": 29}


def steps() -> Iterator[Step]:
    """The steps of this family."""
    for name, code in CODES.items():
        fields = {**QUEUE, "timestamp": "0"} if name == "search" else QUEUE
        base = Ask(name, code, fields)
        yield base
        yield from without_each(base)
        yield from with_each(base, ["1", "2", "99", "-1", "x", "", None], ["queueId"])
        yield from with_each(base, ["{run}unknown", ""], ["topic"])
        yield Ask(f"{name} without fields", code, None)
    yield Ask("max, not committed", 30, {**QUEUE, "committed": "false"})
    for boundary in ("LOWER", "UPPER", "lower", "upper", "nope", ""):
        for timestamp in ("0", "9999999999999", "-1"):
            fields = {**QUEUE, "timestamp": timestamp, "boundaryType": boundary}
            yield Ask(f"search {boundary!r} {timestamp}", 29, fields)
            yield Ask(f"search {boundary!r} {timestamp} in an empty queue", 29, {**fields, "queueId": "1"})
    yield Ask("search at no time", 29, {**QUEUE, "timestamp": "x"})
    yield from _committed()


def _committed() -> Iterator[Step]:
    query = Ask("query of a new group", 14, GROUP)
    commit = Ask("commit of an unknown group", 15, {**GROUP, "commitOffset": "2"})
    yield query
    yield replace(query, name="query of a new group in an empty queue", fields={**GROUP, "queueId": "1"})
    for value in ("false", "true", "x"):
        yield Ask(f"query with setZero {value}", 14, {**GROUP, "setZeroIfNotFound": value})
        yield Ask(
            f"query of an empty queue with setZero {value}", 14, {**GROUP, "queueId": "1", "setZeroIfNotFound": value}
        )
    yield from without_each(query)
    yield from with_each(query, ["99", "-1", "x", "", None], ["queueId"])
    yield from with_each(query, ["{run}unknown", ""], ["topic", "consumerGroup"])
    yield commit
    yield Ask("make the group", 352, {"group": "{run}committers"})
    yield replace(commit, name="commit")
    yield replace(query, name="query what was committed")
    yield from without_each(replace(commit, name="commit it"))
    yield from with_each(replace(commit, name="commit it"), ["1", "0", "-1", "99", "x", "", None], ["commitOffset"])
    yield replace(query, name="query after odd commits")
    yield from with_each(replace(commit, name="commit it in"), ["99", "-1", "x", ""], ["queueId"])
    yield from with_each(replace(commit, name="commit it in"), ["{run}unknown", "", None], ["topic"])
    yield replace(query, name="query a queue that there isn't", fields={**GROUP, "queueId": "99"})
    yield replace(commit, name="commit a negative one", fields={**GROUP, "commitOffset": "-3"})
    yield replace(query, name="query a negative one")
    yield replace(commit, name="commit one-way", header={"flag": 2}, fields={**GROUP, "commitOffset": "5"})
    yield replace(query, name="query after a one-way commit")
