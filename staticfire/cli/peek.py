"""`staticfire peek`: what is in a topic, without side effects: no member of any group, no offset stored anywhere."""

import asyncio

import click

from staticfire.cli.messages import body_text, message_json, queue_text, stored_text
from staticfire.cli.options import Whole, namesrv_flag, protocol_flag
from staticfire.client import ClientSettings, MessageQueue, PullConsumer, PullSettings, ReceivedMessage
from staticfire.client.admin.peek import PEEK_GROUP, peek_messages
from staticfire.protocol.errors import UsageError


@click.command()
@namesrv_flag
@click.option("--queue", "queue_text", metavar="[BROKER/]ID", help="Only this queue. [default: all]")
@click.option("--offset", type=Whole(0), help="From this queue offset on. [default: the oldest message]")
@click.option("--last", is_flag=True, help="The newest messages instead of the oldest.")
@click.option("--tags", default="*", help="Only messages with these tags, like 'paid || refunded'.")
@click.option("--max", "max_messages", type=Whole(1), default=20, show_default=True, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per message.")
@protocol_flag
@click.argument("topic")
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
        raise UsageError("--last and --offset exclude each other")
    settings = PullSettings(client=ClientSettings(protocol=protocol))  # type: ignore[arg-type]  # see the flag
    consumer = PullConsumer(PEEK_GROUP, namesrv, settings)
    found = asyncio.run(_peek(consumer, topic, queue_text, offset, last, tags, max_messages))
    if as_json:
        for message in found:
            click.echo(message_json(message))
    else:
        _print_table(topic, found)


async def _peek(
    consumer: PullConsumer,
    topic: str,
    queue_text: str | None,
    offset: int | None,
    last: bool,
    tags: str,
    messages_max: int,
) -> list[ReceivedMessage]:
    async with consumer:
        queues = _chosen(await consumer.queues(topic), queue_text)
        return await peek_messages(consumer, queues, messages_max, offset=offset, last=last, tags=tags)


def _chosen(queues: list[MessageQueue], text: str | None) -> list[MessageQueue]:
    """Return the queues that `--queue` means. Raises: UsageError."""
    if text is None:
        return queues
    broker, _, number = text.rpartition("/")
    chosen = [queue for queue in queues if str(queue.queue_id) == number and broker in ("", queue.broker_name)]
    if not chosen:
        known = ", ".join(f"{queue.broker_name}/{queue.queue_id}" for queue in queues)
        raise UsageError(f"--queue {text}: there is no such queue; there are {known}")
    return chosen


def _print_table(topic: str, messages: list[ReceivedMessage]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not messages:
        console.print(f"nothing in {topic}")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, justify in (
        ("queue", "left"),
        ("offset", "right"),
        ("stored", "left"),
        ("tag", "left"),
        ("keys", "left"),
    ):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("body", ratio=1, overflow="ellipsis", no_wrap=True)
    for message in messages:
        cells = [queue_text(message), str(message.queue_offset), stored_text(message)]
        cells += [message.tags or "", " ".join(message.keys), body_text(message)]
        table.add_row(*(Text(cell) for cell in cells))
    console.print(table)
