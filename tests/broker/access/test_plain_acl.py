"""The rules of RocketMQ 4's plain_acl.yml. Outcomes are those of a running RocketMQ 5.3.1, which still has them."""

from typing import Any

import pytest

from staticfire.broker.access.book import AccessBook
from staticfire.broker.access.judging import AccessJudge, SignedBy
from staticfire.broker.access.plain_acl import address_test
from staticfire.broker.access.plain_file import PlainAclFile, rules_of
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.errors import UsageError
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, SubscriptionData
from staticfire.protocol.requests.pull import PullMessage
from staticfire.protocol.requests.send import SendMessageV2
from staticfire.protocol.requests.send_back import SendBack
from staticfire.protocol.requests.topics import UpdateTopic

pytestmark = pytest.mark.row("G7")

FILE = b"""
globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: RocketMQ
  secretKey: 0012345678
  whiteRemoteAddress: 192.168.0.{1,2}
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=PUB|SUB
  - topicB=DENY
  - topicC=SUB
  - 'wild*=PUB'
  groupPerms:
  - groupA=DENY
- accessKey: RocketMQ2
  secretKey: '12345678'
  admin: true
"""
KEY, SECRET = "RocketMQ", "0012345678"
PREFIX = "org.apache.rocketmq.acl.common.AclException: "


def judge() -> AccessJudge:
    made = AccessJudge(AccessBook(), "DefaultCluster", None)
    made.plain = rules_of(FILE)
    return made


def by(key: str = KEY, secret: str = SECRET) -> SignedBy:
    return SignedBy(key, f"signed with {secret}", lambda known: f"signed with {known}")


def said(code: int, request: Any, credentials: SignedBy | None = None, source: str = "127.0.0.1") -> str:
    refused = judge().judge(code, request, credentials or by(), source)
    if refused is None:
        return ""
    answer = refused.answer(is_old=True)
    assert answer.code == 1
    return (answer.remark or "").removeprefix(PREFIX)


def send(topic: str) -> SendMessageV2:
    return SendMessageV2("shop", topic, "TBW102", 4, 0, 0, 0, 0)


def test_keys_are_checked_in_this_order() -> None:
    code, request = RequestCode.GET_BROKER_RUNTIME_INFO, None
    assert said(code, request, by("")) == "No accessKey is configured"
    assert said(code, request, by("nobody")) == "No acl config for nobody"
    assert said(code, request, by(secret="12345678")) == "Check signature failed for accessKey=RocketMQ"
    assert said(code, request) == ""


def test_white_addresses_need_no_signature_and_may_do_everything() -> None:
    assert said(RequestCode.UPDATE_AND_CREATE_TOPIC, None, by(""), "10.10.103.7") == ""
    assert said(RequestCode.UPDATE_AND_CREATE_TOPIC, None, by(secret="wrong"), "192.168.0.2") == ""
    assert said(RequestCode.UPDATE_AND_CREATE_TOPIC, None, by(secret="wrong"), "192.168.0.3").startswith("Check")


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("topicA", ""),
        ("topicB", "No permission for topic:topicB"),
        ("topicC", "No permission for topic:topicC"),
        ("topicZ", "No default permission for topic:topicZ"),
        ("wildcard", "No default permission for topic:wildcard"),
        ("RMQ_SYS_TRACE_TOPIC", ""),
        ("%RETRY%groupC", ""),
        ("%RETRY%groupA", "No permission for group:groupA"),
        ("%DLQ%groupC", "No default permission for topic:%DLQ%groupC"),
    ],
)
def test_sends(topic: str, words: str) -> None:
    assert said(RequestCode.SEND_MESSAGE_V2, send(topic)) == words


def test_consumers_need_topic_and_group() -> None:
    def pull(topic: str, group: str) -> str:
        return said(RequestCode.PULL_MESSAGE, PullMessage(group, topic, 0, 0, 32, 0, 0, 0))

    assert (pull("topicC", "groupC"), pull("topicC", "groupA")) == ("", "No permission for group:groupA")
    assert pull("topicB", "groupC") == "No permission for topic:topicB"
    consumers = [ConsumerData("groupC", subscription_data_set=[SubscriptionData("topicC"), SubscriptionData("topicB")])]
    heartbeat = Heartbeat(body=HeartbeatData("c", consumer_data_set=consumers))
    assert said(RequestCode.HEART_BEAT, heartbeat) == "No permission for topic:topicB"
    assert said(RequestCode.CONSUMER_SEND_MSG_BACK, SendBack(0, "groupA", 0)) == "No permission for group:groupA"


