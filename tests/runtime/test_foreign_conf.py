"""A broker.conf that was written for RocketMQ: which lines take effect, and what is reported of the rest."""

from pathlib import Path

import pytest

from staticfire.broker.settings import BrokerSettings
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.errors import UsageError
from staticfire.runtime.live_settings import change_settings
from staticfire.runtime.loading import load_settings

pytestmark = pytest.mark.row("E2")

SHIPPED = """\
# Licensed to the Apache Software Foundation (ASF) under one or more
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
"""


class Conf:
    """A file, read as a program does."""

    def __init__(self, folder: Path, text: str | bytes, environment: dict[str, str] | None = None) -> None:
        file = folder / "broker.conf"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.reported: list[str] = []
        self.settings = load_settings(BrokerSettings, {}, environment or {}, str(file), tell=self.reported.append)
        self.reported = [line.removeprefix(f"{file}: ") for line in self.reported]


def test_the_file_that_rocketmq_ships_counts_and_says_nothing(tmp_path: Path) -> None:
    conf = Conf(tmp_path, SHIPPED)
    assert conf.settings == BrokerSettings(file_reserved_time=48)
    assert conf.reported == []


def test_escapes_and_long_lines_are_those_of_java(tmp_path: Path) -> None:
    conf = Conf(tmp_path, "brokerName:broker\\u002db\r\nmessageDelayLevel=1s \\\n   5s\n! a comment\n")
    assert conf.settings == BrokerSettings(broker_name="broker-b", message_delay_level="1s 5s")


def test_names_of_earlier_versions_count(tmp_path: Path) -> None:
    conf = Conf(tmp_path, "mapedFileSizeCommitLog=1048576\nbindAddress=127.0.0.1\n")
    assert conf.settings == BrokerSettings(mapped_file_size_commit_log=1048576, listen_host="127.0.0.1")
    assert conf.reported == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("channelExpiredTimeout=5000", BrokerSettings(channel_expired_timeout_ms=5_000)),
        ("brokerNotActiveTimeoutMillis=5000", BrokerSettings(broker_heartbeat_timeout_ms=5_000)),
        ("brokerHeartbeatInterval=500", BrokerSettings(broker_heartbeat_interval=500)),
        ("bindAddress=127.0.0.1", BrokerSettings(listen_host="127.0.0.1")),
        ("mapedFileSizeCommitLog=1048576", BrokerSettings(mapped_file_size_commit_log=1_048_576)),
    ],
)
def test_rocketmqs_names_count_in_files_flags_and_updates(tmp_path: Path, line: str, expected: BrokerSettings) -> None:
    key, _, value = line.partition("=")
    assert Conf(tmp_path, line).settings == expected
    assert load_settings(BrokerSettings, {key: value}, {}, None) == expected
    assert change_settings(BrokerSettings(), {key: value}).settings == expected


def test_what_means_nothing_here_is_reported_in_one_line(tmp_path: Path) -> None:
    conf = Conf(tmp_path, "haListenPort=10912\nauthenticationStrategy=x\nstorePathCommitLog=/store/commitlog\n")
    assert conf.settings == BrokerSettings()
    assert conf.reported == [
        "settings of RocketMQ that have no effect here: authenticationStrategy, haListenPort, storePathCommitLog"
    ]


def test_an_unknown_name_is_reported_with_the_likely_one(tmp_path: Path) -> None:
    conf = Conf(tmp_path, "autoCreateTopicEnabel=false\nwhatever=1\nhaListenPrt=1\n")
    assert conf.settings == BrokerSettings()
    assert conf.reported == [
        "unknown setting autoCreateTopicEnabel: did you mean autoCreateTopicEnable?",
        "unknown setting whatever",
        "unknown setting haListenPrt: did you mean haListenPort?",
    ]


