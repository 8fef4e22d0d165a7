"""Key-value configuration as a value, and as the file that RocketMQ writes."""

import pytest

from staticfire.nameserver.kv_config import KVConfig
from staticfire.protocol.errors import ProtocolError


def test_a_change_leaves_the_former_value_alone() -> None:
    before = KVConfig()
    after = before.with_value("n", "k", "v")
    assert (before.get("n", "k"), after.get("n", "k")) == (None, "v")
    assert after.without("n", "k").get("n", "k") is None
    assert after.get("n", "k") == "v"


def test_a_namespace_that_was_there_once_stays() -> None:
    emptied = KVConfig().with_value("n", "k", "v").without("n", "k")
    assert emptied.table("n") == {}
    assert emptied.table("unknown") is None
    assert KVConfig().with_value("n", "k", None).table("n") == {}


def test_removing_what_is_not_there_changes_nothing() -> None:
    config = KVConfig().with_value("n", "k", "v")
    assert config.without("n", "other") is config
    assert config.without("other", "k") is config


def test_the_file_is_rocketmqs() -> None:
    config = (
        KVConfig().with_value("a", "b", "c").without("a", "b").with_value("ORDER_TOPIC_CONFIG", "TBW102", "broker-a:4")
    )
    data = b'{"configTable":{"a":{},"ORDER_TOPIC_CONFIG":{"TBW102":"broker-a:4"}}}'
    assert config.encode() == data
    assert KVConfig.decode(data).encode() == data


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b"[]", b"null", b"\xff", b'{"configTable":', b'{"configTable":null}', b'{"configTable":{"n":7}}',
        b'{"configTable":{"n":{"k":{}}}}', b'{"configTable":' + b'{"n":' * 5_000,
    ],
)  # fmt: skip
def test_a_broken_file_is_reported(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        KVConfig.decode(data)
