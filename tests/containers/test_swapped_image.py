"""A compose file written for RocketMQ's image, with `sh mqbroker -c broker.conf`, and only the image swapped."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.clients import (
    COUNT,
    consume_on_host,
    java_in_container,
    java_on_host,
    send_and_consume_in_container,
    send_from_host,
)
from tests.containers.conftest import running
from tests.containers.docker import Project, docker, docker_log

pytestmark = [pytest.mark.row("E2"), pytest.mark.foreign, pytest.mark.timeout(300)]

BROKER_CONF = """\
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
listenPort=10911
haListenPort=10912
autoCreateTopicEnable=true
autoCreateSubscriptionGroups=true
syncFlushTimeout=5*1000
"""
BROKER_B_CONF = """\
brokerName=broker-b
listenPort=10931
storePathRootDir=/home/rocketmq/store-b
namesrvAddr=elsewhere:1
"""


@pytest.fixture(scope="module")
def project(image: str, folder: Path) -> Iterator[Project]:
    text = (Path(__file__).parent / "swapped.yml").read_text()
    files = {"broker.conf": BROKER_CONF, "broker-b.conf": BROKER_B_CONF}
    for project in running("staticfire-swapped", folder, text, "rocketmq", files):
        yield project
        shutil.rmtree(folder / "store-b", ignore_errors=True)


def test_programs_on_the_host_and_in_containers_use_it(project: Project, tmp_path: Path) -> None:
    assert {message["brokerName"] for message in send_from_host(project, "orders")} == {"broker-a", "broker-b"}
    assert consume_on_host(project, "orders", "readers") == COUNT
    assert send_and_consume_in_container(project, "near", "near-readers") == COUNT
    java_on_host(project, "java-host", tmp_path)
    java_in_container(project, "java-container")


def test_scripts_find_rocketmqs_log_lines(project: Project) -> None:
    assert "The Name Server boot success. serializeType=JSON" in docker_log(project.container("rmqnamesrv"))
    log = docker_log(project.container("rmqbroker"))
    assert "The broker[broker-a, " in log
    assert f"] boot success. serializeType=JSON and name server is {project.container('rmqnamesrv')}:9876" in log


def test_the_log_shows_once_what_of_the_file_does_not_count(project: Project) -> None:
    log = docker_log(project.container("rmqbroker"))
    assert log.count("have no effect here: haListenPort\n") == 1
    assert "autoCreateSubscriptionGroups: did you mean autoCreateSubscriptionGroup?" in log
    assert "syncFlushTimeout=5*1000 can't be read: it must be a whole number from 1" in log


def test_data_is_where_the_file_says(project: Project) -> None:
    in_volume = docker("exec", project.container("rmqbroker"), "ls", "/home/rocketmq/store")
    assert {"commitlog", "config", "consumequeue"} <= set(in_volume.split())
    in_folder = docker("exec", project.container("rmqbroker-b"), "ls", "/home/rocketmq/store-b")
    assert {"commitlog", "config", "consumequeue"} <= set(in_folder.split())


def test_mqadmin_is_there_as_quick_starts_call_it(project: Project) -> None:
    broker = project.container("rmqbroker")
    flags = ["-n", "namesrv:9876", "-t", "TestTopic", "-c", "DefaultCluster"]
    created = docker("exec", broker, "sh", "mqadmin", "updatetopic", *flags)
    assert created.count("create topic to ") == 2
    assert len(docker("exec", broker, "mqadmin", "clusterList", "-n", "namesrv:9876").splitlines()) == 3


def test_the_image_has_a_file_where_people_name_one_that_they_do_not_mount(image: str) -> None:
    shown = docker("run", "--rm", image, "sh", "mqbroker", "-p", "-c", "../conf/broker.conf").splitlines()
    assert {"brokerName=broker-a", "storePathRootDir=/home/rocketmq/store", "externalHost=127.0.0.1"} <= set(shown)
