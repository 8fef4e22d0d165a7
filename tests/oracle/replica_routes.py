"""`python -m tests.oracle.replica_routes NAMESRV`: routes of a broker with slaves, at a real nameserver and at ours.

Fake brokers register, leave and come back; after each step the same questions go to both nameservers, and the brokers
note what they are notified of. The only thing left out is RocketMQ's remark of a success that has no code.
"""

import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from staticfire.cluster.cluster import Cluster
from tests.oracle.exchange import Line, read_json

CLUSTER, NAME, TOPIC = "Replicated", "set-a", "replicated-orders"
IDS = (0, 1, 2)
# RocketMQ removes brokers in the background, and notifies in another thread.
SETTLE_S = 0.5
PATIENCE_S = 30
UPDATE_CONFIG, REGISTER, UNREGISTER, ROUTE, CLUSTER_INFO, MEMBERS = 318, 103, 104, 105, 106, 901
Seen = dict[str, Any]


class FakeBroker:
    """A port that a nameserver can notify, and a connection that it registers on."""

    def __init__(self) -> None:
        self.notices: list[dict[str, str]] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.line: Line | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._server.accept()
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        data = b""
        while more := connection.recv(65536):
            data += more
            while len(data) >= 8 and len(data) >= (end := 4 + struct.unpack_from(">I", data)[0]):
                header = json.loads(data[8 : 8 + (struct.unpack_from(">I", data, 4)[0] & 0xFFFFFF)])
                self.notices.append({"code": header["code"], **header.get("extFields", {})})
                data = data[end:]


