"""Our client and command line, over RocketMQ's own protocol, against a real RocketMQ.

    tools/oracle.sh start /tmp/oracle            # prints its addresses
    python -m tests.oracle.own_client 127.0.0.1:19876

Each check is a coroutine that returns what it saw, in a few words, or raises. Exit code 1: one of them did.
"""

# house: one check after the other
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

from staticfire.client import (
    Admin,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    ConsumptionState,
    FoundMessages,
    Message,
    MessageQueue,
    OrderedContext,
    OrderedStatus,
    Producer,
    PullConsumer,
    PullSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    by_hash,
)
from staticfire.protocol.command import Request
from staticfire.protocol.errors import TopicNotFound
from staticfire.protocol.requests.connections import ConsumeDirectly, GetConsumerRunningInfo
from staticfire.protocol.requests.reset_offset import GetConsumerStatus, ResetOffset
from tests.oracle.own_groups import a_group_is_looked_at, dead_letters_go_again
from tests.oracle.own_pops import (
    invisible_times,
    pulled_then_popped,
    push_by_pops,
    receive_and_acknowledge,
    received_by_filter,
)
from tests.oracle.own_pulls import poll_assigned, poll_shared, pull_plainly
from tests.oracle.patience import BUSY_S, CLIENT, SENDS, TIMEOUT_MS

CHECK_TIMEOUT_S = 150
ASK_TIMEOUT_MS = 15_000
DELAY_LEVEL, DELAY_S = 2, 5
COMMAND = Path(sys.executable).with_name("staticfire")

Messages = tuple[ReceivedMessage, ...]


