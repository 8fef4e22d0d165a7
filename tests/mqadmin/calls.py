"""What mqadmin is asked, one call after another, and what its output must say. Pure.

Texts are templates over `Facts`; in what must be said they are regular expressions, and one of them may match anywhere.
Whatever moves what a later call looks at (sends, resets) stands behind it.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

OURS_DIFFERS = "ours differs:"
TROUBLE = re.compile(r"^.*(?:Exception\b|CODE:|not exist|\bERROR\b).*$", re.MULTILINE)
TOPIC, GROUP, COPY, OURS, PRODUCERS = "Orders", "Billing", "BillingCopy", "Ledger", "Shop"
MESSAGES = 8
SETTLED_S = 30
STAMP = (r"\b1\d{12}/",)
PORT = (r"127\.0\.0\.1:\d+",)
LAST_CELL = (r"\S+$",)
QUEUE_AND_ID = (r"broker-\w +\d .*",)
CLOCK = (r"staticfireClock.*", r"shortPollingTimeMills.*")
FIGURES = (r"(runtime|putTps|.*Tps|.*Size.*|.*Mills.*|.*Total.*|.*Time.*|.*Ratio.*|.*times.*) *:.*",)
LISTED = (r"\d+\.\d\d(\(|\||$| )",)
LOG_END = (r"(?<=^#MasterCommitLogMaxOffset\t)\d+",)
"""The log grows while one program runs after the other: clients send their traces."""
TPS = (r"(?<=^Consume TPS: )[\d.]+",)
"""A rate falls while one program runs after the other."""


@dataclass(frozen=True)
class Facts:
    """What differs from run to run: addresses, and where the first message is."""

    namesrv: str
    broker: str
    address: str
    other_address: str
    unique_id: str = ""
    offset_id: str = ""
    holder: str = ""
    queue_id: str = ""
    queue_offset: str = ""
    client_id: str = ""
    """Of our consumer."""


@dataclass(frozen=True)
class Call:
    """One run of mqadmin."""

    arguments: str
    says: tuple[str, ...]
    says_not: str = ""
    """A regular expression that must match nowhere, besides any trouble."""
    refused: str = ""
    """A regular expression for the refusal that must be told; empty: there must be none."""
    within_s: float = 0
    """For how long it is asked again until it says so: offsets are sent without waiting for an answer, and brokers take
    samples of some figures every ten seconds."""

    masks: tuple[str, ...] = ()
    """Regular expressions for what may differ between two runs, or two programs, in what is said."""
    differs: str = ""
    """Why our own command says something else; empty: it says the same."""

    def filled(self, facts: Facts) -> list[str]:
        """Return the arguments of this run."""
        return self.arguments.format(**vars(facts)).split()

    def complaint(self, output: str, facts: Facts) -> str:
        """Return what is wrong with an output, empty when nothing is."""
        found = TROUBLE.search(output)
        if self.refused:
            return "" if re.search(self.refused, output, re.MULTILINE) else f"no {self.refused!r} in:\n{output}"
        if found:
            cause = re.search(r"CODE: .*", output)
            return (cause or found).group(0).strip()
        escaped = {name: re.escape(text) for name, text in vars(facts).items()}
        for pattern in self.says:
            wanted = pattern.format(**escaped)
            if not re.search(wanted, output, re.MULTILINE):
                return f"no {wanted!r} in:\n{output}"
        if self.says_not and re.search(self.says_not.format(**escaped), output, re.MULTILINE):
            return f"{self.says_not!r} is still in it"
        return ""

    def difference(self, theirs: str, ours: str) -> str:
        """Return where what our command says isn't what RocketMQ's does, line by line and in any order."""
        if theirs.lstrip().startswith("{") and _as_json(theirs) == json.loads(ours):
            return ""
        theirs = theirs.replace("]MessageTrack", "]\nMessageTrack")  # All on one line, where nothing can be read.
        left, right = (
            sorted(self._masked(line) for line in reported.splitlines() if line.strip()) for reported in (theirs, ours)
        )
        lacking = [f"  - {line}" for line in left if left.count(line) > right.count(line)]
        more = [f"  + {line}" for line in right if right.count(line) > left.count(line)]
        return "\n".join([OURS_DIFFERS, *lacking, *more]) if lacking or more else ""

    def _masked(self, line: str) -> str:
        line = re.sub(r"\{[^{}]*\}", lambda found: "{" + ", ".join(sorted(found[0][1:-1].split(", "))) + "}", line)
        for mask in self.masks:
            line = re.sub(mask, "*", line)
        return re.sub(r" *\* *", "*", line).rstrip()


def _as_json(text: str) -> Any:
    """Return what Java's JSON says, which has numbers as keys."""
    return json.loads(re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', text))


def call(
    arguments: str,
    *says: str,
    says_not: str = "",
    refused: str = "",
    within_s: float = 0,
    masks: tuple[str, ...] = (),
    differs: str = "",
) -> Call:
    return Call(arguments, says, says_not, refused, within_s, masks, differs)


BEFORE = [
    call(f"updateTopic -c DefaultCluster -t {TOPIC} -r 4 -w 4", "to {address} success", "to {other_address} success"),
    call(f"updateSubGroup -c DefaultCluster -g {GROUP}", "to {address} success", "to {other_address} success"),
    call(
        "updateTopic -c DefaultCluster -t Sorted -r 2 -w 2 -o true -a +message.type=FIFO",
        r"orderConf=\[broker-",
        masks=(r"orderConf=.*",),
    ),
    call("updateSubGroup -b {address} -g Slow -o true -r 3 -a false -q 2", "orderly=true|Orderly=true"),
    call(f"updateSubGroup -c DefaultCluster -g {COPY}", "to {address} success", "to {other_address} success"),
]
"""Calls before there are members."""

DURING = [
    call("clusterList", "DefaultCluster +{broker} +0 +{address} +V5_3_3", masks=LISTED),
    call(
        "haStatus -b {address}",
        "^#MasterAddr\t{address}$",
        "^#SlaveNum\t0$",
        "^#SlaveAddr +#SlaveAckOffset +#Diff ",
        masks=LOG_END,
    ),
    call("clusterList -m", "DefaultCluster +{broker} "),
    call("topicList -c", f"DefaultCluster +{TOPIC} +{GROUP}"),
    call("topicList", f"^{TOPIC}$", f"^%RETRY%{GROUP}$", "^TBW102$"),
    call(f"topicRoute -t {TOPIC}", '"{address}"', '"{other_address}"', '"readQueueNums":4'),
    call(f"topicRoute -l -t {TOPIC}", "^Total: +2 +8 +8 *$"),
    call(f"topicStatus -t {TOPIC}", r"^{broker} +3 +0 +1 +20\d\d-", r"^{holder} +{queue_id} +0 +1 +20\d\d-"),
    call(f"topicClusterList -t {TOPIC}", "^DefaultCluster$"),
    call(
        f"consumerProgress -g {GROUP}",
        f"^{TOPIC} +{{holder}} +{{queue_id}} +1 +1 +0 ",
        "Diff Total: 0",
        within_s=SETTLED_S,
        masks=TPS,
    ),
    call(f"consumerConnection -g {GROUP}", "JAVA +V5_3_3", rf"^{TOPIC} +\*", "CLUSTERING", "FIRST_OFFSET", masks=PORT),
    call("consumerProgress", f"^{GROUP} +1 +V5_3_3 +PUSH +CLUSTERING"),
    call(f"consumerProgress -s true -g {GROUP}", f"^{TOPIC} +{{holder}} +{{queue_id}} +1 +1 ", masks=TPS),
    call(f"producerConnection -g {PRODUCERS} -t {TOPIC}", "JAVA +V5_3_3", masks=PORT),
    call(f"consumerStatus -g {GROUP}", "V5_3_3", "Same subscription", "Rebalance OK", masks=STAMP),
    call(
        f"consumerProgress -g {OURS}",
        f"^{TOPIC} +{{holder}} +{{queue_id}} +1 +1 +0 ",
        "Diff Total: 0",
        within_s=SETTLED_S,
        masks=TPS,
    ),
    call(f"consumerConnection -g {OURS}", "{client_id}.*PYTHON +V5_3_3", masks=PORT),
    call(f"consumerStatus -g {OURS}", "{client_id} +V5_3_3", "Same subscription", "Rebalance OK", masks=STAMP),
    call(
        f"consumerStatus -g {OURS} -s -i {{client_id}}",
        "^PROP_CONSUME_TYPE +: CONSUME_PASSIVELY",
        f"^{TOPIC} +{{holder}} +{{queue_id}} +1 ",
        f"listener of {OURS}|rebalance",
        rf"^{TOPIC}( +\d+\.\d\d){{{{5}}}} +\d+$",
        # Its threads are tasks of a moment, as asyncio counts them; it pulls while one program runs after the other.
        masks=(r"( +\d+\.\d\d){5} +\d+$", r"Task-\d+", r"(?<=lastPullTimestamp=)\d{17}"),
    ),
    call(
        f"queryMsgById -t {TOPIC} -i {{offset_id}} -g {OURS} -d {{client_id}}",
        "consumeResult=CR_SUCCESS",
        masks=(r"spentTimeMills=\d+",),
    ),
    call(
        "brokerStatus -b {address}", "^brokerVersionDesc +: V5_3_3", "^putTps ", "^msgPutTotalTodayNow ", masks=FIGURES
    ),
    call("brokerStatus -c DefaultCluster", "{address} +brokerVersionDesc +: V5_3_3", masks=FIGURES),
    call("updateBrokerConfig -b {address} -k shortPollingTimeMills -v 1071", "update broker config success, {address}"),
    call("updateBrokerConfig -b {address} -k noSuchThing -v 1", refused="CODE: 29 .*noSuchThing=1: there is no such"),
    call("updateBrokerConfig -b {address} -k fileReservedTime -v -1", refused="CODE: 29 .*from 0 to 1000000"),
    call("getBrokerConfig -b {address}", "^brokerName += +{broker}$", "^shortPollingTimeMills += +1071$", masks=CLOCK),
    call("getBrokerConfig -c DefaultCluster", "Master: {other_address}=", masks=CLOCK),
    call(f"getConsumerConfig -g {GROUP}", f"^groupName += +{GROUP}$", "^retryMaxTimes += +16$"),
    call(f"queryMsgById -t {TOPIC} -i {{offset_id}}", "{unique_id}", r"\[key-0\]", "CONSUMED"),
    call(f"queryMsgById -t {TOPIC} -i {{unique_id}} -f UTF-8", "^Message Body: +body-0$"),
    call(f"queryMsgByKey -t {TOPIC} -k key-0", "^{unique_id} +{queue_id} +{queue_offset}$"),
    call(f"queryMsgByUniqueKey -t {TOPIC} -i {{unique_id}}", r"\[key-0\]", f"consumerGroup={GROUP}.*CONSUMED"),
    call(
        "queryMsgTraceById -i {unique_id}",
        *(f"^{kind} +{group} .*success" for kind, group in (("Pub", PRODUCERS), ("Sub", GROUP), ("Sub", OURS))),
        within_s=10,
    ),
    call(f"queryMsgByOffset -t {TOPIC} -b {{holder}} -i {{queue_id}} -o {{queue_offset}}", "{offset_id}", "key-0"),
    call(f"printMsg -t {TOPIC}", "{unique_id}", "KEYS=key-7"),
    call(f"printMsg -t {TOPIC} -s nosuch -d false", "NO_MATCHED_MSG|^-----"),
    call(f"consumeMessage -t {TOPIC} -b {{holder}} -i {{queue_id}} -o 0 -c 1", "Consume ok", "{unique_id}"),
    call(f"cloneGroupOffset -s {GROUP} -d {COPY} -t {TOPIC} -o false", f"from {GROUP}.*to {COPY}|success"),
    call(f"consumerProgress -g {COPY}", f"^{TOPIC} +{{holder}} +{{queue_id}} +\\d+ +1 ", masks=TPS),
    # The first sample of a counter, which the day's sums begin with, may fall between two messages.
    call(
        f"statsAll -a -t {TOPIC}",
        rf"^{TOPIC} +{GROUP} +0 +[\d.]+ +[\d.]+ +[1-{MESSAGES}] +[1-{MESSAGES}]$",
        within_s=SETTLED_S,
    ),
    call(f"sendMessage -t {TOPIC} -p paid -k later -c TagB", "SEND_OK +[0-9A-F]{{32}}", masks=QUEUE_AND_ID),
    call(f"checkMsgSendRT -t {TOPIC} -a 5 -s 10", "^{broker} +0 +true", r"^Avg RT: \d", masks=LAST_CELL),
    call(f"resetOffsetByTime -g {GROUP} -t {TOPIC} -s 0", "^{holder} +{queue_id} +0 *$"),
    call(f"resetOffsetByTime -g {OURS} -t {TOPIC} -s 0", "^{holder} +{queue_id} +0 *$"),
    call(
        f"consumerProgress -g {OURS}",
        f"^{TOPIC} +{{holder}} +{{queue_id}} +\\d+ +\\d+ +0 ",
        "Diff Total: 0",
        within_s=SETTLED_S,
        masks=TPS,
    ),
    call(f"resetOffsetByTime -g {GROUP} -t {TOPIC} -s 0 -b {{address}} -q 0 -o 1", "reset consumer offset to 1"),
    call(f"skipAccumulatedMessage -g {GROUP} -t {TOPIC}", "^{holder} +{queue_id} +[1-9]"),
    call("updateOrderConf -m put -t Ordered -v broker-a:4;broker-b:2", r"update orderConf success. topic=\[Ordered\]"),
    call("updateOrderConf -m get -t Ordered", r"orderConf=\[broker-a:4;broker-b:2\]"),
    call("updateOrderConf -m delete -t Ordered", r"delete orderConf success"),
    call("updateKvConfig -s space -k key -v value", "create or update kv config to namespace success"),
    call("deleteKvConfig -s space -k key", "delete kv config from namespace success"),
    call("wipeWritePerm -b {broker} -n {namesrv}", r"OK, [1-9]"),
    call(f"topicRoute -t {TOPIC}", '"perm":4'),
    call("addWritePerm -b {broker} -n {namesrv}", r"OK, [1-9]"),
    call(f"topicRoute -t {TOPIC}", '"perm":6', says_not='"perm":4'),
    call(
        f"updateTopicPerm -t {TOPIC} -b {{address}} -p 4", "from 6 to 4 in {address} success", differs="by then it is 4"
    ),
    call(f"updateTopicPerm -t {TOPIC} -b {{address}} -p 4", "^new perm equals to the old one!$"),
]
"""Calls while there is a producer and a consumer."""

OTHERS = [
    call(f"allocateMQ -t {TOPIC} -i 10.0.0.1,10.0.0.2", '"10.0.0.2":'),
    call("brokerConsumeStats -b {address}", "^#Topic +#Group"),
    call("cleanExpiredCQ -b {address}", "^success"),
    call("deleteExpiredCommitLog -b {address}", "^success"),
    call("cleanUnusedTopic -b {address}", "^success"),
    call(f"queryCq -t {TOPIC} -q 0 -i 0 -c 1", "Filter data"),
    call("haStatus -b {address}", "{address}", masks=LOG_END),
    call("exportMetadata -c DefaultCluster -f metadata", "export .* success"),
    call("exportConfigs -c DefaultCluster -f configs", "export .* success"),
    call("exportMetrics -c DefaultCluster -f metrics", "export .* success"),
    call("updateStaticTopic -c DefaultCluster -t Static -qn 4", "new mapping data is written"),
    call("remappingStaticTopic -b {broker} -t Static", "mapping data is written to file .*after"),
    call("updateNamesrvConfig -k orderMessageEnable -v true", "success"),
    call(f"printMsgByQueue -t {TOPIC} -a {{holder}} -i {{queue_id}} -p true", "KEYS=key-0"),
    call("getControllerMetaData -a {namesrv}", "^#ControllerLeaderAddress\t{namesrv}$", "^#Peer:\tn0:{namesrv}$"),
    call("getControllerConfig -a {namesrv}", "^scanNotActiveBrokerInterval += "),
    call(
        "updateControllerConfig -a {namesrv} -k scanNotActiveBrokerInterval -v 5000", "update controller config success"
    ),
    call("getSyncStateSet -a {namesrv} -b {broker}", "^#MasterAddr\t{address}$", "^InSyncReplica:.*alive=true"),
    call("getBrokerEpoch -b {broker}", refused="CODE: 1 .*only for controllerMode: broker-a has no slave"),
    call("electMaster -a {namesrv} -c DefaultCluster -bn {broker} -b 1", refused="CODE: 2012 .*broker-a has no slave"),
    *(
        call(arguments, refused=rf"CODE: 3 .*not supported \({code}\)")
        for arguments, code in (
            ("getColdDataFlowCtrInfo -b {address}", "GET_COLD_DATA_FLOW_CTR_INFO"),
            ("setCommitLogReadAheadMode -b {address} -m 0", "SET_COMMITLOG_READ_MODE"),
            ("resetMasterFlushOffset -b {address} -o 1", "RESET_MASTER_FLUSH_OFFSET"),
            ("getControllerMetaData -a {address}", "CONTROLLER_GET_METADATA_INFO"),
            ("checkRocksdbCqWriteProgress -c DefaultCluster -n {namesrv}", "CHECK_ROCKSDB_CQ_WRITE_PROGRESS"),
        )
    ),
]
"""Commands that aren't ours: what RocketMQ's own gets here, or which request is refused by its name.

Those for users and policies are in tests/oracle/access.py: from the first user on, each request is checked.
"""

AFTER = [
    call(f"deleteTopic -c DefaultCluster -t {TOPIC}", "from cluster .* success", "from NameServer success"),
    call(f"deleteSubGroup -c DefaultCluster -g {GROUP} -r true", rf"\[{GROUP}\] from broker \[{{other_address}}\]"),
    call("topicList", "^TBW102$", says_not=f"^{TOPIC}$|^%RETRY%{GROUP}$"),
]
"""Calls when the members are gone."""
