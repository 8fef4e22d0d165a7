"""Names in a namespace, against what RocketMQ's NamespaceUtil makes of them."""

import pytest

from staticfire.client.cluster.namespaces import Namespace
from staticfire.protocol.errors import UsageError
from staticfire.protocol.names import REPLY_SUFFIX, retry_topic
from tests.javafacts.facts import Fact, read_facts


def is_different(fact: Fact) -> bool:
    """Reply topics are in no namespace here."""
    return fact.parts[2].endswith(REPLY_SUFFIX)


@pytest.mark.parametrize("how", ["wrap", "unwrap", "retry"])
def test_names_are_what_rocketmq_makes_of_them(how: str) -> None:
    facts = [fact for fact in read_facts(how) if fact.parts[2] and not is_different(fact)]
    assert len(facts) > 80
    for fact in facts:
        _, name, text = fact.parts
        namespace = Namespace(name)
        made = {
            "wrap": namespace.wrap(text),
            "unwrap": namespace.unwrap(text),
            "retry": retry_topic(namespace.wrap(text)),
        }
        assert made[how] == fact.answer, fact.parts


@pytest.mark.parametrize("name", ["a%b", "a b", "%", "ä", "x" * 128])
def test_a_namespace_that_no_topic_can_be_in_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="can't be part of a topic's name"):
        Namespace(name)
