"""Which members of a set a nameserver notifies when the lowest id among them changes: made-up brokers, real ports."""

import json
import socket
import struct
from collections.abc import Iterator
from typing import Any

from tests.oracle.exchange import Line
from tests.oracle.replicas.pair import Pair

REGISTER, UPDATE_NAMESRV_CONFIG, LOWEST_ID_CHANGED = 103, 318, 905
QUIET_S = 1.5
VERSION = {"counter": 1, "stateVersion": 0, "timestamp": 1}
TOPICS = {"dataVersion": VERSION, "topicConfigTable": {}}
BODY = json.dumps({"topicConfigSerializeWrapper": TOPICS, "filterServerList": []}).encode()


class Member:
    """A made-up broker of a set of its own: one connection to the nameserver, and a port that keeps what it is sent."""

    def __init__(self, pair: Pair, broker_id: int) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.settimeout(QUIET_S)
        self.address = f"127.0.0.1:{self.listening.getsockname()[1]}"
        self._from: socket.socket | None = None
        self.line = Line(pair.nameserver_address)
        fields = {
            "brokerName": f"{pair.run}set", "brokerAddr": self.address, "clusterName": "DefaultCluster",
            "haServerAddr": f"127.0.0.1:{broker_id + 1}", "brokerId": broker_id, "enableActingMaster": "true",
            "compressed": "false", "bodyCrc32": 0,
        }  # fmt: skip
        assert pair.ask(self.line, REGISTER, fields, BODY).code == 0

    def notices(self) -> list[dict[str, Any]]:
        """Return what the nameserver sent, in order, until it is quiet."""
        found: list[dict[str, Any]] = []
        try:
            if self._from is None:
                self._from, _ = self.listening.accept()
                self._from.settimeout(QUIET_S)
            while True:
                size, word = struct.unpack(">II", self._from.recv(8, socket.MSG_WAITALL))
                rest = self._from.recv(size - 4, socket.MSG_WAITALL)
                header = json.loads(rest[: word & 0xFFFFFF])
                found.append({"code": header["code"], "flag": header["flag"], **(header.get("extFields") or {})})
        except (TimeoutError, struct.error):
            return found

    def die(self) -> None:
        self.line.socket.close()
        self.listening.close()
        if self._from is not None:
            self._from.close()


def notices(pair: Pair) -> Iterator[tuple[str, Any]]:
    """The master of three dies, and returns; then the slave with the lowest id dies."""
    changed = b"notifyMinBrokerIdChanged=true"
    assert pair.ask(pair.nameserver, UPDATE_NAMESRV_CONFIG, {}, changed).code == 0
    master, first, second = (Member(pair, broker_id) for broker_id in (0, 1, 2))
    names = {master.address: "MASTER", first.address: "FIRST", second.address: "SECOND"}

    def reported(member: Member) -> list[str]:
        text = [str(sorted(each.items())) for each in member.notices()]
        for address, name in names.items():
            text = [each.replace(address, name) for each in text]
        return text

    master.die()
    yield "master dies: the first slave is notified", reported(first)
    yield "master dies: the second one, too", reported(second)
    back = Member(pair, 0)
    names[back.address] = "MASTER"
    yield "master returns: the first slave is notified", reported(first)
    yield "master returns: it isn't", reported(back)
    second.die()
    yield "a slave dies: the others aren't notified", [*reported(first), *reported(back)]
    for each in (first, back):
        each.die()