def test_a_value_that_is_no_literal_is_reported_and_the_default_applies(tmp_path: Path) -> None:
    conf = Conf(tmp_path, "syncFlushTimeout=29*1000\nflushDiskType=SOMETIMES\nbrokerName=kept\n")
    assert conf.settings == BrokerSettings(broker_name="kept")
    assert conf.reported == [
        "syncFlushTimeout=29*1000 can't be read: it must be a whole number from 1 to 2147483647, as a literal; "
        "the default 5000 is used",
        "flushDiskType=SOMETIMES can't be read: it must be ASYNC_FLUSH or SYNC_FLUSH, as a literal; "
        "the default ASYNC_FLUSH is used",
    ]


@pytest.mark.parametrize(
    ("line", "takes"),
    [
        ("mappedFileSizeCommitLog=0", "a whole number from 16384 to 2147483647"),
        ("mappedFileSizeCommitLog=10", "a whole number from 16384 to 2147483647"),
        ("fileReservedTime=-1", "a whole number from 0 to 1000000"),
        ("defaultTopicQueueNums=0", "a whole number from 1 to 65536"),
        ("flushIntervalCommitLog=-500", "a whole number from 1 to 2147483647"),
        ("listenPort=65536", "a whole number from 0 to 65535"),
        ("brokerName=", "text of 1 to 255 characters"),
    ],
)
def test_a_value_that_nothing_could_work_with_is_refused(tmp_path: Path, line: str, takes: str) -> None:
    """At the start, by file or flag, and while the broker runs: one line has the setting, its value and its range."""
    key, _, value = line.partition("=")
    refused = []
    for give in (
        lambda: Conf(tmp_path, f"{line}\n"),
        lambda: load_settings(BrokerSettings, {key: value}, {}, None),
        lambda: change_settings(BrokerSettings(), {key: value}),
    ):
        with pytest.raises(UsageError) as caught:
            give()
        refused.append(str(caught.value))
    assert [(line in words, takes in words, "\n" in words) for words in refused] == [(True, True, False)] * 3


def test_a_file_full_of_unknown_names_is_reported_in_a_few_lines(tmp_path: Path) -> None:
    conf = Conf(tmp_path, "".join(f"setting{number}=1\n" for number in range(5_000)) + "brokerName=kept\n")
    assert conf.settings == BrokerSettings(broker_name="kept")
    assert len(conf.reported) == 21
    assert conf.reported[-1] == "4980 more unknown settings"


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    assert Conf(tmp_path, "brokerName=file\n", {"STATICFIRE_BROKER_NAME": "b"}).settings.broker_name == "b"


@pytest.mark.parametrize(("role", "broker_id"), [("SYNC_MASTER", 0), ("ASYNC_MASTER", 0), ("SLAVE", 1)])
def test_roles_count(tmp_path: Path, role: str, broker_id: int) -> None:
    conf = Conf(tmp_path, f"brokerRole={role}\nbrokerId={broker_id}\n")
    assert conf.settings == BrokerSettings(broker_role=role, broker_id=broker_id)
    assert conf.reported == []


def test_a_wrong_role_is_reported_and_the_default_is_used_as_in_rocketmq(tmp_path: Path) -> None:
    conf = Conf(tmp_path, "brokerRole=MASTER\n")
    assert conf.settings == BrokerSettings()
    assert len(conf.reported) == 1
    assert "brokerRole=MASTER can't be read" in conf.reported[0]


def test_comments_in_another_encoding_are_no_matter(tmp_path: Path) -> None:
    conf = Conf(tmp_path, "# 默认集群\nbrokerName=b\n".encode("gbk"))
    assert conf.settings.broker_name == "b"


def test_a_cluster_takes_a_file_whose_settings_are_for_several_programs(tmp_path: Path) -> None:
    file = tmp_path / "cluster.conf"
    file.write_text("needWaitForService=true\nbrokerName=b\nhaListenPort=1\n")
    reported: list[str] = []
    load_settings(NameserverSettings, {}, {}, str(file), (BrokerSettings,), reported.append)
    assert reported == [f"{file}: settings of RocketMQ that have no effect here: haListenPort"]
