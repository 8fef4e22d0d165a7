"""Topics that are created before the program, and the test that repeats such a run."""

import pytest

from staticfire import Admin, Cluster
from staticfire.chaos.broken import Broken
from staticfire.chaos.repeating import as_test
from staticfire.chaos.running import TriedProgram
from staticfire.chaos.topics import WantedTopic, create_topics, parse_topic
from staticfire.protocol.errors import UsageError


def test_name_and_type() -> None:
    assert parse_topic("orders") == WantedTopic("orders")
    assert parse_topic("steps:FIFO") == WantedTopic("steps", "FIFO")
    assert str(parse_topic("steps:FIFO")) == "steps:FIFO"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps:fifo", "the types are NORMAL, FIFO"),
        ("steps:", "the types are NORMAL, FIFO"),
        ("", "--topic :"),
        ("a b", "--topic a b"),
        ("RMQ_SYS_TRACE_TOPIC", "is a system topic"),
    ],
)
def test_wrong_topic(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_topic(text)


async def test_topics_are_created_with_their_type() -> None:
    async with Cluster() as cluster, Admin(cluster.namesrv) as admin:
        await create_topics(cluster.namesrv, [WantedTopic("orders"), WantedTopic("steps", "FIFO")])
        assert {"orders", "steps"} <= set(await admin.topics())
        [broker] = cluster.addresses
        config = await admin.topic_config("steps", broker)
        assert {name.lstrip("+"): kind for name, kind in config.attributes.items()} == {"message.type": "FIFO"}


def test_test_creates_them_and_has_an_endpoint() -> None:
    program = TriedProgram(("./billing",), 10, topics=(WantedTopic("steps", "FIFO"),))
    source = as_test(1, [], [Broken("exit", "", "it failed")], program)
    compile(source, "test_seed.py", "exec")
    assert 'subprocess.run(["staticfire", "create", "steps", "--attribute", "message.type=FIFO"]' in source
    assert 'environment["ROCKETMQ_ENDPOINT"] = cluster.grpc_endpoint' in source
    assert '@pytest.mark.rocketmq(isolation="process", grpc=True)' in source
