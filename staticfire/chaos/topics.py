"""`--topic orders --topic steps:FIFO`: topics that are there before the program starts, in each run.

A client of RocketMQ 5 can't create a topic by a send: its endpoint refuses topics that don't exist.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from staticfire.protocol.errors import UsageError
from staticfire.protocol.names import is_system_topic, topic_fault

if TYPE_CHECKING:
    from staticfire.client import ClientSettings

TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")


class WantedTopic(NamedTuple):
    """A topic, and the type of its messages; an empty type takes all of them."""

    name: str
    type: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.type}" if self.type else self.name

    @property
    def command(self) -> list[str]:
        """The command line that creates it."""
        attribute = ["--attribute", f"message.type={self.type}"] if self.type else []
        return ["staticfire", "create", self.name, *attribute]


def parse_topic(text: str) -> WantedTopic:
    """Return the topic in a text like `steps:FIFO`. Raises: UsageError."""
    name, separator, kind = text.partition(":")
    if separator and kind not in TYPES:
        raise UsageError(f"--topic {text}: {kind!r} is no type of messages; the types are {', '.join(TYPES)}")
    if fault := topic_fault(name):
        raise UsageError(f"--topic {text}: {fault}")
    if is_system_topic(name):
        raise UsageError(f"--topic {text}: {name} is a system topic of RocketMQ; choose another name")
    return WantedTopic(name, kind)


async def create_topics(namesrv: str, topics: Sequence[WantedTopic], settings: "ClientSettings | None" = None) -> None:
    """Create topics. Raises: BrokerAnswer, NetworkError."""
    if not topics:
        return
    from staticfire.client import Admin

    async with Admin(namesrv, settings) as admin:
        for topic in topics:
            attributes = {"message.type": topic.type} if topic.type else None
            await admin.create_topic(topic.name, attributes=attributes)