def test_some_requests_are_for_admins_and_some_are_not_checked() -> None:
    words = "Need admin permission for request code=17, but accessKey=RocketMQ is not"
    request = UpdateTopic("t", 1, 1, 6)
    assert said(RequestCode.UPDATE_AND_CREATE_TOPIC, request) == words
    assert said(RequestCode.UPDATE_AND_CREATE_TOPIC, request, by("RocketMQ2", "12345678")) == ""
    assert said(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None) == ""
    assert said(RequestCode.POP_MESSAGE, None) == ""


@pytest.mark.parametrize(
    ("text", "meant", "not_meant"),
    [
        ("*", "1.2.3.4", ""),
        ("192.168.0.*", "192.168.0.9", "192.168.1.9"),
        ("192.168.*.*", "192.168.1.9", "192.169.1.9"),
        ("192.168.0.1-9", "192.168.0.5", "192.168.0.10"),
        ("192.168.0.{1,2}", "192.168.0.2", "192.168.0.3"),
        ("192.168.0.1,10.0.0.7", "10.0.0.7", "10.0.0.8"),
        ("1050:0000:0000:0000:0005:0600:300c:*", "1050::5:600:300c:1", "1050::5:600:300d:1"),
        ("1050::1", "1050:0:0:0:0:0:0:1", "1050::2"),
    ],
)
def test_white_addresses(text: str, meant: str, not_meant: str) -> None:
    assert address_test(text).matches(meant)
    assert not_meant == "" or not address_test(text).matches(not_meant)


@pytest.mark.parametrize("text", ["1.2.3", "1.2.3.256", "1.2.3.9-1", "1.2.3.{4", "a.b.c.d", "1:2:*"])
def test_an_illegal_white_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="white address"):
        address_test(text)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"accounts:\n\t- accessKey: x", "line 2, column 1: a tab; YAML is indented with blanks"),
        (b"accounts: [", "invalid YAML"),
        (b"\xff\xfe\x00", "YAML"),
        (b"[]", "a list `accounts`"),
        (b"accounts: x", "`accounts` must be a list"),
        (b"accounts: [x]", "each of `accounts`"),
        (b"accounts: [{accessKey: short1, secretKey: longenough}]", "longer than 6"),
        (b"accounts: [{accessKey: longenough, secretKey: longenough, topicPerms: [T]}]", "name=PUB|SUB"),
        (b"accounts: [{accessKey: longenough, secretKey: longenough, topicPerms: [T=FOO]}]", "name=PUB|SUB"),
        (b"accounts: [{accesKey: longenough}]", "'accesKey', which is unknown"),
        (b"accounts: [{accessKey: {a: b}, secretKey: longenough}]", "accessKey must be a text"),
        (b"globalWhiteRemoteAddresses: [1.2]", "white address"),
        (b"accounts: !!python/object/apply:os.system [true]", "each of `accounts`"),
    ],
)
def test_a_file_that_cannot_be_used_gives_the_reason_and_never_a_secret(data: bytes, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        rules_of(data)
    assert words in str(refused.value)
    assert "longenough'" not in str(refused.value).replace("account 'longenough'", "")


class OneFile:
    """A folder with one file."""

    data = FILE

    def read_bytes(self, _: str) -> bytes:
        return self.data


def test_a_file_is_read_again_only_after_a_change() -> None:
    files: Any = OneFile()
    file = PlainAclFile(files, "plain_acl.yml")
    assert file.read() is not None
    assert file.read() is None
    files.data = FILE.replace(b"topicB=DENY", b"topicB=PUB")
    changed = file.read()
    assert changed is not None
    files.data = b"["
    with pytest.raises(UsageError, match="plain_acl"):
        file.read()
    assert file.read() is None, "the same broken file is told once"
