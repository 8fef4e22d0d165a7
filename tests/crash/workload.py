"""What clients ask of a broker, all mixed: each of them one thing after the other, by chance."""

import asyncio
from random import Random

from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.reset_offset import ResetOffset
from staticfire.protocol.requests.topics import DeleteTopic
from staticfire.protocol.requests.upkeep import DeleteExpired
from tests.crash.ledger import Ledger
from tests.scenarios.broker_stand import BrokerStand

TOPICS = ("a", "b", "c", "d")
GROUPS = ("billing", "shipping")
QUEUES = 2
LATER = "later"
# Where delayed messages go.


class Client:
    """Asks until it is cancelled; answers of a broker that ends are failures."""

    def __init__(self, stand: BrokerStand, ledger: Ledger, random: Random, name: str) -> None:
        self._stand = stand
        self._ledger = ledger
        self._random = random
        self._name = name
        self._count = 0

    async def run(self) -> None:
        kinds = (
            [self.send] * 60 + [self._burst] * 8 + [self._send_later] * 10 + [self._commit] * 15 + [self._pause] * 20
            + [self._create] * 2 + [self._delete] * 2 + [self._remove_old] * 3 + [self._move_group] * 2
        )  # fmt: skip
        if self._random.random() < 0.2:
            kinds.append(self._reset)
        while True:
            try:
                await self._random.choice(kinds)()
            except StaticfireError:
                await asyncio.sleep(0.05)  # house: virtual time

    async def send(self) -> None:
        topic = self._random.choice(TOPICS)
        await self._send_to(topic, self._random.randrange(QUEUES), False)

    async def _burst(self) -> None:
        topic, queue_id = self._random.choice(TOPICS), self._random.randrange(QUEUES)
        async with asyncio.TaskGroup() as group:
            for _ in range(self._random.randrange(2, 12)):
                group.create_task(self._send_quietly(topic, queue_id))

    async def _send_quietly(self, topic: str, queue_id: int) -> None:
        try:
            await self._send_to(topic, queue_id, False)
        except StaticfireError:
            pass

    async def _send_later(self) -> None:
        await self._send_to(LATER, self._random.randrange(QUEUES), True)

    async def _send_to(self, topic: str, queue_id: int, is_delayed: bool) -> None:
        self._count += 1
        body = b"%s-%d " % (self._name.encode(), self._count)
        body += b"." * self._random.choice((10, 100, 700, 2_000))
        message = self._ledger.sent(body, (topic, queue_id), is_delayed)
        delay = {"DELAY": str(self._random.choice((1, 1, 2)))} if is_delayed else {}
        answer = await self._stand.send(topic, body, queue_id, None, None, **delay)
        if answer.msg_id:
            self._ledger.answered(message, answer.code, int(answer.msg_id[-16:], 16), answer.queue_offset or 0)
        else:
            self._ledger.answered(message, answer.code, -1, -1)

    async def _commit(self) -> None:
        """Commit as far as there are messages now, as a group does that has consumed them."""
        topic, queue_id = self._random.choice((*TOPICS, LATER)), self._random.randrange(QUEUES)
        group, tables = self._random.choice(GROUPS), self._stand.broker.tables
        await asyncio.sleep(0)
        if topic in tables.topics.topics and not self._ledger.is_frozen:
            # Not by requests: a deletion could come between asking for the end and committing it.
            end = tables.state.store.queue(topic, queue_id).max_offset
            tables.groups.offsets.commit(group, topic, queue_id, end)

    async def _move_group(self) -> None:
        await self._stand.ask(ResetOffset(self._random.choice(TOPICS), self._random.choice(GROUPS), -1, True))

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.choice((0.001, 0.02, 0.3, 1.5)))  # house: virtual time

    async def _create(self) -> None:
        await self._stand.put_topic(self._random.choice(TOPICS), QUEUES)

    async def _delete(self) -> None:
        topic = self._random.choice(TOPICS)
        going = self._ledger.deleting(topic)
        if (await self._stand.ask(DeleteTopic(topic))).code == 0:
            self._ledger.deleted(topic, going)

    async def _reset(self) -> None:
        going = self._ledger.deleting(None)
        if (await self._stand.ask(Reset())).code == 0:
            self._ledger.deleted(None, going)

    async def _remove_old(self) -> None:
        await self._stand.ask(DeleteExpired())
