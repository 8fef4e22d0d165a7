"""`staticfire create`: a topic, a consumer group, or both."""

import shlex
from typing import TYPE_CHECKING, Any

import click

from staticfire.cli.family import GROUP, TOPIC, FamilyCommand, json_flag
from staticfire.cli.listing import print_json, with_admin
from staticfire.cli.options import Assignments, Whole, namesrv_flag, protocol_flag
from staticfire.protocol.errors import UsageError

if TYPE_CHECKING:
    from staticfire.client import Admin

PERMISSIONS = ("6", "4", "2")


@click.command(cls=FamilyCommand)
@namesrv_flag
@click.option("--queues", type=Whole(1), help="Queues on each broker. [default: 8]")
@click.option("--order", is_flag=True, help="An ordered topic: clients know its queues while a broker is away.")
@click.option("--perm", type=click.Choice(PERMISSIONS), help="6: read and write, 4: read, 2: write. [default: 6]")
@click.option("--attribute", "attributes", multiple=True, type=Assignments(), help="As message.type=FIFO; repeatable.")
@click.option("--group", metavar="NAME", type=GROUP, help="A consumer group, too, or only the group without TOPIC.")
@click.option("--retries", type=Whole(0), help="How often the group retries a message before it dies. [default: 16]")
@json_flag
@protocol_flag
@click.argument("topic", type=TOPIC, required=False)
def create(
    namesrv: str,
    queues: int | None,
    order: bool,
    perm: str | None,
    attributes: tuple[tuple[str, str], ...],
    group: str | None,
    retries: int | None,
    as_json: bool,
    protocol: str,
    topic: str | None,
) -> None:
    """Create TOPIC on all brokers, as `staticfire create orders --queues 4`.

    If it exists with the same values, nothing happens; with other values, it is an error. Changes: `staticfire change`.
    Deletions: `staticfire mqadmin deleteTopic`, `deleteSubGroup`.
    """
    _check(
        topic,
        group,
        retries,
        of_topic={"--queues": queues, "--order": order, "--perm": perm, "--attribute": attributes},
    )

    async def work(admin: "Admin") -> None:
        from staticfire.client.admin.creating import ExistsAlready
        from staticfire.client.admin.creating_groups import GroupWish, create_group
        from staticfire.client.admin.creating_topics import TopicWish, create_topic

        change = ""
        try:
            if topic is not None:
                change = _change_of_topic(topic, queues, order, perm, attributes)
                wish = TopicWish(queues, None, int(perm) if perm else None, order or None, dict(attributes))
                _show(await create_topic(admin, topic, wish), as_json)
            if group is not None:
                change = f"--group {group} --retries {retries}"
                _show(await create_group(admin, group, GroupWish(retries)), as_json)
        except ExistsAlready as error:
            raise ExistsAlready(f"{error}; to change it: staticfire change {change}") from None

    with_admin(namesrv, protocol, work)


def _change_of_topic(
    topic: str, queues: int | None, order: bool, perm: str | None, attributes: tuple[tuple[str, str], ...]
) -> str:
    """Return the arguments of `staticfire change` that give an existing topic the requested values."""
    words = [shlex.quote(topic)]
    words += [] if queues is None else [f"--queues {queues}"]
    words += ["--order"] if order else []
    words += [] if perm is None else [f"--perm {perm}"]
    words += [f"--attribute {shlex.quote(f'{name}={text}')}" for name, text in attributes]
    return " ".join(words)


def _check(topic: str | None, group: str | None, retries: int | None, of_topic: dict[str, Any]) -> None:
    """Refuse flags without what they belong to. Raises: UsageError."""
    if topic is None and group is None:
        raise UsageError("name a topic, as `staticfire create orders --queues 4`, or a group: --group billing")
    if topic is None and any(of_topic.values()):
        named = next(name for name, value in of_topic.items() if value)
        raise UsageError(f"{named} belongs to a topic: name one, as `staticfire create orders --queues 4`")
    if group is None and retries is not None:
        raise UsageError("--retries belongs to a group: --group billing --retries 3")


def _show(made: dict[str, Any], as_json: bool) -> None:
    """Print what exists now. A topic is printed before its group is created, which may fail."""
    verb = "created" if made["created"] else "exists already:"
    if as_json:
        print_json(made)
    elif "topic" in made:
        click.echo(f"{verb} topic {made['topic']}: {made['queues']} queues on each broker, perm {made['perm']}")
    else:
        click.echo(f"{verb} group {made['group']}: {made['retries']} retries")