class Heard:
    """What listeners got, and a way to wait until it is enough."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, ReceivedMessage]] = []
        self._news = asyncio.Condition()

    async def add(self, who: str, messages: Messages) -> None:
        async with self._news:
            self.messages += [(who, message) for message in messages]
            self._news.notify_all()

    async def count(self, wanted: int) -> list[tuple[str, ReceivedMessage]]:
        async with self._news:
            await self._news.wait_for(lambda: len(self.messages) >= wanted)
        return self.messages


class Check:
    """A topic and a group of its own for one check, on one RocketMQ."""

    def __init__(self, namesrv: str, name: str) -> None:
        run = int(time.time())
        self.namesrv, self.topic, self.group = namesrv, f"own-{name}-{run}", f"own-{name}-{run}-group"

    def producer(self) -> Producer:
        return Producer("own-shop", self.namesrv, SENDS)

    def admin(self) -> Admin:
        return Admin(self.namesrv, CLIENT, timeout_ms=TIMEOUT_MS)

    def puller(self) -> PullConsumer:
        return PullConsumer("TOOLS_CONSUMER", self.namesrv, PullSettings(client=CLIENT))

    def consumer(self, heard: Heard, who: str = "one", fail_first: bool = False) -> PushConsumer:
        """Return a member that notes what it hears; `fail_first`: it lets each message come again once."""
        settings = PushSettings(client=CLIENT, consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
        consumer = PushConsumer(self.group, self.namesrv, settings)
        consumer.subscribe(self.topic)

        @consumer.listener
        async def listen(messages: Messages, _: ConsumeContext) -> ConsumeStatus:
            await heard.add(who, messages)
            if fail_first and messages[0].reconsume_times == 0:
                return ConsumeStatus.RECONSUME_LATER
            return ConsumeStatus.CONSUME_SUCCESS

        return consumer

    def ordered_consumer(self, heard: Heard, who: str) -> PushConsumer:
        """Return a member that works in order; it wants "slow" messages twice, and "bad" ones never come right."""
        settings = PushSettings(
            client=CLIENT,
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
            max_reconsume_times=2,
            suspend_current_queue_time_ms=100,
        )
        consumer = PushConsumer(self.group, self.namesrv, settings)
        consumer.subscribe(self.topic)

        @consumer.ordered_listener
        async def listen(messages: Messages, _: OrderedContext) -> OrderedStatus:
            message = messages[0]
            tries = message.reconsume_times
            await heard.add(who, messages)
            await asyncio.sleep(0.002)  # house: a listener that takes a while
            failed = message.tags == "bad" or (message.tags == "slow" and tries == 0)
            return OrderedStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT if failed else OrderedStatus.SUCCESS

        return consumer


async def topics_come_and_go(check: Check) -> str:
    async with check.admin() as admin:
        await admin.create_topic(check.topic, queues=3)
        config = await admin.topic_config(check.topic, "broker-a")
        assert (config.read_queue_nums, config.write_queue_nums) == (3, 3), config
        assert check.topic in await admin.topics()
        await admin.delete_topic(check.topic)
        try:
            await admin.route(check.topic)
        except TopicNotFound:
            return "created with 3 queues, listed, deleted"
    raise AssertionError(f"{check.topic} has still a route")


async def every_kind_of_send(check: Check) -> str:
    async with check.admin() as admin, check.producer() as producer, check.puller() as puller:
        await admin.create_topic(check.topic, queues=4)
        single = await producer.send(Message(check.topic, b"single", tags="paid", keys=["42"], properties={"a": "b"}))
        batch = await producer.send_batch([Message(check.topic, b"batch %d" % number) for number in range(3)])
        assert len(batch.message_id.split(",")) == 3, batch
        ordered = [await producer.send(Message(check.topic, b"o"), selector=by_hash, key="order-1") for _ in range(3)]
        assert len({result.queue for result in ordered}) == 1, ordered
        offsets = [result.queue_offset for result in ordered]
        assert offsets == list(range(offsets[0], offsets[0] + 3)), offsets
        await producer.send_oneway(Message(check.topic, b"one way"))
        many = await producer.send_many([Message(check.topic, b"x" * 6_000) for _ in range(50)])
        assert len({result.message_id for result in many}) == 50
        pulled = (await puller.pull(single.queue, single.queue_offset, wait_ms=1_000)).messages[0]
        seen = (pulled.body, pulled.tags, pulled.keys, pulled.properties["a"], pulled.message_id)
        assert seen == (b"single", "paid", ["42"], "b", single.message_id), seen
        assert pulled.offset_message_id == single.offset_message_id, (pulled.offset_message_id, single)
    return "single, batch, ordered, one-way, compressed; read back as they were"


async def delayed_messages_wait(check: Check) -> str:
    heard = Heard()
    async with check.admin() as admin, check.producer() as producer:
        await admin.create_topic(check.topic, queues=1)
        async with check.consumer(heard):
            sent_s = time.monotonic()
            result = await producer.send(Message(check.topic, b"later", delay_level=DELAY_LEVEL))
            ((_, message),) = await heard.count(1)
            waited_s = time.monotonic() - sent_s
    assert message.message_id == result.message_id, (message, result)
    assert DELAY_S - 0.5 <= waited_s <= DELAY_S + BUSY_S, waited_s
    return f"level {DELAY_LEVEL} after {waited_s:.1f} s"


async def two_consumers_share(check: Check) -> str:
    heard = Heard()
    async with check.admin() as admin, check.producer() as producer:
        await admin.create_topic(check.topic, queues=4)
        async with check.consumer(heard, "one") as one:
            shrunk = asyncio.Event()
            one.on_queues_changed(
                lambda topic, _, own: shrunk.set() if topic == check.topic and len(own) == 2 else None
            )
            async with check.consumer(heard, "two") as two:
                await shrunk.wait()
                shares = [[queue for queue in member.assignment if queue.topic == check.topic] for member in (one, two)]
                assert [len(set(share)) for share in shares] == [2, 2], shares
                assert not set(shares[0]) & set(shares[1]), shares
                await producer.send_many([Message(check.topic, b"%d" % number) for number in range(200)])
                messages = await heard.count(200)
    owners = {who for who, _ in messages}
    assert owners == {"one", "two"}, owners
    bodies = sorted(int(message.body) for _, message in messages)
    assert bodies == list(range(200)), bodies
    return "200 messages, once each, two queues per member"


async def failures_come_back(check: Check) -> str:
    heard = Heard()
    async with check.admin() as admin, check.producer() as producer:
        await admin.create_topic(check.topic, queues=1)
        async with check.consumer(heard, fail_first=True):
            result = await producer.send(Message(check.topic, b"again", tags="paid"))
            (_, first), (_, second) = await heard.count(2)
    assert first.message_id == second.message_id == result.message_id, (first, second)
    assert (first.reconsume_times, second.reconsume_times) == (0, 1), (first, second)
    assert (second.topic, second.body, second.tags) == (check.topic, b"again", "paid"), second
    return "same unique id, its own topic, reconsume times 1"


async def conditions_choose(check: Check) -> str:
    heard, condition = Heard(), "price > 100 AND region IN ('eu', 'us')"
    async with check.producer() as producer, check.consumer(heard) as consumer:
        consumer.subscribe(check.topic, condition, "SQL92")
        for price in (1, 300, 2, 400):
            await producer.send(Message(check.topic, b"%d" % price, properties={"price": str(price), "region": "eu"}))
        bodies = {message.body for _, message in await heard.count(2)}
        assert bodies == {b"300", b"400"}, bodies
    async with check.puller() as puller:
        found = [
            message
            for queue in await puller.queues(check.topic)
            for message in (await puller.pull(queue, 0, condition, expression_type="SQL92")).messages
        ]
    assert len(found) == 2, found
    return "2 of 4 heard and pulled"


async def requests_are_answered(check: Check) -> str:
    """Over RocketMQ's own broker, which passes replies on."""
    producer, consumer = check.producer(), check.consumer(Heard())

    @consumer.listener
    async def answer(messages: Messages, _: ConsumeContext) -> ConsumeStatus:
        for message in messages:
            await producer.reply(message, message.body.upper())
        return ConsumeStatus.CONSUME_SUCCESS

    async with producer, consumer:
        asks = [producer.request(Message(check.topic, b"ping-%d" % number), 20_000) for number in range(10)]
        replies = await asyncio.gather(*asks)
    assert [reply.body for reply in replies] == [b"PING-%d" % number for number in range(10)], replies
    return "10 requests, 10 replies"


