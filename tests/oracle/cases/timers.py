"""Messages with a time of their own, and their recall: 10, 370."""

import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import replace

from tests.oracle.cases.common import BORN, send, topic
from tests.oracle.cases.pulls import pull
from tests.oracle.step import Ask, Pause, Step, Value, with_each, without_each

TOPIC = f"timed-{int(time.time())}"
"""Without `{run}`: its name stands in the handles, which are made here."""
RECALL = 370
QUEUES = 8
ATTEMPT_MS = 5_000
HANDLE_TIMES = ("recallHandle", "queueOffset")
# What depends on the moment, and on what else waits.


def steps() -> Iterator[Step]:
    """The steps of this family."""
    yield topic(TOPIC, QUEUES)
    yield from _sends()
    yield from _recalls()
    yield Pause(ATTEMPT_MS)
    for queue_id in range(QUEUES):
        yield pull(f"stored in timed queue {queue_id}", topic=TOPIC, queueId=str(queue_id))
    yield recall("recall what was delivered", "{kept}")


def timed(name: str, queue_id: int, *properties: tuple[str, object], unique_id: str = "") -> Ask:
    texts = {"UNIQ_KEY": unique_id or f"timed-{name}".replace(" ", "-"), **dict(properties)}
    written = "".join(f"{key}\x01{value}\x02" for key, value in texts.items())
    sent = send(f"send {name}", name.encode(), topic=TOPIC, queueId=str(queue_id), properties=written)
    return replace(sent, apart=HANDLE_TIMES)


def _sends() -> Iterator[Step]:
    now_ms = int(time.time() * 1000)
    yield timed("in two seconds", 0, ("TIMER_DELAY_SEC", 2), ("TAGS", "a"), ("KEYS", "k1 k2"))
    yield replace(timed("in 1500 ms", 1, ("TIMER_DELAY_MS", 1_500)), keep={"kept": "recallHandle"})
    yield timed("at a moment that has passed", 2, ("TIMER_DELIVER_MS", now_ms - 1_000))
    yield timed("seconds count before ms", 3, ("TIMER_DELAY_MS", 86_400_000), ("TIMER_DELAY_SEC", 1))
    yield timed("ms count before a moment", 4, ("TIMER_DELIVER_MS", "x"), ("TIMER_DELAY_MS", 1_000))
    yield timed("a level of 0 beside ms", 5, ("DELAY", 0), ("TIMER_DELAY_MS", 1_000))
    yield timed("what says that it has waited", 6, ("TIMER_OUT_MS", 1), ("TIMER_DELAY_MS", 60_000))
    for name, value in (
        ("TIMER_DELAY_SEC", "x"), ("TIMER_DELAY_SEC", "1.5"), ("TIMER_DELAY_SEC", "259201"), ("TIMER_DELAY_SEC", "-1"),
        ("TIMER_DELAY_MS", "259200001"), ("TIMER_DELAY_MS", " 5"),
        ("TIMER_DELAY_MS", "0x5"), ("TIMER_DELAY_MS", "9223372036854775808"), ("TIMER_DELIVER_MS", "1e3"),
        ("TIMER_DELIVER_MS", now_ms + 400_000_000), ("TIMER_DELIVER_MS", "-5"), ("TIMER_DELAY_MS", "0"),
    ):  # fmt: skip
        yield timed(f"with {name}={value}", 6, (name, value))
    overflow = timed("with a time beyond a long", 0, ("TIMER_DELAY_SEC", "9223372036854775807"))
    yield replace(overflow, fields={**(overflow.fields or {}), "topic": "{run}timed"})
    mark = "TIMER_DEL_UNIQKEY", f"{TOPIC}+x"
    yield timed("a mark of a recall whose time has passed", 6, mark, ("TIMER_DELIVER_MS", 1))
    yield timed("a mark of a recall without a time", 6, mark)
    retry = timed("for a retry topic", 0, ("TIMER_DELAY_SEC", 1))
    yield replace(retry, fields={**(retry.fields or {}), "topic": "%RETRY%timed-nobody"})


def recall(name: str, handle: Value, **changes: Value) -> Ask:
    return Ask(name, RECALL, {"producerGroup": "producers", "topic": TOPIC, "recallHandle": handle, **changes})


def handle_of(*parts: object) -> str:
    return urlsafe_b64encode(" ".join(map(str, parts)).encode()).decode()


def _recalls() -> Iterator[Step]:
    soon_ms = (int(time.time()) + 3_600) * 1000 + 1
    good = handle_of("v1", TOPIC, "broker-a", soon_ms, "nobody")
    regretted = timed("what will be regretted", 7, ("TIMER_DELAY_MS", 3_000))
    yield replace(regretted, keep={"regretted": "recallHandle"})
    base = recall("recall it", "{regretted}")
    yield base
    yield replace(base, name="recall it again")
    yield from without_each(replace(base, name="recall"))
    yield from with_each(replace(base, name="recall"), ["", "a+/=", "x" * 9, "djE=", None, 5], ["recallHandle"])
    yield from with_each(replace(base, name="recall"), ["nope-{run}", "", "TBW102", None], ["topic"])
    for name, parts in (
        ("of another version", ("v2", TOPIC, "broker-a", soon_ms, "u")),
        ("of four parts", ("v1", TOPIC, "broker-a", soon_ms)),
        ("of six parts", ("v1", TOPIC, "broker-a", soon_ms, "u", "w")),
        ("of another topic", ("v1", "others", "broker-a", soon_ms, "u")),
        ("of another broker", ("v1", TOPIC, "broker-z", soon_ms, "u")),
        ("without a number", ("v1", TOPIC, "broker-a", "soon", "u")),
        ("of a time that has passed", ("v1", TOPIC, "broker-a", BORN, "u")),
        ("of a time too far away", ("v1", TOPIC, "broker-a", soon_ms + 300_000_000, "u")),
        ("of nobody", ("v1", TOPIC, "broker-a", soon_ms, "nobody")),
    ):
        yield recall(f"recall by a handle {name}", handle_of(*parts))
    yield recall("recall without padding", good.rstrip("="))
    yield recall("recall for no group", good, producerGroup=None)
