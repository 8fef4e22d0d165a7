"""Spoilt frames, sent to a nameserver and a broker that run as processes."""

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from staticfire.cluster.cluster import Cluster
from staticfire.launch.plan import NAMESERVER
from staticfire.protocol.codes import OWN_CODES, RequestCode
from staticfire.protocol.command import REQUESTS
from tests.fuzz.corpus import CODECS, Corpus
from tests.fuzz.mutations import Mutator
from tests.integration.fuzzing import OPEN, Bystander, answers, ask, attack, own_mib, places_of
from tests.integration.stand import read_queue

PER_CONNECTION = 4
BETWEEN = 10
# So many spoilt connections between two requests of the clients that were there first.
GROWTH_MIB_MAX = 32
QUEUES = 4
QUIET = "quiet"
"""The topic of the bystander: nobody else sends there."""
SEND = {"producerGroup": "p", "topic": QUIET, "defaultTopic": "TBW102", "defaultTopicQueueNums": 1, "queueId": 0}
SEND |= {"sysFlag": 0, "bornTimestamp": 0, "flag": 0}
SPARED = [code for code in REQUESTS if code in OWN_CODES and code != RequestCode.SEND_MANY]
# They move the clock and forget everything, which is no fault when it happens.
UNFORESEEN = re.compile(rb".*event=handler_failed.*|.*Traceback.*|.*Error:.*")


@contextmanager
def listening() -> Iterator[list[bytes]]:
    """Catch what this process and those that it starts write to standard error; the list has the lines at the end."""
    lines: list[bytes] = []
    sys.stderr.flush()
    before = os.dup(2)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(before, 2)
            os.close(before)
            caught.seek(0)
            lines += caught.read().splitlines()


def stored(cluster: Cluster) -> dict[str, int]:
    """Read whatever is stored, as a foreign client: all of it has to be whole. Return the messages by topic."""
    [address] = cluster.addresses.values()
    code, body = ask(address, RequestCode.GET_ALL_TOPIC_CONFIG, {})
    assert code == 0
    topics = json.loads(body)["topicConfigTable"]
    return {topic: sum(len(read_queue(address, topic, queue_id)) for queue_id in range(QUEUES)) for topic in topics}


def send_spoilt(cluster: Cluster, count: int, seed: int) -> tuple[int, dict[str, float]]:
    """Send spoilt frames; return how many answers came, and by how many MiB each process grew."""
    places = places_of(cluster)
    mutator = Mutator(seed)
    # The codecs' frames, but for requests that are spared.
    frames = [frame for codec in CODECS.values() for frame, answered in Corpus(codec, seed, SPARED).frames]
    bystanders = {
        NAMESERVER: Bystander(places[NAMESERVER]["address"], RequestCode.GET_BROKER_CLUSTER_INFO, {}),
        "broker-a": Bystander(places["broker-a"]["address"], RequestCode.SEND_MESSAGE, SEND, b"a body"),
    }
    heard, warm = 0, {}
    rounds = max(count // PER_CONNECTION // len(places), 3 * BETWEEN)
    for number in range(rounds):
        for name, place in places.items():
            chosen = mutator.random.choices(frames, k=PER_CONNECTION)
            data = b"".join([mutator.spoil_frame(one, mutator.random.choice(frames)) for one in chosen])
            heard += sum(1 for _ in answers(attack(place["address"], data)))
            if number % BETWEEN == 0:
                assert bystanders[name].ask() == 0
        if number == rounds // 3:
            warm = {name: own_mib(place["pid"]) for name, place in places.items()}
    for bystander in bystanders.values():
        bystander.close()
    assert stored(cluster)[QUIET] == -(-rounds // BETWEEN)
    return heard, {name: own_mib(place["pid"]) - warm[name] for name, place in places.items()}


def attack_cluster(count: int, seed: int) -> bool:
    """Send so many spoilt frames, and say what came of it; return whether nothing fell over, was lost, or grew."""
    begin_s = time.monotonic()
    with listening() as lines, Cluster(isolation="process", settings=OPEN) as cluster:
        heard, growth = send_spoilt(cluster, count, seed)
        before = stored(cluster)
        cluster.broker("broker-a").restart()
        after = stored(cluster)
        # More than before is no fault: what was delayed has fallen due.
        is_whole = all(after.get(topic, 0) >= count for topic, count in before.items())
        deaths = cluster.deaths
    unforeseen = [line.decode() for line in lines if UNFORESEEN.match(line)]
    grown = ", ".join(f"{name} by {mib:.1f}" for name, mib in growth.items())
    print(
        f"fuzz: cluster: {count} frames in {time.monotonic() - begin_s:.0f} s, {heard} answers, {sum(before.values())} "
        f"messages stored, {'all' if is_whole else 'NOT ALL'} there after a restart; grew by MiB: {grown}",
        flush=True,
    )
    for line in unforeseen[:10]:
        print(f"        {line}")
    return is_whole and not deaths and not unforeseen and max(growth.values()) < GROWTH_MIB_MAX
