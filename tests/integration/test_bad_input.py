"""Peers that send anything but what they should, to a nameserver and a broker that run as processes."""

import json
import re
import struct

import pytest

from staticfire.cluster.cluster import Cluster
from staticfire.launch.plan import NAMESERVER
from staticfire.protocol.codes import RequestCode
from tests.cli.commands import without_second_port
from tests.integration.fuzzing import OPEN, Bystander, FrameMaker, answers, ask, attack, own_mib, places_of
from tests.integration.stand import read_queue

CONNECTIONS = 600
SEED = 2013
BETWEEN = 20
# So many spoilt connections between two requests of the clients that were there first.
GROWTH_MIB_MAX = 12

SEND = {"producerGroup": "p", "topic": "quiet", "defaultTopic": "TBW102", "defaultTopicQueueNums": 1, "queueId": 0}
SEND |= {"sysFlag": 0, "bornTimestamp": 0, "flag": 0}
HEADER = b'{"code":30,"opaque":5,"extFields":{"topic":"t","queueId":"0"}}'
GARBAGE = {
    "zeros": (b"\x00" * 64, "a frame of 0 bytes"),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "these bytes are HTTP:"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "these bytes are HTTP/2"),
    "SSH": (b"SSH-2.0-OpenSSH_9.2\r\n", "these bytes are not a frame"),
    "another codec": (struct.pack(">II", 4 + len(HEADER), 9 << 24 | len(HEADER)) + HEADER, "codec 9 is unknown"),
    "half a header": (struct.pack(">II", 4 + 20, 20) + HEADER[:20], "JSON at character 20"),
}


def test_garbage_closes_its_connection_with_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with Cluster(isolation="process", settings=OPEN) as cluster:
        capfd.readouterr()
        addresses = [place["address"] for place in places_of(cluster).values()]
        for data, _ in GARBAGE.values():
            for address in addresses:
                assert attack(address, data) == b""
    # A client that an earlier test has left in this process may miss its cluster just now.
    lines = [line for line in without_second_port(capfd.readouterr().err) if "component=client" not in line]
    assert len(lines) == len(GARBAGE) * len(addresses), lines
    for name, (_, reason) in GARBAGE.items():
        said = [line for line in lines if "event=connection_rejected" in line and reason in line]
        assert len(said) == len(addresses), name


@pytest.mark.slow
def test_thousands_of_odd_frames_harm_no_other_client(capfd: pytest.CaptureFixture[str]) -> None:
    maker = FrameMaker(SEED)
    with Cluster(isolation="process", settings=OPEN) as cluster:
        places = places_of(cluster)
        bystanders = {
            NAMESERVER: Bystander(places[NAMESERVER]["address"], RequestCode.GET_BROKER_CLUSTER_INFO, {}),
            "broker-a": Bystander(places["broker-a"]["address"], RequestCode.SEND_MESSAGE, SEND, b"a body"),
        }
        for number in range(CONNECTIONS):
            for name, place in places.items():
                assert all(-(2**31) <= code < 2**31 for code in answers(attack(place["address"], maker.frames(name))))
                if number % BETWEEN == 0:
                    assert bystanders[name].ask() == 0
            if number == CONNECTIONS // 3:
                before = {name: own_mib(place["pid"]) for name, place in places.items()}
        for name, place in places.items():
            assert own_mib(place["pid"]) < before[name] + GROWTH_MIB_MAX
            bystanders[name].close()

        for _ in range(2):
            assert read_topics(cluster)["quiet"] == CONNECTIONS // BETWEEN
            cluster.broker("broker-a").restart()
        assert cluster.deaths == []
    log = capfd.readouterr().err
    # An exception that nobody foresaw is an error line; bad input is none.
    assert not re.findall(r"event=handler_failed.*|Traceback.*", log)


def read_topics(cluster: Cluster) -> dict[str, int]:
    """Read whatever is stored, as a foreign client: all of it has to be whole. Return the messages by topic."""
    [address] = cluster.addresses.values()
    counts = {}
    for topic in json.loads(ask(cluster.namesrv, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {})[1])["topicList"]:
        counts[topic] = sum(len(read_queue(address, topic, queue_id)) for queue_id in range(4))
    return counts