async def messages_are_found(check: Check) -> str:
    heard = Heard()
    async with check.producer() as producer, check.admin() as admin:
        sent = await producer.send(Message(check.topic, b"x", keys=(check.topic,)))
        async with check.consumer(heard):
            await heard.count(1)
        found = await admin.find(sent.offset_message_id or "")
        while len(found) < 3:  # RocketMQ's index is behind for a moment.
            found = FoundMessages([*found[:1], *await admin.find(check.topic), *await admin.find(sent.message_id)])
        assert {message.message_id for message in found} == {sent.message_id}, found
        groups = {one.group: one.state for one in await admin.consumption(found[0])}
    assert groups == {check.group: ConsumptionState.CONSUMED}, groups
    return "by key and both ids; consumed"


async def ordered_consumption(check: Check) -> str:
    """Two members come and go while messages flow: each queue stays in order, nothing comes twice but what failed."""
    heard = Heard()
    async with check.admin() as admin, check.producer() as producer:
        await admin.create_topic(check.topic, queues=4)
        queues = [MessageQueue(check.topic, "broker-a", number) for number in range(4)]

        async def feed(first: int, last: int) -> None:
            for number in range(first, last):
                tags = {60: "slow", 120: "bad"}.get(number, "")
                for queue in queues:
                    await producer.send(Message(check.topic, b"%d" % number, tags=tags), queue=queue)

        async with check.ordered_consumer(heard, "one") as one:
            feeding = asyncio.create_task(feed(0, 60))
            await heard.count(50)
            async with check.ordered_consumer(heard, "two") as two:
                await own_queues(two, check.topic, 2)
                await feeding
                feeding = asyncio.create_task(feed(60, 150))
                await heard.count(450)  # At most 240 + 2 * 93 by the first member, however slow the other one is.
            left_s = time.monotonic()
            await own_queues(one, check.topic, 4)
            moved_ms = (time.monotonic() - left_s) * 1_000
            await feeding
            messages = await heard.count(4 * (150 + 1 + 2))
        dead = MessageQueue(f"%DLQ%{check.group}", "broker-a", 0)
        assert await admin.offsets.max_offset(dead) == 4, "each queue has one bad message"
    wanted = [number for number in range(150) for _ in range({60: 2, 120: 3}.get(number, 1))]
    for queue in queues:
        bodies = [int(message.body) for _, message in messages if message.queue_id == queue.queue_id]
        assert bodies == wanted, (queue, bodies)
    assert {who for who, _ in messages} == {"one", "two"}
    return f"two members, 4 queues in order, 4 dead letters; free queues are taken in {moved_ms:.0f} ms"


async def own_queues(consumer: PushConsumer, topic: str, count: int) -> None:
    """Return when a member owns that many queues of a topic."""
    owns = asyncio.Event()

    def look(*_: object) -> None:
        if sum(queue.topic == topic for queue in consumer.assignment) == count:
            owns.set()

    consumer.on_queues_changed(look)
    look()
    await owns.wait()


async def offsets_survive(check: Check) -> str:
    async with check.admin() as admin, check.producer() as producer:
        await admin.create_topic(check.topic, queues=2)
        for turn in range(3):
            heard = Heard()
            async with check.consumer(heard):
                await producer.send_many([Message(check.topic, b"%d" % turn) for _ in range(20)])
                messages = await heard.count(20)
            assert {message.body for _, message in messages} == {b"%d" % turn}, "an old message came again"
    return "three consumers one after another, nothing twice"


