"""Settings, read and changed while the nameserver runs."""

import pytest

from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.java_properties import read_properties
from staticfire.protocol.requests.routes import GetNameserverConfig, UpdateNameserverConfig
from staticfire.runtime.live_settings import as_properties, change_settings
from tests.nameserver.asking import registration
from tests.nameserver.conftest import Connect


async def test_settings_are_read_under_rocketmqs_names(connect: Connect, codec: int) -> None:
    answer = await connect(codec=codec).ask(GetNameserverConfig())
    properties = read_properties(answer.body.decode())
    assert properties["listenPort"] == "9876"
    assert properties["scanNotActiveBrokerInterval"] == "5000"
    assert properties["returnOrderTopicConfigToBroker"] == "true"


async def test_a_changed_setting_counts_from_then_on(connect: Connect, codec: int) -> None:
    client = connect(codec=codec)
    await client.ask(registration())
    assert (await client.raw(206))[0]["code"] == 0
    assert (await client.ask(UpdateNameserverConfig(body=b"enableAllTopicList=false\n"))).code == 0
    assert (await client.raw(206))[0]["code"] == 1


@pytest.mark.parametrize("key", ["kvConfigPath", "configStorePath", "configBlackList", "listenPort", "folder"])
async def test_what_cannot_change_is_refused_with_all_that_came_along(connect: Connect, key: str) -> None:
    client = connect()
    header, _ = await client.raw(318, f"enableTopicList=false\n{key}=1".encode())
    assert (header["code"], header["remark"]) == (16, "Can not update config in black list.")
    assert (await client.raw(224, cluster="C"))[0]["code"] == 0


@pytest.mark.parametrize("body", [b"", b"foo=bar", b"scanNotActiveBrokerInterval=soon", b"\xff\xfe"])
async def test_what_is_not_understood_is_ignored(connect: Connect, body: bytes) -> None:
    assert (await connect().raw(318, body))[0]["code"] == 0


async def test_what_is_ignored_is_told(connect: Connect) -> None:
    header, _ = await connect().raw(318, b"foo=bar\nscanNotActiveBrokerInterval=soon\nenableTopicList=true")
    assert header["remark"] == (
        "foo is ignored: there is no such setting; scanNotActiveBrokerInterval is ignored: the value can't be read"
    )


def test_values_are_read_as_java_reads_them() -> None:
    texts = {"enableTopicList": "yes", "orderMessageEnable": " TRUE", "waitSecondsForService": "7"}
    settings = change_settings(NameserverSettings(), texts).settings
    assert (settings.enable_topic_list, settings.order_message_enable, settings.wait_seconds_for_service) == (
        False,
        True,
        7,
    )
    change = change_settings(settings, as_properties(NameserverSettings()))
    assert change.settings == NameserverSettings()
    assert change.changed == {
        "enable_topic_list": "true",
        "order_message_enable": "false",
        "wait_seconds_for_service": "45",
    }
