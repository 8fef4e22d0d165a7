"""`python -m tests.oracle.access BROKER NAMESRV`: the same signed requests to a judging RocketMQ and to staticfire.

Both have the super user root and check signatures and policies (run.sh starts the real one with access.conf). Each
step is one request; code, remark and body must be equal. Then RocketMQ's mqadmin manages users on both, and must print
the same. The steps are the cases of RocketMQ's ACL 2.0 that a client can see.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from staticfire.cluster.cluster import Cluster
from staticfire.protocol.signatures import sign, signed_content
from tests.mqadmin.java import Admin, java
from tests.oracle.exchange import Line

SECRETS = {"root": "r00t", "u1": "p1", "u2": "p2"}
SETTINGS = {
    "authenticationEnabled": True, "authorizationEnabled": True,
    "initAuthenticationUser": json.dumps({"username": "root", "password": "r00t"}),
}  # fmt: skip
HOST = "127.0.0.1"


class Step(NamedTuple):
    """One request. `user`: the access key; None: no header fields for access at all."""

    name: str
    code: int
    user: str | None
    fields: dict[str, str]
    body: bytes = b""
    secret: str | None = None
    version: int = 479
    added: dict[str, str] = {}  # noqa: RUF012 (never changed)
    """Fields that are added after signing."""


def send(topic: str, group: str = "pg") -> dict[str, str]:
    values = (group, topic, "TBW102", "4", "0", "0", "1700000000000", "0", "", "0", "false", "0", "false")
    return dict(zip("abcdefghijklm", values, strict=True))


def acl(user: str, *entries: dict[str, Any], kind: str | None = None) -> tuple[dict[str, str], bytes]:
    policy = {"entries": list(entries), **({"policyType": kind} if kind else {})}
    return {"subject": f"User:{user}"}, json.dumps({"policies": [policy]}).encode()


def entry(resource: str, *actions: str, decision: str = "Allow", **more: Any) -> dict[str, Any]:
    return {"resource": resource, "actions": list(actions), "decision": decision, **more}


def user(name: str, **more: str) -> tuple[dict[str, str], bytes]:
    return {"username": name}, json.dumps({"username": name, **more}).encode()


def heartbeat(*groups: str, topic: str = "TA") -> bytes:
    plain = {"subString": "*", "tagsSet": [], "codeSet": [], "subVersion": 1, "classFilterMode": False}
    consumers = [
        {
            "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "unitMode": False,
            "subscriptionDataSet": [{"topic": name, **plain} for name in (topic, f"%RETRY%{group}")],
        }
        for group in groups
    ]  # fmt: skip
    return json.dumps({"clientID": "c@1", "producerDataSet": [], "consumerDataSet": consumers}).encode()


def pull(topic: str, group: str) -> dict[str, str]:
    return {
        "consumerGroup": group, "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4",
        "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
    }  # fmt: skip


def steps() -> Iterator[Step]:  # house: the cases, one line each
    """Yield the requests, in their order."""
    yield Step("no fields", 28, None, {})
    yield Step("empty key", 28, "", {}, secret="x")
    yield Step("unknown user", 28, "nobody", {}, secret="x")
    yield Step("wrong secret", 28, "root", {}, secret="x")
    yield Step("no signature", 29, None, {}, added={"AccessKey": "root", "topic": "T"})
    yield Step("added after signing", 29, "root", {"topic": "T", "queueId": "0"}, added={"timestamp": "0"})
    yield Step("unique key of an old client", 12, "root", query(), version=399, added={"_UNIQUE_KEY_QUERY": "true"})
    yield Step("unique key of a new client", 12, "root", query(), version=400, added={"_UNIQUE_KEY_QUERY": "true"})
    yield Step("unknown code, no key", 9999, None, {})
    yield Step("u1 is made", 3001, "root", *user("u1", password="p1"))
    yield Step("u1 again", 3001, "root", *user("u1", password="p1"))
    yield Step("no password", 3001, "root", *user("u2"))
    yield Step("blank name", 3001, "root", *user("", password="x"))
    yield Step("u2 is made", 3001, "root", *user("u2", password="p2", userType="normal", userStatus="whatever"))
    yield Step("u1 is shown", 3004, "root", {"username": "u1"})
    yield Step("nobody is shown", 3004, "root", {"username": "nobody"})
    yield Step("nobody is changed", 3002, "root", *user("nobody", password="x"))
    yield Step("nobody is removed", 3003, "root", {"username": "nobody"})
    yield Step("u1 without policies sends", 310, "u1", send("TA"), b"x")
    yield Step("u1 pulls", 11, "u1", pull("TA", "GA"))
    yield Step("u1 lists users", 3005, "u1", {})
    yield Step("u1 makes a topic", 17, "u1", topic("TB"))
    yield Step("a topic without its fields", 17, "u1", {})
    yield Step("heartbeat without body", 34, "u1", {})
    yield Step("heartbeat of a group", 34, "u1", {}, heartbeat("GA"))
    yield Step("members", 38, "u1", {"consumerGroup": "GA"})
    yield Step("send back", 36, "u1", {"offset": "0", "group": "GA", "delayLevel": "0"})
    yield Step("max offset", 30, "u1", {"topic": "TA", "queueId": "0"})
    yield Step("stats", 315, "u1", {"statsName": "TOPIC_PUT_NUMS", "statsKey": "TA"})
    yield Step("producers", 204, "u1", {"producerGroup": "pg"})
    yield Step("delete a group", 207, "u1", {"groupName": "GA"})
    yield Step("delete a topic", 215, "u1", {"topic": "TA"})
    yield Step("transaction", 37, "u1", transaction("TA"))
    for name, code in {"unknown resource": "Foo:T", "no name": "Topic:"}.items():
        yield Step(name, 3006, "root", *acl("u1", entry(code, "Pub")))
    yield Step("its entry goes", 3008, "root", {"subject": "User:u1"})
    yield Step("action Any", 3006, "root", *acl("u1", entry("Topic:T", "Any")))
    yield Step("action Fly", 3006, "root", *acl("u1", entry("Topic:T", "Fly")))
    yield Step("decision x", 3006, "root", *acl("u1", entry("Topic:T", "Pub", decision="x")))
    yield Step("ip 1.2.3", 3006, "root", *acl("u1", entry("Topic:T", "Pub", sourceIps=["1.2.3"])))
    yield Step("policies of nobody", 3006, "root", *acl("nobody", entry("Topic:T", "Pub")))
    yield Step("no policies yet", 3009, "root", {"subject": "User:u1"})
    yield Step("nothing to remove", 3008, "root", {"subject": "User:u1"})
    yield Step("subject nobody", 3009, "root", {"subject": "User:nobody"})
    yield Step("allow TA", 3006, "root", *acl("u1", entry("topic:TA", "pub", "Sub"), entry("Group:GA", "Sub")))
    yield Step("shown", 3009, "root", {"subject": "User:u1"})
    yield Step("u1 may send", 310, "u1", send("TA"), b"x")
    yield Step("but not elsewhere", 310, "u1", send("TZ"), b"x")
    yield Step("trace topic", 310, "u1", send("RMQ_SYS_TRACE_TOPIC"), b"x")
    yield Step("retry topic as the group", 310, "u1", send("%RETRY%GA", "GA"), b"x")
    yield Step("retry topic as the client", 310, "u1", send("%RETRY%GA", "CLIENT_INNER_PRODUCER"), b"x")
    yield Step("dead letters", 310, "u1", send("%DLQ%GA"), b"x")
    yield Step("heartbeat", 34, "u1", {}, heartbeat("GA"))
    yield Step("heartbeat of two", 34, "u1", {}, heartbeat("GA", "GB"))
    yield Step("heartbeat of another topic", 34, "u1", {}, heartbeat("GA", topic="TZ"))
    yield Step("u1 may not pull elsewhere", 11, "u1", pull("TA", "GB"))
    yield Step("other address", 3007, "root", *acl("u1", entry("Topic:TA", "Pub", sourceIps=["10.0.0.1"])))
    yield Step("from here", 310, "u1", send("TA"), b"x")
    yield Step("prefix", 3006, "root", *acl("u2", entry("Topic:M*", "Pub")))
    yield Step("a namespace", 310, "u2", send("M_1%T"), b"x")
    yield Step("deny one", 3006, "root", *acl("u2", entry("Topic:MX", "All", decision="Deny")))
    yield Step("denied", 310, "u2", send("MX"), b"x")
    yield Step("default", 3006, "root", *acl("u2", entry("Topic:*", "Pub"), kind="Default"))
    yield Step("by default", 310, "u2", send("ZZ"), b"x")
    yield Step("still denied", 310, "u2", send("MX"), b"x")
    yield Step("all policies", 3010, "root", {"subjectFilter": "u2"})
    yield Step("of some resources", 3010, "root", {"resourceFilter": "MX"})
    yield Step("one goes", 3008, "root", {"subject": "User:u2", "resource": "Topic:MX"})
    yield Step("no longer denied", 310, "u2", send("MX"), b"x")
    yield Step("disable", 3002, "root", *user("u2", userStatus="disable"))
    yield Step("disabled", 310, "u2", send("MX"), b"x")
    yield Step("new password", 3002, "root", *user("u1", password="other"))
    yield Step("old password", 310, "u1", send("TA"), b"x")
    yield Step("all users", 3005, "root", {"filter": "u"})
    yield Step("u1 goes", 3003, "root", {"username": "u1"})
    yield Step("u1 is gone", 28, "u1", {})
    yield Step("u2 goes", 3003, "root", {"username": "u2"})
    yield Step("unknown code, root", 9999, "root", {})


def query() -> dict[str, str]:
    return {"topic": "T", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1"}


def topic(name: str) -> dict[str, str]:
    return {"topic": name, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}  # fmt: skip


def transaction(name: str) -> dict[str, str]:
    return {"producerGroup": "pg", "tranStateTableOffset": "0", "commitLogOffset": "0", "commitOrRollback": "0",
            "topic": name}  # fmt: skip


EXPLAINED = {
    "unknown code, root": "our remark has the name of the code behind RocketMQ's words",
}
CLIENT_SAYS = """
right SEND_OK
wrong 16 check signature failed.
unknown 16 User:nobody is not found.
none 16 username cannot be null.
other 16 User:shop has no permission to access Topic:KeysX from 127.0.0.1, no matched policies.
consumed true
""".strip().splitlines()
"""What RocketMQ's own client with AclClientRPCHook must say of ours."""


