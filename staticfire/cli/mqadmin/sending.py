"""`staticfire mqadmin`: send messages."""

from typing import TYPE_CHECKING

from staticfire.cli.mqadmin.frame import AdminSession, command, option, topic_flag
from staticfire.cli.mqadmin.java_text import lines_of
from staticfire.cli.mqadmin.output import show
from staticfire.cli.mqadmin.tables import SENT, sent_text
from staticfire.cli.options import Whole
from staticfire.client import Message, MessageQueue, Producer, ProducerSettings
from staticfire.client.cluster.routes import publish_queues
from staticfire.protocol.errors import StaticfireError, UsageError

if TYPE_CHECKING:
    from staticfire.client import Admin

PRODUCERS = "STATICFIRE_MQADMIN"
BODY_BYTES, AMOUNT = 128, 100


@command("sendMessage")
@topic_flag
@option("-p", "--body", required=True, metavar="TEXT", help="The body.")
@option("-k", "--key", "--keys", "keys", default="", metavar="KEYS", help="Keys, separated by blanks.")
@option("-c", "--tags", default="", metavar="TAG", help="The tag.")
@option("-b", "--broker", metavar="NAME", help="The broker of the queue; needs -i.")
@option("-i", "--qid", "queue_id", type=Whole(0), help="The number of the queue; needs -b.")
@option("-m", "--msgTraceEnable", "trace", type=bool, default=False, show_default=True, help="Also trace the message.")
def send_message(
    session: AdminSession,
    topic: str,
    body: str,
    keys: str,
    tags: str,
    broker: str | None,
    queue_id: int | None,
    trace: bool,
) -> None:
    """Send a message."""
    if (broker is None) != (queue_id is None):
        raise UsageError("mqadmin sendMessage: use -b BROKER and -i QUEUE together")

    async def work(admin: "Admin") -> None:
        message = Message(topic, body.encode(), tags=tags, keys=keys.split())
        queue = None if broker is None or queue_id is None else MessageQueue(topic, broker, queue_id)
        settings = ProducerSettings(enable_trace=trace)
        async with Producer(PRODUCERS, settings=settings, client=admin.client) as producer:
            show(sent_text(await producer.send(message, queue=queue)))

    session.run(work)


@command("checkMsgSendRT")
@topic_flag
@option("-a", "--amount", type=Whole(2), default=AMOUNT, show_default=True, help="Number of messages.")
@option(
    "-s",
    "--size",
    "body_bytes",
    type=Whole(1),
    default=BODY_BYTES,
    show_default=True,
    help="Size of each message in bytes.",
)
def check_send_rt(session: AdminSession, topic: str, amount: int, body_bytes: int) -> None:
    """Send messages, and measure how long each takes.

    Times are in milliseconds, queue after queue. The first message, which connects, doesn't count for the average.
    """

    async def work(admin: "Admin") -> None:
        queues = publish_queues(topic, await admin.route(topic))
        clock = admin.client.machine.clock
        took_ms: list[int] = []
        failed: StaticfireError | None = None
        show(lines_of(SENT, ("#Broker Name", "#QID", "#Send Result", "#RT")))
        async with Producer(PRODUCERS, client=admin.client) as producer:
            for number in range(amount):
                queue, begin_ms = queues[number % len(queues)], clock.uptime_ms()
                try:
                    await producer.send(Message(topic, b"a" * body_bytes), queue=queue)
                    result = "true"
                except StaticfireError as error:
                    result, failed = "false", error
                took_ms.append(clock.uptime_ms() - begin_ms)
                show(lines_of(SENT, (queue.broker_name, queue.queue_id, result, took_ms[-1])))
        show(f"Avg RT: {sum(took_ms[1:]) / (amount - 1):.2f}")
        if failed is not None:
            raise failed

    session.run(work)
