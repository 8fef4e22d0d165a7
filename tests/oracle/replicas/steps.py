"""What is requested of a master and its slave, and what is compared of the responses: spec by spec."""

import time
from collections.abc import Iterator
from typing import Any

from tests.oracle.exchange import Line, Reply, read_json
from tests.oracle.normal import normal
from tests.oracle.replicas.notices import notices
from tests.oracle.replicas.pair import (
    CLUSTER_INFO,
    COMMIT,
    COMMIT_BIT,
    HA_STATUS,
    KEY,
    LITE_PULL,
    MEMBERS,
    MESSAGES,
    PLACES,
    QUERY_OFFSET,
    ROUTE,
    SUBSCRIPTION,
    SUSPEND,
    Pair,
)
from tests.oracle.replicas.stopwatch import Stopwatch

MAX_OFFSET, MIN_OFFSET, SEND_BACK, END, RESET, LOCK, UNLOCK, RECALL = 30, 31, 36, 37, 222, 41, 42, 370
BY_KEY, BY_ID, RUNTIME, EPOCHS = 12, 33, 28, 1007
RATIO, CHECK, READABLE = "accessMessageInMemoryMaxRatio", "offsetCheckInSlave", "slaveReadEnable"
HALF = 4
TIMEOUT_MS = 700
LATE_SENDS_MAX = 50
QUEUED_S = 20
PULLED = (0, 19, 20, 21)
OF_REGION = ("field MSG_REGION", "field TRACE_ON")
Step = tuple[str, Any]


def seen(reply: Reply) -> dict[str, Any]:
    """Return what is compared of a reply: the remark only of a refusal, without its link and its varying parts."""
    parts = {name: value for name, value in normal(reply).items() if name not in OF_REGION}
    remark = (reply.remark or "").split("\n")[0] if reply.code not in PULLED else ""
    return {**parts, "remark": remark.partition(",")[0]}


def plain(reply: Reply) -> dict[str, Any]:
    """The same without the body: records and what has addresses."""
    return {name: value for name, value in seen(reply).items() if name != "body"}


def routes(pair: Pair) -> Iterator[Step]:
    """The ids and addresses that clients and tools get."""
    route = read_json(pair.ask(pair.nameserver, ROUTE, {"topic": pair.topic}).body)
    yield "route", pair.reported(str(sorted(route["brokerDatas"][0]["brokerAddrs"].items())))
    yield "route: queues", [{**queue, "topicSysFlag": 0} for queue in route["queueDatas"]]
    group = pair.ask(pair.nameserver, MEMBERS, {"clusterName": "DefaultCluster", "brokerName": pair.name})
    yield "member group", pair.reported(str(sorted(read_json(group.body)["brokerMemberGroup"]["brokerAddrs"].items())))
    for name, line in (("master", pair.master), ("slave", pair.slave)):
        yield f"{name}: HA status", _ha(pair, line)
        yield f"{name}: is active", read_json(pair.ask(line, RUNTIME, {}).body)["table"]["brokerActive"]
        yield f"{name}: epochs", plain(pair.ask(line, EPOCHS, {}))


def _ha(pair: Pair, line: Line) -> dict[str, Any]:
    """Return the HA status, with numbers that depend on the form of the log as words."""
    status = read_json(pair.ask(line, HA_STATUS, {}).body)
    end, copy = status["masterCommitLogMaxOffset"], status["haClientRuntimeInfo"]
    slaves = [
        {"inSync": one["inSync"], "diff": one["diff"], "has all": one["slaveAckOffset"] == end}
        for one in status["haConnectionInfo"]
    ]
    counted = {name: status[name] for name in ("master", "inSyncSlaveNums")}
    return {**counted, "slaves": slaves, "copies": bool(copy.get("masterAddr")), "has log": copy["maxOffset"] > 0}


def at_slave(pair: Pair) -> Iterator[Step]:
    """What a slave answers."""
    slave, queue = pair.slave, {"topic": pair.topic, "queueId": 0}
    yield "slave: send", plain(pair.send(slave, 0))
    yield "slave: send to a new topic", plain(pair.send(slave, 0, f"{pair.topic}-new"))
    yield "slave: sent back", plain(pair.ask(slave, SEND_BACK, {"offset": 0, "group": pair.group, "delayLevel": 0}))
    end = {
        "producerGroup": "shop", "tranStateTableOffset": 0, "commitLogOffset": 0, "commitOrRollback": 8,
        "fromTransactionCheck": "false", "msgId": "x", "transactionId": "x",
    }  # fmt: skip
    yield "slave: end of a transaction", plain(pair.ask(slave, END, end))
    reset = {"topic": pair.topic, "group": pair.group, "timestamp": -1, "isForce": "true"}
    yield "slave: reset", plain(pair.ask(slave, RESET, reset))
    recall = {"producerGroup": "shop", "topic": pair.topic, "recallHandle": "nonsense"}
    yield "slave: recall of nonsense", plain(pair.ask(slave, RECALL, recall))
    yield "slave: end", plain(pair.ask(slave, MAX_OFFSET, queue))
    yield "slave: begin", plain(pair.ask(slave, MIN_OFFSET, queue))
    text = f'{{"topic":"{pair.topic}","brokerName":"{pair.name}","queueId":0}}'
    locks = f'{{"consumerGroup":"{pair.group}","clientId":"c","mqSet":[{text}]}}'.encode()
    yield "slave: lock", len(read_json(pair.ask(slave, LOCK, {}, locks).body)["lockOKMQSet"])
    yield "slave: unlock", plain(pair.ask(slave, UNLOCK, {}, locks))
    yield "slave: pop", plain(pair.pop(slave))
    yield from _queries(pair)


