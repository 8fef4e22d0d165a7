"""`staticfire mqadmin`: messages by id, key and offset, and their traces."""

import codecs
from typing import TYPE_CHECKING

import click

from staticfire.cli.mqadmin.frame import TIMEOUT_MS, AdminSession, ask, command, lmq_flag, option, topic_flag
from staticfire.cli.mqadmin.java_text import lines_of, moment, object_text
from staticfire.cli.mqadmin.output import show
from staticfire.cli.mqadmin.shown_messages import message_text, tracks_text, with_ends, write_body
from staticfire.cli.options import Whole
from staticfire.client import Message, MessageQueue, Producer, PullConsumer, ReceivedMessage
from staticfire.client.admin.admin import FOREVER
from staticfire.client.admin.look_ups import FoundMessages, LookUp, find_by_key, find_by_offset_id
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.protocol.names import TOOLS_GROUP, TRACE_TOPIC
from staticfire.protocol.properties import RESERVED_NAMES
from staticfire.protocol.requests.connections import ConsumedDirectly, ConsumeDirectly
from staticfire.protocol.trace import PubTrace, SubAfterTrace, decode_traces

if TYPE_CHECKING:
    from staticfire.client import Admin

RESENDERS = "ReSendMsgById"
BY_KEY = "%-50s %4s %40s"
TRACE = "%-10s %-20s %-20s %-20s %-10s %-10s"
UNIQUE_MAX = 32
MESSAGES_MAX = 64


