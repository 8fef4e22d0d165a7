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


async def test_an_empty_update_is_fine(connect: Connect) -> None:
    assert (await connect().raw(318, b""))[0]["code"] == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("foo=bar", "foo=bar: there is no such setting"),
        ("\xff\xfe", "\ufffd\ufffd=: there is no such setting"),
        (
            "scanNotActiveBrokerInterval=soon",
            "scanNotActiveBrokerInterval=soon: it must be a whole number from 1 to",
        ),
        ("scanNotActiveBrokerInterval=0", "scanNotActiveBrokerInterval=0: it must be a whole number from 1 to"),
        ("brokerExpiryMs=-1", "brokerExpiryMs=-1: it must be a whole number from 1 to"),
        ("tls.server.mode=enforcing", "tls.server.mode=enforcing: it is read only at the start, and is permissive"),
        ("tls.enable=true", "tls.enable=true: it is read only at the start, and is"),
        ("unfinishedFrameMsMax=1", "unfinishedFrameMsMax=1: it is read only at the start, and is 60000"),
    ],
)
async def test_what_cannot_count_is_refused_with_all_that_came_along(connect: Connect, line: str, words: str) -> None:
    client = connect()
    header, _ = await client.raw(318, b"enableTopicList=false\n" + line.encode("latin-1"))
    assert (header["code"], header["remark"][: 21 + len(words)]) == (29, f"nothing was changed; {words}")
    assert (await client.raw(224, cluster="C"))[0]["code"] == 0


def test_values_are_read_as_at_the_start() -> None:
    texts = {"enableTopicList": "no", "orderMessageEnable": " TRUE", "brokerExpiryMs": "7s"}
    settings = change_settings(NameserverSettings(), texts).settings
    assert (settings.enable_topic_list, settings.order_message_enable, settings.broker_expiry_ms) == (
        False,
        True,
        7_000,
    )
    change = change_settings(settings, as_properties(NameserverSettings()))
    assert change.settings == NameserverSettings()
    assert change.changed == {
        "enable_topic_list": "true",
        "order_message_enable": "false",
        "broker_expiry_ms": "120000",
    }
