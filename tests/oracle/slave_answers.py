"""`python -m tests.oracle.slave_answers MASTER SLAVE`: the same requests to a slave of a real RocketMQ and to ours.

Both pairs have slaveReadEnable=true and accessMessageInMemoryMaxRatio=0. The messages are sent to the master; then the
slave is asked. Compared are code, remark, and the fields of pulls. `SLAVE=1 BROKER_CONF=FILE tools/oracle.sh start`
starts the real pair; FILE has these two settings.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from staticfire.cluster.cluster import Cluster
from tests.oracle.exchange import Line, Reply

TOPIC, EMPTY, GROUP = "slave-answers", "slave-answers-empty", "slave-readers"
SEND, PULL, SEND_BACK, END_TRANSACTION, CREATE, MAX_OFFSET, MIN_OFFSET = 10, 11, 36, 37, 17, 30, 31
QUERY_OFFSET, COMMIT, LOCK, RESET, HA_STATUS, LITE_PULL = 14, 15, 41, 222, 907, 361
SUSPEND, SUBSCRIPTION = 2, 4
# A slave of RocketMQ copies the topics once a minute.
READY_S = 150
PULLED = ("nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId")


class Asked(NamedTuple):
    name: str
    code: int
    fields: Mapping[str, str]
    body: bytes = b""
    compared: tuple[str, ...] = ()
    at_master: bool = False


def pull(name: str, offset: int, topic: str = TOPIC, code: int = PULL, flags: int = SUBSCRIPTION, **more: Any) -> Asked:
    fields = {
        "consumerGroup": GROUP, "topic": topic, "queueId": "0", "queueOffset": str(offset), "maxMsgNums": "32",
        "sysFlag": str(flags), "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
        "expressionType": "TAG",
    }  # fmt: skip
    return Asked(name, code, fields, compared=PULLED, **more)


def send(topic: str, body: bytes, properties: str = "") -> Asked:
    fields = {
        "producerGroup": "p", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0",
        "sysFlag": "0", "bornTimestamp": "0", "flag": "0", "properties": properties, "reconsumeTimes": "0",
        "unitMode": "false", "batch": "false",
    }  # fmt: skip
    return Asked("send", SEND, fields, body)


def create(topic: str) -> Asked:
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    }  # fmt: skip
    return Asked("create", CREATE, fields)


def cases() -> Iterator[Asked]:
    """Yield the requests that are compared: spec/replication.md, sections 2.1 to 2.3."""
    queue = {"topic": TOPIC, "queueId": "0"}
    yield send(TOPIC, b"no")._replace(name="a send")
    yield send("slave-answers-unknown", b"no")._replace(name="a send to a new topic")
    yield Asked("a returned message", SEND_BACK, {"offset": "0", "group": GROUP, "delayLevel": "0"})
    ended = {"producerGroup": "p", "tranStateTableOffset": "0", "commitLogOffset": "0", "commitOrRollback": "8"}
    yield Asked("the end of a transaction", END_TRANSACTION, ended)
    reset = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
    yield Asked("a reset of offsets", RESET, reset)
    yield Asked("the end of a queue", MAX_OFFSET, queue, compared=("offset",))
    yield Asked("the start of a queue", MIN_OFFSET, queue, compared=("offset",))
    yield pull("a pull", 0)
    yield pull("a lite pull", 0, code=LITE_PULL)
    yield pull("a pull at the end", 3)
    yield pull("a pull after the end", 9)
    yield pull("a pull before the start", -1)
    yield pull("a pull of an empty queue", 0, EMPTY)
    yield pull("a pull after the end of an empty queue", 5, EMPTY)
    yield pull("a pull of an unknown topic", 0, "slave-answers-unknown")
    yield pull("a pull without a subscription", 0, flags=0)
    yield pull("a pull at the master", 0, at_master=True)
    yield pull("a pull after the end at the master", 9, at_master=True)
    place = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
    yield Asked("a commit", COMMIT, {**place, "commitOffset": "2"})
    yield Asked("a committed offset", QUERY_OFFSET, place, compared=("offset",))
    lock = b'{"clientId":"c","consumerGroup":"%s","mqSet":[{"topic":"%s","brokerName":"broker-a","queueId":0}]}'
    yield Asked("a lock", LOCK, {}, lock % (GROUP.encode(), TOPIC.encode()), compared=("body",))


class Pair:
    """A master and a slave, with a topic of three messages and an empty one."""

    def __init__(self, master: str, slave: str) -> None:
        self._master, self._slave = Line(master), Line(slave)

    def ask(self, asked: Asked) -> Reply:
        line = self._master if asked.at_master else self._slave
        return line.answer(line.send(asked.code, asked.fields, asked.body, {}))

    def prepare(self) -> None:
        """Fill the topics, and wait until the slave has both messages and topics."""
        for topic in (TOPIC, EMPTY):
            self.ask(create(topic)._replace(at_master=True))
        if not int((self.ask(next(self._ends())).fields or {}).get("offset", 0)):
            for number in range(3):
                assert self.ask(send(TOPIC, b"%d" % number)._replace(at_master=True)).code == 0
        deadline_s = time.monotonic() + READY_S
        while self.ask(pull("ready", 0)).code != 0 or self.ask(pull("ready", 0, EMPTY)).code == 17:
            assert time.monotonic() < deadline_s, "the slave doesn't have the topics"
            time.sleep(0.2)  # house: a real RocketMQ lives in wall time

    def _ends(self) -> Iterator[Asked]:
        yield Asked("end", MAX_OFFSET, {"topic": TOPIC, "queueId": "0"}, at_master=True)

    def seen(self, asked: Asked) -> dict[str, Any]:
        reply = self.ask(asked)
        fields = {name: (reply.fields or {}).get(name) for name in asked.compared if name != "body"}
        body = {"body": reply.body} if "body" in asked.compared else {}
        return {"code": reply.code, "remark": reply.remark or "", **fields, **body}


def main() -> int:
    settings = {"slaveReadEnable": "true", "accessMessageInMemoryMaxRatio": "0"}
    with Cluster(replicas=1, settings=settings) as cluster:
        theirs, ours = (
            Pair(*sys.argv[1:3]),
            Pair(cluster.addresses["broker-a"], cluster.replica_addresses["broker-a-1"]),
        )
        ours.prepare()
        theirs.prepare()
        different = 0
        asked_all = list(cases())
        for asked in asked_all:
            one, other = theirs.seen(asked), ours.seen(asked)
            if one != other:
                different += 1
                print(f"{asked.name}:\n  theirs: {one}\n  ours:   {other}")
    print(f"{len(asked_all)} requests, {different} differences")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
