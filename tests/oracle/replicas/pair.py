"""A master and its slave, of a real RocketMQ or of ours, and the requests to them."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.oracle.exchange import Line, Reply, read_json

CLUSTER_INFO, MEMBERS, ROUTE, UPDATE_TOPIC, UPDATE_GROUP, UPDATE_CONFIG = 106, 901, 105, 17, 200, 25
HA_STATUS = 907
SEND, PULL, LITE_PULL, POP, QUERY_OFFSET, COMMIT = 10, 11, 361, 200_050, 14, 15
SUSPEND, SUBSCRIPTION, COMMIT_BIT = 2, 4, 1
UNKNOWN_TOPIC = 17
MESSAGES = 5
KEY = "key-of-3"
SYNCED_S = 90
"""A real slave copies topics and groups once a minute."""


Act = Callable[[], None]
Properties = Mapping[str, str | int]
NONE: Properties = {}
OF_BOTH = {"consumerGroup": "TOOLS_CONSUMER", "topic": "TBW102"}
PLACES: tuple[Mapping[str, object], ...] = (
    {**OF_BOTH, "queueId": 0}, {**OF_BOTH, "queueId": 1}, {**OF_BOTH, "topic": "SELF_TEST_TOPIC", "queueId": 0},
)  # fmt: skip
"""Each broker has this group and these topics from its start. The master gets an offset at the first one only."""


class Pair:
    """One connection to each, and to their nameserver. Names of topics and groups begin with `run`."""

    def __init__(
        self,
        nameserver: str,
        run: str,
        freeze: Callable[[], None] | None = None,
        thaw: Callable[[], None] | None = None,
        kill: Callable[[], None] | None = None,
        flush_late: Callable[["Pair", bool], None] | None = None,
    ) -> None:
        """`freeze`, `thaw`: stop the slave's process, and let it go on. `kill` ends it.

        `flush_late`: lets the master say of one send that it isn't on its disk; with False, no more.
        """
        self.nameserver_address, self.run = nameserver, run
        self.nameserver = Line(nameserver)
        replicated: list[tuple[str, Any]] = []
        while not replicated:  # A slave of RocketMQ registers ten seconds after its start.
            table = read_json(self.ask(self.nameserver, CLUSTER_INFO, {}).body)["brokerAddrTable"]
            replicated = [(name, one) for name, one in table.items() if len(one["brokerAddrs"]) > 1]
            time.sleep(0.1)  # house: a nameserver notifies nobody of a new broker
        self.name, broker = replicated[0]
        self.addresses: dict[int, str] = broker["brokerAddrs"]
        self.master, self.slave = (Line(self.addresses[broker_id]) for broker_id in (0, 1))
        self.topic, self.empty, self.group = f"{run}orders", f"{run}empty", f"{run}billing"
        self.names = {nameserver: "NAMESERVER", self.addresses[0]: "MASTER", self.addresses[1]: "SLAVE"}
        self.freeze, self.thaw, self.kill, self.flush_late = freeze, thaw, kill, flush_late
        self.is_synced = False

    def ask(self, line: Line, code: int, fields: Mapping[str, Any], body: bytes = b"") -> Reply:
        return line.answer(line.send(code, {name: str(value) for name, value in fields.items()}, body, {}))

    def reported(self, text: str) -> str:
        """Return a text without what differs between the pairs."""
        for address, name in self.names.items():
            text = text.replace(address, name)
        return text

    # -- before the slave's first copy of topics and offsets -----------------------------------------------------

    def prepare(self) -> None:
        """Create topics and a group, send messages, and commit offsets that the slave will replace, or keep."""
        for topic in (self.topic, self.empty):
            assert self.create(self.master, topic).code == 0
        self.put_group(1)
        for number in range(MESSAGES):
            assert self.send(self.master, number, properties={"KEYS": f"key-of-{number}", "WAIT": "false"}).code == 0
        for place in PLACES:
            assert self.commit(self.slave, place, 4).code == 0
        assert self.commit(self.master, PLACES[0], 2).code == 0

    def until_synced(self) -> None:
        """Wait until the slave has the topics."""
        deadline_s = time.monotonic() + SYNCED_S
        while self.pull(self.slave, 0, topic=self.empty).code == UNKNOWN_TOPIC:
            assert time.monotonic() < deadline_s, "the slave doesn't have the topics"
            time.sleep(0.2)  # house: a real RocketMQ lives in wall time
        time.sleep(2)  # house: the offsets come after the topics
        self.is_synced = True

    def until_together(self) -> None:
        """Wait until the nameserver and the master know that the slave is alive: a busy machine delays heartbeats."""
        deadline_s = time.monotonic() + SYNCED_S
        while len(self._members()) != 2 or not self._copying():
            assert time.monotonic() < deadline_s, "the slave isn't registered, or doesn't copy"
            time.sleep(0.1)  # house: a real RocketMQ lives in wall time
        time.sleep(2)  # house: a real master queries its nameserver once a second

    def until_alone(self) -> None:
        """Wait until the nameserver and the master have noticed that the slave is dead."""
        deadline_s = time.monotonic() + SYNCED_S
        while True:
            if not self._copying() and len(self._members()) == 1:
                return
            assert time.monotonic() < deadline_s, "the slave's death isn't noticed"
            time.sleep(0.1)  # house: a real RocketMQ lives in wall time

    def _copying(self) -> list[Any]:
        """Return what the master knows of the slaves that are connected to it."""
        return list(read_json(self.ask(self.master, HA_STATUS, {}).body)["haConnectionInfo"])

    def _members(self) -> dict[str, str]:
        group = {"clusterName": "DefaultCluster", "brokerName": self.name}
        members = read_json(self.ask(self.nameserver, MEMBERS, group).body)["brokerMemberGroup"]["brokerAddrs"]
        return dict(members)

    # -- requests ------------------------------------------------------------------------------------------------

    def create(self, line: Line, topic: str) -> Reply:
        fields = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
        }  # fmt: skip
        return self.ask(line, UPDATE_TOPIC, fields)

    def put_group(self, slowly: int) -> None:
        body = (
            f'{{"groupName":"{self.group}","consumeEnable":true,"consumeFromMinEnable":true,"retryQueueNums":1,'
            f'"consumeBroadcastEnable":true,"retryMaxTimes":16,"brokerId":0,"whichBrokerWhenConsumeSlowly":{slowly},'
            '"notifyConsumerIdsChangedEnable":true}'
        )
        assert self.ask(self.master, UPDATE_GROUP, {}, body.encode()).code == 0

    def send(self, line: Line, number: int, topic: str = "", flags: int = 0, properties: Properties = NONE) -> Reply:
        text = "\2".join(f"{name}\1{value}" for name, value in properties.items())
        fields = {
            "producerGroup": "shop", "topic": topic or self.topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4,
            "queueId": 0, "sysFlag": flags, "bornTimestamp": 1, "flag": 0, "properties": text, "reconsumeTimes": 0,
            "unitMode": "false", "batch": "false",
        }  # fmt: skip
        return self.ask(line, SEND, fields, b"%d" % number)

    def pull(
        self, line: Line, offset: int, flags: int = SUBSCRIPTION, wanted: str = "*", topic: str = "", code: int = PULL
    ) -> Reply:
        fields = {
            "consumerGroup": self.group, "topic": topic or self.topic, "queueId": 0, "queueOffset": offset,
            "maxMsgNums": 32, "sysFlag": flags, "commitOffset": 3, "suspendTimeoutMillis": 1_000,
            "subscription": wanted, "subVersion": 0, "expressionType": "TAG",
        }  # fmt: skip
        reply = self.ask(line, code, fields)
        if reply.code == UNKNOWN_TOPIC and self.is_synced and fields["topic"] in (self.topic, self.empty):
            time.sleep(1)  # house: a real slave that copies its topics again has none for a moment
            reply = self.ask(line, code, fields)
        return reply

    def pop(self, line: Line) -> Reply:
        fields = {
            "consumerGroup": f"{self.group}-pops", "topic": self.topic, "queueId": 0, "maxMsgNums": 1,
            "invisibleTime": 10_000, "pollTime": 0, "bornTime": int(time.time() * 1_000), "initMode": 0,
            "expType": "TAG", "exp": "*", "order": "false",
        }  # fmt: skip
        reply = self.ask(line, POP, fields)
        return Reply(reply.code, reply.remark)  # Its fields have times and places.

    def commit(self, line: Line, place: Mapping[str, object], offset: int) -> Reply:
        return self.ask(line, COMMIT, {**place, "commitOffset": offset})

    def configure(self, line: Line, **settings: object) -> None:
        body = "\n".join(f"{name}={value}" for name, value in settings.items())
        reply = self.ask(line, UPDATE_CONFIG, {}, body.encode())
        assert reply.code == 0, (settings, reply.remark)
