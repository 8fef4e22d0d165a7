"""The queue type that clients use. RocketMQ: MessageQueue."""

from typing import NamedTuple


class MessageQueue(NamedTuple):  # house: protocol/requests/locks.py has it as it travels, under RocketMQ's name, too
    """One queue of a topic on one broker. Sorted as in RocketMQ: by topic, broker name, then queue id as a number."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic} {self.broker_name}/{self.queue_id}"