class Played:
    """The script at one nameserver.

    `expected`: what another nameserver has shown. Each step waits up to `PATIENCE_S` until the same is to be seen.
    """

    def __init__(self, nameserver: str, brokers: list[FakeBroker], expected: dict[str, Seen] | None = None) -> None:
        self._nameserver = nameserver
        self._brokers = brokers
        self._expected = expected or {}
        self._asking = Line(nameserver)
        self._registered: Seen = {}
        """The answer to the last registration, if the last step was one."""
        self.seen: dict[str, Seen] = {}

    def play(self) -> dict[str, Seen]:
        for acting in (False, True):
            flags = f"supportActingMaster={str(acting).lower()}\nnotifyMinBrokerIdChanged=true"
            self._ask(UPDATE_CONFIG, {}, flags.encode())
            for step in self._steps(acting):
                name = f"{'acting' if acting else 'classic'}: {step}"
                self.seen[name] = self._settled(self._expected.get(name))
        self._ask(UPDATE_CONFIG, {}, b"supportActingMaster=false\nnotifyMinBrokerIdChanged=false")
        return self.seen

    def _steps(self, acting: bool) -> Iterator[str]:
        self._register(1, acting)
        yield "a slave without a master"
        self._register(0, acting)
        yield "the master arrives"
        self._register(1, acting)
        yield "the slave registers again"
        self._register(2, acting)
        yield "a second slave"
        self._close(0)
        yield "the master is lost"
        self._register(1, acting, version=2)
        yield "the slave registers, with a newer version"
        self._register(2, acting, version=3)
        yield "the other slave registers, with a newer version"
        self._register(0, acting, version=4)
        yield "the master is back"
        self._unregister(1)
        yield "a slave unregisters"
        self._unregister(0)
        yield "the master unregisters"
        self._register(0, acting, at=2)
        yield "the last slave becomes the master"
        self._register(0, acting, at=1, state=5)
        yield "another address takes the id"
        self._register(0, acting, at=2, state=1)
        yield "an older master comes back"
        for broker_id in IDS:
            self._close(broker_id)
        yield "all are lost"

    def _register(self, broker_id: int, acting: bool, version: int = 1, at: int | None = None, state: int = 0) -> None:
        broker = self._brokers[broker_id if at is None else at]
        if broker.line is None:
            broker.line = Line(self._nameserver)
        fields = {
            "brokerName": NAME, "brokerAddr": broker.address, "clusterName": CLUSTER, "brokerId": str(broker_id),
            "haServerAddr": f"ha-{broker.address}", "compressed": "false", "bodyCrc32": "0",
            "enableActingMaster": str(acting).lower(),
        }  # fmt: skip
        topics = {
            name: {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 0,
                   "topicFilterType": "SINGLE_TAG", "order": False, "attributes": {}}
            for name in (TOPIC, f"{TOPIC}-more")
        }  # fmt: skip
        data_version = {"counter": version, "stateVersion": state, "timestamp": 5}
        wrapper = {
            "dataVersion": data_version, "mappingDataVersion": data_version, "topicConfigTable": topics,
            "topicQueueMappingDetailMap": {}, "topicQueueMappingInfoMap": {},
        }  # fmt: skip
        body = json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}).encode()
        reply = broker.line.answer(broker.line.send(REGISTER, fields, body, {}))
        self._registered = {"code": reply.code, "fields": reply.fields}

    def _unregister(self, broker_id: int) -> None:
        broker = self._brokers[broker_id]
        assert broker.line is not None
        fields = {
            "brokerName": NAME, "brokerAddr": broker.address, "clusterName": CLUSTER, "brokerId": str(broker_id)
        }  # fmt: skip
        broker.line.answer(broker.line.send(UNREGISTER, fields, b"", {}))
        self._registered = {}

    def _close(self, broker_id: int) -> None:
        line = self._brokers[broker_id].line
        if line is not None:
            line.socket.shutdown(socket.SHUT_RDWR)
            line.socket.close()
            self._brokers[broker_id].line = None
        self._registered = {}

    def _ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> Any:
        return self._asking.answer(self._asking.send(code, fields, body, {}))

    def _settled(self, expected: Seen | None) -> Seen:
        """Return what is to be seen once it is as expected, or else after a while."""
        end_s = time.monotonic() + PATIENCE_S
        time.sleep(SETTLE_S)  # house: a real RocketMQ lives in wall time
        seen = self._look()
        while expected is not None and seen != expected and time.monotonic() < end_s:
            time.sleep(SETTLE_S)  # house: a real RocketMQ lives in wall time
            before, seen = seen, self._look()
            for address, notices in seen["notices"].items():
                seen["notices"][address] = before["notices"][address] + notices
        return seen

    def _look(self) -> Seen:
        """Return what clients, tools and the brokers see now."""
        route = self._ask(ROUTE, {"topic": TOPIC, "acceptStandardJsonOnly": "true"})
        info = read_json(self._ask(CLUSTER_INFO, {}).body)
        group = self._ask(MEMBERS, {"clusterName": CLUSTER, "brokerName": NAME})
        notices = {broker.address: broker.notices for broker in self._brokers}
        for broker in self._brokers:
            broker.notices = []
        return {
            "registered": self._registered,
            "route": [route.code, json.loads(route.body) if route.code == 0 else route.remark],
            "broker": info["brokerAddrTable"].get(NAME),
            "cluster": info["clusterAddrTable"].get(CLUSTER),
            "members": [group.code, read_json(group.body)],
            "notices": notices,
        }


def main() -> int:
    brokers = [FakeBroker() for _ in IDS]
    with Cluster() as cluster:
        ours = Played(cluster.namesrv, brokers).play()
    theirs = Played(sys.argv[1], brokers, expected=ours).play()
    differences = [
        f"{step}, {part}:\n  theirs: {value}\n  ours:   {ours[step][part]}"
        for step, seen in theirs.items()
        for part, value in seen.items()
        if ours[step][part] != value
    ]
    print("\n".join(differences))
    looks = sum(len(seen) for seen in theirs.values())
    noticed = sum(len(one) for seen in theirs.values() for one in seen["notices"].values())
    print(f"{len(theirs)} steps with {looks} looks and {noticed} notices, {len(differences)} differences")
    return 1 if differences or not noticed else 0


if __name__ == "__main__":
    sys.exit(main())
