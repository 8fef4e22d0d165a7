"""What our own client does with a driver's: it tells the life of a message, asks, and answers."""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack

from staticfire.client import (
    Admin,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    message_lives,
)

WORDS = ("life", "request", "answer")
"""What can be asked for."""
REQUEST_TIMEOUT_MS = 20_000
QUESTION = b"our question"


class OurSide:
    """Our client beside a driver, until the driver ends."""

    def __init__(self, namesrv: str, running: ExitStack) -> None:
        self._namesrv = namesrv
        self._running = running

    def do(self, requested: Mapping[str, str]) -> str:
        """Do what is asked for; return a line that says how it went."""
        if "life" in requested:
            return asyncio.run(self._life(requested["life"]))
        if "request" in requested:
            return self._request(requested["request"])
        self._answer(requested["answer"])
        return "answering"

    async def _life(self, message_id: str) -> str:
        """Return what is known of a message, as `stored/store sent/trace`."""
        async with Admin(self._namesrv) as admin:
            lives = await message_lives(admin, message_id)
        events = [event for life in lives.values() for event in life.events]
        return " ".join(f"{event.what.replace(' ', '-')}/{event.source}" for event in events)

    def _request(self, topic: str) -> str:
        """Ask a consumer of the driver's; return its reply."""
        with Producer("our-askers", self._namesrv) as producer:
            return producer.request(Message(topic, QUESTION), REQUEST_TIMEOUT_MS).body.decode()

    def _answer(self, topic: str) -> None:
        """Answer from now on whatever is asked in a topic."""
        with Admin(self._namesrv) as admin:
            admin.create_topic(topic, 4)
        producer = self._running.enter_context(Producer("our-answerers", self._namesrv))
        settings = PushSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
        consumer = PushConsumer("our-servers", self._namesrv, settings)
        consumer.subscribe(topic)

        @consumer.listener
        def listen(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
            for message in messages:
                producer.reply(message, b"our answer to " + message.body)
            return ConsumeStatus.CONSUME_SUCCESS

        self._running.enter_context(consumer)