def play(broker: str) -> dict[str, tuple[int | str, str, Any]]:
    """Send all steps; return code, remark and body of each response."""
    line = Line(broker)
    answers: dict[str, tuple[int | str, str, Any]] = {}
    for step in steps():
        fields = dict(step.fields)
        if step.user is not None:
            fields["AccessKey"] = step.user
            secret = SECRETS.get(step.user, "") if step.secret is None else step.secret
            fields["Signature"] = sign(secret, signed_content(fields, step.body, step.version))
        fields |= step.added
        reply = line.answer(line.send(step.code, fields or None, step.body, {"version": step.version}))
        if step.code < 3000 and reply.code != 16:
            answers[step.name] = "let in", "", None
        else:
            answers[step.name] = reply.code, reply.remark or "", json.loads(reply.body) if reply.body else None
    return answers


ADMIN = """
createUser -u cli1 -p pw1
createUser -u cli1 -p pw1
updateUser -u cli1 -s disable
getUser -u cli1
getUser -u nobody
createUser -u cli2 -p pw2 -t Super
listUser -f cli
createAcl -s User:cli1 -r Topic:TA,Group:G* -a Pub,Sub -i 10.0.0.0/8 -d Allow
updateAcl -s User:cli1 -r Topic:TA -a Pub -d Deny
getAcl -s User:cli1
listAcl -s cli1 -r Topic
deleteAcl -s User:cli1 -r Topic:TA
getAcl -s User:cli1
deleteAcl -s User:cli1
deleteUser -u cli1
deleteUser -u cli2
listUser -f cli
""".strip().splitlines()