async def administrators_ask(check: Check) -> str:
    heard = Heard()
    async with check.admin() as admin, check.producer() as producer, check.consumer(heard) as consumer:
        await admin.create_topic(check.topic, queues=1)
        result = await producer.send(Message(check.topic, b"7"))
        await heard.count(1)
        [address] = (await admin.masters()).values()

        async def ask(request: Request) -> Any:
            answer = await admin.client.pool.ask(address, request, ASK_TIMEOUT_MS)
            assert answer.code == 0, answer
            return answer.body

        client_id = consumer.client.client_id
        info = await ask(GetConsumerRunningInfo(check.group, client_id, True))
        assert [queue.topic for queue in info.mq_table if queue.topic == check.topic], info
        directly = await ask(ConsumeDirectly(check.group, client_id, result.offset_message_id, topic=check.topic))
        assert directly.consume_result == "CR_SUCCESS", directly
        assert [message.body for _, message in await heard.count(2)] == [b"7", b"7"], heard.messages
        status = await ask(GetConsumerStatus(check.topic, check.group))
        assert list(status.consumer_table[client_id].values()) == [1], status
        await ask(ResetOffset(check.group, check.topic, 0))
        bodies = [message.body for _, message in await heard.count(3)]
    return f"running info, one message consumed directly, where it stands, a reset: heard {len(bodies)} times"


def pulling(play: Callable[[str, str, str], Awaitable[str]]) -> Callable[[Check], Awaitable[str]]:
    @wraps(play)
    async def check_it(check: Check) -> str:
        return await play(check.namesrv, check.topic, check.group)

    return check_it


async def the_command_line(check: Check) -> str:
    place = ["-n", check.namesrv, "--protocol", "rocketmq"]
    await command("send", *place, "--tag", "paid", "--key", "7", check.topic, "hello")
    peeked = json.loads(await command("peek", *place, "--json", check.topic))
    assert (peeked["body"], peeked["tags"], peeked["keys"]) == ("hello", "paid", ["7"]), peeked
    flags = ["--group", check.group, "--from", "first", "--max", "1", "--timeout", "20s", "--json"]
    consumed = json.loads(await command("consume", *place, *flags, check.topic))
    assert consumed["messageId"] == peeked["messageId"], consumed
    return "send, peek, consume"


async def command(*arguments: str) -> str:
    """Run `staticfire` and return what it printed."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(str(COMMAND), *arguments, stdout=pipe, stderr=pipe)
    printed, said = await process.communicate()
    if process.returncode:
        raise subprocess.SubprocessError(f"staticfire {arguments[0]}: exit code {process.returncode}: {said.decode()}")
    return printed.decode()


CHECKS: list[Callable[[Check], Awaitable[str]]] = [
    topics_come_and_go,
    every_kind_of_send,
    delayed_messages_wait,
    two_consumers_share,
    failures_come_back,
    conditions_choose,
    messages_are_found,
    requests_are_answered,
    ordered_consumption,
    offsets_survive,
    administrators_ask,
    *map(pulling, (poll_assigned, poll_shared, pull_plainly, dead_letters_go_again, a_group_is_looked_at)),
    *map(pulling, (receive_and_acknowledge, invisible_times, received_by_filter, push_by_pops, pulled_then_popped)),
    the_command_line,
]


async def outcome(check: Callable[[Check], Awaitable[str]], namesrv: str) -> tuple[bool, str]:
    """Run one check; return whether it was fine, and in words what it saw."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            return True, await check(Check(namesrv, check.__name__.replace("_", "-")))
    except Exception as error:  # noqa: BLE001 (the table tells of every failure, whatever it is)
        return False, f"{type(error).__name__}: {error}"


async def main(namesrv: str) -> int:
    # Side by side, since most of it is waiting.
    outcomes = await asyncio.gather(*(outcome(check, namesrv) for check in CHECKS))
    for check, (is_fine, words) in zip(CHECKS, outcomes, strict=True):
        print(f"{check.__name__.replace('_', ' '):<24} {'ok' if is_fine else 'FAILED':<7} {words}")
    failed = sum(not is_fine for is_fine, _ in outcomes)
    print(f"our client on RocketMQ: {len(outcomes)} checks, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.oracle.own_client NAMESRV_ADDR")
    sys.exit(asyncio.run(main(sys.argv[1])))
