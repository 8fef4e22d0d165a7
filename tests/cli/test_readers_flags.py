"""Flags that choose what commands show: tags, queues, times, RocketMQ's own groups."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from staticfire import (
    Cluster,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    PushSettings,
)
from staticfire.cli import main

Show = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two queues, each with one message; the second one is stored an hour later. A group has consumed both."""
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=2)
        with Producer("shop", cluster.namesrv) as producer:
            for queue, tag in enumerate(("paid", "open")):
                message = Message("orders", tag.encode(), tags=tag, keys=["order-1"])
                producer.send(message, queue=MessageQueue("orders", "broker-a", queue))
                cluster.clock.advance(hours=1)
        settings = PushSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
        consumer = PushConsumer("billing", cluster.namesrv, settings)
        consumer.subscribe("orders")
        consumer.listener(lambda _messages, _context: ConsumeStatus.CONSUME_SUCCESS)
        with consumer:
            cluster.clock.advance(seconds=1)  # It returns when all is consumed.
        yield cluster


@pytest.fixture
def show(cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Show:
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)

    def run(line: str, exit_code: int = 0) -> list[dict[str, Any]]:
        capsys.readouterr()
        assert main([*line.split(), "--json"]) == exit_code
        return [json.loads(each) for each in capsys.readouterr().out.splitlines()]

    return run


def test_peek_shows_the_messages_of_a_tag(show: Show) -> None:
    assert [one["tags"] for one in show("peek orders --tag open")] == ["open"]
    assert len(show("peek orders")) == 2


def test_a_message_is_looked_for_up_to_a_time_and_so_many_are_shown(show: Show) -> None:
    both = show("message order-1")
    assert len(both) == 2
    first = min(show("peek orders"), key=lambda one: int(one["storedMs"]))
    before = show(f"message order-1 --to {first['storedMs']}")
    assert [one["messageId"] for one in before] == [first["messageId"]]
    assert len(show("message order-1 --max 1")) == 1


def test_the_journal_shows_one_queue(show: Show) -> None:
    assert {one["queueId"] for one in show("journal delivered")} == {0, 1}
    assert {one["queueId"] for one in show("journal delivered --queue 1")} == {1}


def test_rocketmqs_own_groups_are_shown_if_that_is_wanted(show: Show) -> None:
    shown = {one["group"] for one in show("groups")}
    assert shown < {one["group"] for one in show("groups --all")}