def _queries(pair: Pair) -> Iterator[Step]:
    wanted = {"topic": pair.topic, "key": KEY, "maxNum": 8, "beginTimestamp": 0, "endTimestamp": 2**62}
    for name, line in (("master", pair.master), ("slave", pair.slave)):
        found = pair.ask(line, BY_KEY, wanted)
        found.reads = "records"
        yield (
            f"{name}: by key",
            {**seen(found), "field indexLastUpdatePhyoffset": "", "field indexLastUpdateTimestamp": ""},
        )
        yield f"{name}: by an unknown key", plain(pair.ask(line, BY_KEY, {**wanted, "key": "none"}))
        yield f"{name}: by an unknown position", plain(pair.ask(line, BY_ID, {"offset": 2**40, "topic": pair.topic}))


def pulls(pair: Pair) -> Iterator[Step]:
    """What a slave answers to pulls."""
    slave = pair.slave
    yield "slave: pull", plain(pair.pull(slave, 0))
    yield "slave: lite pull", plain(pair.pull(slave, 0, code=LITE_PULL))
    yield "slave: pull at the end", plain(pair.pull(slave, MESSAGES))
    yield "slave: held at the end", plain(pair.pull(slave, MESSAGES, SUBSCRIPTION | SUSPEND))
    yield "slave: pull after the end", plain(pair.pull(slave, MESSAGES + 3))
    yield "slave: pull before the first", plain(pair.pull(slave, -1))
    yield "slave: pull of no tag", plain(pair.pull(slave, 0, wanted="none"))
    yield "slave: pull without heartbeat", plain(pair.pull(slave, 0, 0))
    yield "slave: pull of an unknown topic", plain(pair.pull(slave, 0, topic="no-such-topic"))
    yield "slave: pull of an empty queue", plain(pair.pull(slave, 0, topic=pair.empty))
    yield "slave: pull after the end of an empty queue", plain(pair.pull(slave, 5, topic=pair.empty))
    pair.configure(slave, **{CHECK: "true"})
    yield "slave: corrected after the end", plain(pair.pull(slave, MESSAGES + 3))
    yield "slave: corrected before the first", plain(pair.pull(slave, -1))
    pair.configure(slave, **{CHECK: "false", READABLE: "false"})
    yield "slave, unreadable: pull", plain(pair.pull(slave, 0))
    yield "slave, unreadable: end", plain(pair.ask(slave, MAX_OFFSET, {"topic": pair.topic, "queueId": 0}))
    pair.configure(slave, **{READABLE: "true"})


def offsets(pair: Pair) -> Iterator[Step]:
    """Offsets that were committed at the slave: those of the master replace them, others stay."""
    slave = pair.slave
    for number, place in enumerate(PLACES):
        yield f"slave: early offset {number}", plain(pair.ask(slave, QUERY_OFFSET, place))
        yield f"master: early offset {number}", plain(pair.ask(pair.master, QUERY_OFFSET, place))
    progress = {"consumerGroup": pair.group, "topic": pair.topic, "queueId": 0}
    yield "slave: no offset", plain(pair.ask(slave, QUERY_OFFSET, {**progress, "setZeroIfNotFound": "false"}))
    yield "slave: pull that commits", plain(pair.pull(slave, 0, SUBSCRIPTION | COMMIT_BIT))
    yield "slave: the offset of the pull", plain(pair.ask(slave, QUERY_OFFSET, progress))
    yield "slave: commit", plain(pair.ask(slave, COMMIT, {**progress, "commitOffset": 4}))
    yield "slave: committed", plain(pair.ask(slave, QUERY_OFFSET, progress))
    unknown = {**progress, "consumerGroup": "no-such", "commitOffset": 1}
    yield "slave: commit of an unknown group", plain(pair.ask(slave, COMMIT, unknown))


def suggestions(pair: Pair) -> Iterator[Step]:
    """Which replica a master suggests."""
    master = pair.master
    yield "master: pull", plain(pair.pull(master, 0))
    yield "master: pull after the end", plain(pair.pull(master, MESSAGES + 3))
    pair.configure(master, **{RATIO: 0})
    yield "master, ratio 0: pull", plain(pair.pull(master, 0))
    yield "master, ratio 0: last message", plain(pair.pull(master, MESSAGES - 1))
    yield "master, ratio 0: pull at the end", plain(pair.pull(master, MESSAGES))
    pair.put_group(2)
    yield "master, ratio 0: another slave", plain(pair.pull(master, 0))
    pair.configure(master, **{READABLE: "false"})
    yield "master, ratio 0, slaves unreadable: pull", plain(pair.pull(master, 0))
    pair.configure(master, **{READABLE: "true", RATIO: 40})
    pair.put_group(1)  # Our slave copies the change at once, theirs after its period.
    pair.configure(pair.slave, **{RATIO: 0})
    yield "slave, ratio 0: pull", plain(pair.pull(pair.slave, 0))
    pair.configure(pair.slave, **{RATIO: 40})