def administered(broker: str, namesrv: str, folder: Path) -> list[str]:
    """Run RocketMQ's mqadmin with root's key; return what each command prints, without addresses and Java's lines."""
    (folder / "conf").mkdir()
    (folder / "conf" / "tools.yml").write_text("accessKey: root\nsecretKey: r00t\n")
    said = []
    with Admin(namesrv, str(folder)) as admin:
        for arguments in ADMIN:
            words = admin.run([*arguments.split(), "-b", broker])
            lines = [line.rstrip() for line in words.splitlines() if not line.startswith("\tat ")]
            said.append("\n".join(lines).replace(broker, "BROKER"))
    return said


def differences(theirs: str, ours: str, namesrv: str, our_namesrv: str) -> Iterator[str]:
    """Yield a text for each difference."""
    real, made = play(theirs), play(ours)
    for name, answer in real.items():
        if made[name] != answer and name not in EXPLAINED:
            yield f"{name}: RocketMQ {answer}, staticfire {made[name]}"
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        pairs = zip(
            administered(theirs, namesrv, Path(one)), administered(ours, our_namesrv, Path(other)), ADMIN, strict=True
        )
        for said, ours_said, command in pairs:
            if said != ours_said:
                yield f"mqadmin {command}:\n  RocketMQ: {said}\n  staticfire: {ours_said}"


def client_says(cluster: Cluster) -> list[str]:
    """Return what RocketMQ's own client with keys says."""
    cluster.create_topic("Keys", queues=1)
    cluster.users.add("shop", "s3cret")
    cluster.users.allow("shop", "Topic:Keys", "Pub,Sub")
    cluster.users.allow("shop", "Group:KeysGroup", "Sub")
    with tempfile.TemporaryDirectory() as folder:
        arguments = cluster.namesrv, "Keys", "KeysGroup", "shop=s3cret"
        command = java("Keys.java", *arguments, folder=folder, namesrv=cluster.namesrv)
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout
    return [re.sub(r" +BROKER: .*|\s+For more.*", "", line) for line in said.splitlines() if line.split()[0] in _FIRST]


_FIRST = {line.split()[0] for line in CLIENT_SAYS}


def main() -> int:
    theirs, namesrv = sys.argv[1:3]
    with Cluster(settings=SETTINGS) as cluster:
        found = list(differences(theirs, cluster.addresses["broker-a"], namesrv, cluster.namesrv))
        if (said := client_says(cluster)) != CLIENT_SAYS:
            found.append(f"RocketMQ's client says {said}, not {CLIENT_SAYS}")
    for one in found:
        print(one)
    reported = f"{len(list(steps()))} requests, {len(ADMIN)} commands of mqadmin, a Java client"
    print(f"access: {reported}: {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