def _charset(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    try:
        return codecs.lookup(value).name
    except LookupError:
        raise UsageError(f"--bodyFormat {value}: unknown character set; use UTF-8, GBK or the like") from None


format_flag = option("-f", "--bodyFormat", "charset", metavar="CHARSET", callback=_charset, help="Also print the body.")
begin_flag = option(
    "-b",
    "--beginTimestamp",
    "begin_ms",
    type=Whole(0),
    default=0,
    metavar="MS",
    help="Only if stored at this time or later.",
)
end_flag = option(
    "-e",
    "--endTimestamp",
    "end_ms",
    type=Whole(0),
    default=FOREVER,
    metavar="MS",
    help="Only if stored at this time or before.",
)
listener_group_flag = option(
    "-g", "--consumerGroup", "group", metavar="GROUP", help="With -d: the group that consumes the message."
)
listener_flag = option("-d", "--clientId", "client_id", metavar="ID", help="With -g: the member that consumes it now.")


def _together(group: str | None, client_id: str | None) -> None:
    if (group is None) != (client_id is None):
        raise UsageError("mqadmin: use -g GROUP and -d CLIENT together")


@command("queryMsgById")
@topic_flag
@option("-i", "--msgId", "ids", required=True, metavar="ID,ID", help="Offset message ids (or unique ones).")
@listener_group_flag
@listener_flag
@option("-s", "--sendMessage", "again", type=bool, default=False, help="true: resend it as a new message.")
@option("-u", "--unitName", "unit", metavar="NAME", help="Accepted for compatibility; has no effect.")
@format_flag
@lmq_flag
def query_by_id(
    session: AdminSession,
    topic: str,
    ids: str,
    group: str | None,
    client_id: str | None,
    again: bool,
    unit: str | None,
    charset: str | None,
    cluster: str | None,
) -> None:
    """Show a message by its offset message id.

    Shows where it is stored, its contents, and which groups have consumed it; or lets a member consume it, or
    resends it.
    """
    _together(group, client_id)

    async def work(admin: "Admin") -> None:
        for message_id in filter(None, (one.strip() for one in ids.split(","))):
            message = await _by_id(admin, topic, message_id)
            if group is not None and client_id is not None:
                await _push(admin, message, group, client_id)
            elif again:
                await _send_again(admin, message, message_id)
            else:
                show(message_text(message, write_body(message), True, charset))
                show(await tracks_text(admin, message))

    session.run(work)


async def _by_id(admin: "Admin", topic: str, message_id: str) -> ReceivedMessage:
    """Return the message with an id. Raises: ClientError."""
    found = await find_by_offset_id(admin.client, await admin.readers(), message_id, TIMEOUT_MS)
    of_topic = [one for one in found or await _by_unique_id(admin, topic, message_id) if one.record.topic == topic]
    if not of_topic:
        elsewhere = f"; it belongs to topic {found[0].record.topic}" if found else ""
        raise ClientError(f"mqadmin: topic {topic} has no message with the id {message_id}{elsewhere}")
    return of_topic[0]


async def _by_unique_id(admin: "Admin", topic: str, message_id: str) -> FoundMessages:
    """Return the messages with a unique id, oldest first."""
    await admin.route(topic)
    places = [(topic, name, address) for name, address in (await admin.readers()).items()]
    found = await find_by_key(admin.client, places, LookUp(message_id, messages_max=UNIQUE_MAX), TIMEOUT_MS)
    return FoundMessages((one for one in found if one.message_id == message_id), found.gaps)


async def _push(admin: "Admin", message: ReceivedMessage, group: str, client_id: str) -> None:
    """Let a member consume a message now, even if others have consumed it or will."""
    address = (await admin.masters(broker_name=message.broker_name))[message.broker_name]
    request = ConsumeDirectly(group, client_id, message.offset_message_id, message.broker_name, message.record.topic)
    done: ConsumedDirectly = (await ask(admin, address, request)).body
    fields = {
        "order": done.order,
        "autoCommit": done.auto_commit,
        "consumeResult": done.consume_result,
        "remark": done.remark,
        "spentTimeMills": done.spent_time_mills,
    }
    show(object_text("ConsumeMessageDirectlyResult ", fields, "[]"))


async def _send_again(admin: "Admin", message: ReceivedMessage, message_id: str) -> None:
    own = {name: text for name, text in message.properties.items() if name not in RESERVED_NAMES}
    copy = Message(message.topic, message.body, message.tags or "", message.keys, message.flag, own)
    async with Producer(RESENDERS, client=admin.client) as producer:
        sent = await producer.send(copy)
    show(f"prepare resend msg. originalMsgId={message_id}")
    show(f"SendResult [sendStatus={sent.status.value}, msgId={sent.message_id}, messageQueue={sent.queue}]")


@command("queryMsgByKey")
@topic_flag
@option("-k", "--msgKey", "key", required=True, metavar="KEY", help="One of the message's keys.")
@begin_flag
@end_flag
@option(
    "-m",
    "--maxNum",
    "messages_max",
    type=Whole(1),
    default=MESSAGES_MAX,
    show_default=True,
    help="Maximum number of messages; the newest are shown.",
)
@lmq_flag
def query_by_key(
    session: AdminSession, topic: str, key: str, begin_ms: int, end_ms: int, messages_max: int, cluster: str | None
) -> None:
    """List the messages with a key."""

    async def work(admin: "Admin") -> None:
        found = await admin.find(key, topic, begin_ms, end_ms, messages_max)
        rows = [(one.message_id, one.queue_id, one.queue_offset) for one in found]
        show(lines_of(BY_KEY, ("#Message ID", "#QID", "#Offset"), *rows))
        _tell_gaps(found)
        if not found:
            raise ClientError(f"mqadmin: topic {topic} has no message with the key {key}")

    session.run(work)


def _tell_gaps(found: FoundMessages) -> None:
    for gap in found.gaps:
        show(f"staticfire mqadmin: the search is incomplete: {gap}", err=True)


@command("queryMsgByUniqueKey")
@option("-i", "--msgId", "message_id", required=True, metavar="ID", help="The message's unique id.")
@listener_group_flag
@listener_flag
@topic_flag
@option(
    "-a",
    "--showAll",
    "show_all",
    is_flag=True,
    help=f"Show all messages with this id, up to {UNIQUE_MAX}. [default: the oldest]",
)
@lmq_flag
def query_by_unique_key(
    session: AdminSession,
    message_id: str,
    group: str | None,
    client_id: str | None,
    topic: str,
    show_all: bool,
    cluster: str | None,
) -> None:
    """Show a message by its unique id.

    Or, with -g and -d, let a member consume it now.
    """
    _together(group, client_id)

    async def work(admin: "Admin") -> None:
        found = await _by_unique_id(admin, topic, message_id)
        _tell_gaps(found)
        if not found:
            raise ClientError(f"mqadmin: topic {topic} has no message with the unique id {message_id}")
        if group is not None and client_id is not None:
            await _push(admin, found[0], group, client_id)
            return
        for number, message in enumerate(found if show_all else found[:1]):
            show(message_text(message, write_body(message, f"_{number}" if number else ""), False))
            show(await tracks_text(admin, message))

    session.run(work)


@command("queryMsgByOffset")
@topic_flag
@option("-b", "--brokerName", "broker", required=True, metavar="NAME", help="The broker.")
@option("-i", "--queueId", "queue_id", type=Whole(0), required=True, metavar="ID", help="The queue.")
@option("-o", "--offset", type=Whole(0), required=True, help="The queue offset.")
@format_flag
def query_by_offset(
    session: AdminSession, topic: str, broker: str, queue_id: int, offset: int, charset: str | None
) -> None:
    """Show the message at an offset of a queue."""

    async def work(admin: "Admin") -> None:
        async with PullConsumer(TOOLS_GROUP, client=admin.client) as consumer:
            result = await consumer.pull(MessageQueue(topic, broker, queue_id), offset, max_messages=1)
        if not result.messages:
            ends = f"its messages have the offsets {result.min_offset} to {result.max_offset} (exclusive)"
            raise ClientError(f"mqadmin: no message at {topic} {broker}/{queue_id} offset {offset}: {ends}")
        message = with_ends(result.messages[0], result)
        show(message_text(message, write_body(message), True, charset))
        show(await tracks_text(admin, message))

    session.run(work)


@command("queryMsgTraceById")
@option("-i", "--msgId", "message_id", required=True, metavar="ID", help="The message's unique id.")
@option(
    "-t", "--traceTopic", "topic", default=TRACE_TOPIC, show_default=True, help="The topic that traces are written to."
)
@begin_flag
@end_flag
@option(
    "-c",
    "--maxNum",
    "messages_max",
    type=Whole(1),
    default=MESSAGES_MAX,
    show_default=True,
    help="Maximum number of messages; the newest are shown.",
)
def query_trace(
    session: AdminSession, message_id: str, topic: str, begin_ms: int, end_ms: int, messages_max: int
) -> None:
    """Show the trace of a message: who sent and consumed it.

    `staticfire trace` shows more details.
    """

    async def work(admin: "Admin") -> None:
        found = await admin.find(message_id, topic, begin_ms, end_ms, messages_max)
        _tell_gaps(found)
        blocks = _trace_blocks(found, message_id)
        if not blocks:
            raise ClientError(f"mqadmin: no client has traced a message {message_id} to {topic}")
        for block in blocks:
            show(f"{block}\n")

    session.run(work)


def _trace_blocks(found: FoundMessages, message_id: str) -> list[str]:
    """Return a table for each send, and one for each group that has consumed the message."""
    blocks: list[str] = []
    consumed: dict[str, list[tuple[object, ...]]] = {}
    for message in found:
        host = message.born_host.rpartition(":")[0].strip("[]")
        for one in decode_traces(message.body.decode("utf-8", "replace")):
            if not isinstance(one, PubTrace | SubAfterTrace) or one.message_id != message_id:
                continue
            status = "success" if one.success else "failed"
            row = (one.group, host, moment(one.time_ms), f"{one.cost_ms}ms", status)
            if isinstance(one, PubTrace):
                headings = ("#Type", "#ProducerGroup", "#ClientHost", "#SendTime", "#CostTimes", "#Status")
                blocks.append(lines_of(TRACE, headings, ("Pub", *row)))
            else:
                consumed.setdefault(one.group, []).append(("Sub", *row))
    headings = ("#Type", "#ConsumerGroup", "#ClientHost", "#ConsumerTime", "#CostTimes", "#Status")
    return blocks + [lines_of(TRACE, headings, *rows) for rows in consumed.values()]
