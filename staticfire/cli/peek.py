"""`staticfire peek`: the messages of a topic, without side effects: it joins no group and stores no offset."""

from typing import TYPE_CHECKING

import click

from staticfire.cli.family import TOPIC, FamilyCommand, json_flag
from staticfire.cli.listing import add_row, console, table_of, with_admin
from staticfire.cli.messages import body_text, message_json, queue_text, stored_text
from staticfire.cli.options import Whole, namesrv_flag, protocol_flag
from staticfire.protocol.errors import UsageError

if TYPE_CHECKING:
    from staticfire.client import Admin, MessageQueue
    from staticfire.client.admin.peek import PeekedMessages


@click.command(cls=FamilyCommand)
@namesrv_flag
@click.option("--queue", "queue_text", metavar="[BROKER/]ID", help="Only this queue. [default: all]")
@click.option("--offset", type=Whole(0), help="Begin at this queue offset. [default: the oldest message]")
@click.option("--last", is_flag=True, help="Show the newest instead of the oldest.")
@click.option(
    "--tag",
    "--tags",
    "tags",
    default="*",
    metavar="TAGS",
    help="Only messages with these tags, like 'paid || refunded'. They are searched among 100,000 of each queue.",
)
@click.option("--max", "max_messages", type=Whole(1), default=20, show_default=True, help="Maximum number of messages.")
@json_flag
@protocol_flag
@click.argument("topic", type=TOPIC)
def peek(
    namesrv: str,
    queue_text: str | None,
    offset: int | None,
    last: bool,
    tags: str,
    max_messages: int,
    as_json: bool,
    protocol: str,
    topic: str,
) -> None:
    """Show messages of TOPIC, the oldest first."""
    if last and offset is not None:
        raise UsageError("use either --last or --offset, not both")

    async def ask(admin: "Admin") -> "PeekedMessages":
        from staticfire.client import PullConsumer
        from staticfire.client.admin.peek import peek_messages
        from staticfire.protocol.names import TOOLS_GROUP

        async with PullConsumer(TOOLS_GROUP, client=admin.client) as consumer:
            queues = _chosen(await consumer.queues(topic), queue_text)
            return await peek_messages(consumer, queues, max_messages, offset=offset, last=last, tags=tags)

    found = with_admin(namesrv, protocol, ask, topic=topic)
    if as_json:
        for message in found:
            click.echo(message_json(message))
    else:
        _print_table(topic, found)
    if found.note:
        click.echo(f"staticfire: {topic}: {found.note}", err=True)


def _chosen(queues: "list[MessageQueue]", text: str | None) -> "list[MessageQueue]":
    """Return the queues that `--queue` selects. Raises: UsageError."""
    if text is None:
        return queues
    broker, _, number = text.rpartition("/")
    chosen = [queue for queue in queues if str(queue.queue_id) == number and broker in ("", queue.broker_name)]
    if not chosen:
        known = ", ".join(f"{queue.broker_name}/{queue.queue_id}" for queue in queues)
        raise UsageError(f"--queue {text}: there is no such queue; the queues are {known}")
    return chosen


def _print_table(topic: str, messages: "PeekedMessages") -> None:
    if not messages:
        if not messages.note:
            click.echo(f"no messages in {topic}")
        return
    table = table_of(queue="left", offset="right", stored="left", tag="left", keys="left", body="rest")
    for message in messages:
        cells = [queue_text(message), str(message.queue_offset), stored_text(message)]
        add_row(table, [*cells, message.tags or "", " ".join(message.keys), body_text(message)])
    console().print(table)