def statuses(pair: Pair) -> Iterator[Step]:
    """What a synchronous master with inSyncReplicas=2 answers to sends. The slave is frozen, so this comes last."""
    master = pair.master
    yield "sync: two copies", _sent(pair)
    yield "sync: flushed too late", _flushed_late(pair)
    pair.configure(master, slaveTimeout=TIMEOUT_MS)
    assert pair.freeze is not None
    assert pair.thaw is not None
    pair.until_together()
    pair.freeze()
    try:
        yield "sync: frozen slave", _sent(pair)
        yield "sync: frozen slave, WAIT=false", _sent(pair, WAIT="false")
        yield "sync: frozen slave, delayed", _sent(pair, DELAY=18)
        yield "sync: frozen slave, half message", _sent(pair, HALF, TRAN_MSG="true", PGROUP="shop")
        end = pair.ask(master, MAX_OFFSET, {"topic": pair.topic, "queueId": 0})
        yield "sync: what was stored all the same", plain(end)
    finally:
        pair.thaw()


def dead_slave(pair: Pair) -> Iterator[Step]:
    """What is left when the slave was killed: routes, status, and what the master answers to the next sends."""
    master = pair.master
    assert pair.kill is not None
    pair.kill()
    pair.until_alone()
    route = read_json(pair.ask(pair.nameserver, ROUTE, {"topic": pair.topic}).body)
    yield "dead slave: route", pair.reported(str(sorted(route["brokerDatas"][0]["brokerAddrs"].items())))
    yield "dead slave: queues", [{**queue, "topicSysFlag": 0} for queue in route["queueDatas"]]
    table = read_json(pair.ask(pair.nameserver, CLUSTER_INFO, {}).body)["brokerAddrTable"]
    yield "dead slave: cluster", pair.reported(str(sorted(table[pair.name]["brokerAddrs"].items())))
    group = pair.ask(pair.nameserver, MEMBERS, {"clusterName": "DefaultCluster", "brokerName": pair.name})
    yield (
        "dead slave: members",
        pair.reported(str(sorted(read_json(group.body)["brokerMemberGroup"]["brokerAddrs"].items()))),
    )
    yield "dead slave: HA status", _ha(pair, master)
    yield "dead slave: send", _sent(pair)
    yield "dead slave: another send", _sent(pair)
    yield "dead slave: WAIT=false", _sent(pair, WAIT="false")
    yield "dead slave: delayed", _sent(pair, DELAY=18)
    pair.configure(master, inSyncReplicas=1)
    yield "dead slave, inSyncReplicas 1: send", _sent(pair)
    pair.configure(master, inSyncReplicas=2, enableSlaveActingMaster="true")
    yield "dead slave, acting mode: send", _sent(pair)
    last = _sent(pair, WAIT="false")
    yield "dead slave, acting mode: WAIT=false", last
    yield "dead slave: what was stored", _end(pair, int(last["field queueOffset"]) + 1)
    yield "dead slave: pull", plain(pair.pull(master, 0))
    pair.configure(master, minInSyncReplicas=2, enableSlaveActingMaster="false")
    yield "dead slave, minInSyncReplicas 2: send", _sent(pair)


def _end(pair: Pair, expected: int) -> dict[str, Any]:
    """Return the response about the end of the queue, which RocketMQ fills after its response to a send."""
    until_s = time.monotonic() + QUEUED_S
    while True:
        end = plain(pair.ask(pair.master, MAX_OFFSET, {"topic": pair.topic, "queueId": 0}))
        if int(end["field offset"]) >= expected or time.monotonic() > until_s:
            return end


def _sent(pair: Pair, flags: int = 0, **properties: str | int) -> dict[str, Any]:
    with Stopwatch() as watch:
        reply = pair.send(pair.master, 0, "", flags, properties)
    return {**plain(reply), "waited": watch.waited(TIMEOUT_MS / 2_000)}


def _flushed_late(pair: Pair) -> dict[str, Any]:
    """Return the response to a send that isn't on the disk in time; a real master may be faster than its own limit."""
    assert pair.flush_late is not None
    topic = f"{pair.run}late"
    assert pair.create(pair.master, topic).code == 0
    pair.flush_late(pair, True)
    for _ in range(LATE_SENDS_MAX):
        reply = pair.send(pair.master, 0, topic)
        if reply.code != 0:
            break
    pair.flush_late(pair, False)
    return {**plain(reply), "field queueOffset": "", "remark": ""}  # Ours names the fault rule.


ALL = (routes, notices, at_slave, pulls, offsets, suggestions, statuses, dead_slave)
