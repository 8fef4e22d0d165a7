"""`staticfire change`: some values of a topic or of a consumer group. RocketMQ's own commands replace all of them."""

from typing import TYPE_CHECKING, Any

import click

from staticfire.cli.create import PERMISSIONS
from staticfire.cli.family import GROUP, TOPIC, FamilyCommand, json_flag
from staticfire.cli.listing import print_json, with_admin
from staticfire.cli.options import Assignments, Whole, namesrv_flag, protocol_flag
from staticfire.protocol.errors import UsageError

if TYPE_CHECKING:
    from staticfire.client import Admin

OPTION = click.option
OF_TOPIC = ("queues", "read_queues", "order", "perm")
OF_GROUP = ("retries", "consume", "broadcast")


@click.command(cls=FamilyCommand)
@namesrv_flag
@OPTION("--queues", type=Whole(1), help="Queues on each broker.")
@OPTION("--read-queues", type=Whole(1), help="Queues on each broker that consumers read, if it should differ.")
@OPTION("--order/--no-order", default=None, help="Whether it is an ordered topic.")
@OPTION("--perm", type=click.Choice(PERMISSIONS), help="6: read and write, 4: read, 2: write.")
@OPTION("--group", metavar="NAME", type=GROUP, help="The consumer group to change, instead of a topic.")
@OPTION("--retries", type=Whole(0), help="How often the group retries a message before it dies.")
@OPTION("--consume/--no-consume", default=None, help="Whether the group may consume.")
@OPTION("--broadcast/--no-broadcast", default=None, help="Whether its members may use BROADCASTING.")
@OPTION(
    "--attribute",
    "attributes",
    multiple=True,
    type=Assignments(),
    help="Of the topic or the group, as stableTimeMs=0; repeatable.",
)
@json_flag
@protocol_flag
@click.argument("topic", type=TOPIC, required=False)
def change(
    namesrv: str,
    group: str | None,
    attributes: tuple[tuple[str, str], ...],
    as_json: bool,
    protocol: str,
    topic: str | None,
    **values: Any,
) -> None:
    """Change TOPIC, or a group, on all brokers that have it, as `staticfire change orders --perm 4`.

    Values that aren't given are kept. RocketMQ's `updateTopic` and `updateSubGroup` set them to their defaults.
    """
    given = {name: value for name, value in values.items() if value is not None}
    _check(topic, group, given, attributes)

    async def work(admin: "Admin") -> dict[str, Any]:
        from staticfire.client.admin.creating_groups import GroupWish, change_group
        from staticfire.client.admin.creating_topics import TopicWish, change_topic

        if group is not None:
            return await change_group(admin, group, GroupWish(**given, attributes=dict(attributes)))
        assert topic is not None
        if "perm" in given:
            given["perm"] = int(given["perm"])
        return await change_topic(admin, topic, TopicWish(**given, attributes=dict(attributes)))

    _show(with_admin(namesrv, protocol, work, topic, group), as_json)


def _check(topic: str | None, group: str | None, given: dict[str, Any], attributes: object) -> None:
    """Refuse flags without what they belong to. Raises: UsageError."""
    if (topic is None) == (group is None):
        raise UsageError("name a topic, as `staticfire change orders --perm 4`, or a group, as --group billing")
    for name in OF_TOPIC if topic is None else OF_GROUP:
        if name in given:
            owner = "a topic" if topic is None else "a group"
            raise UsageError(f"--{name.replace('_', '-')} belongs to {owner}, and you named {group or topic}")
    if not given and not attributes:
        flags = [f"--{name.replace('_', '-')}" for name in (OF_GROUP if topic is None else OF_TOPIC)]
        raise UsageError(f"say what to change: {', '.join(flags)}, --attribute")


def _show(changed: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(changed)
        return
    kind = "topic" if "topic" in changed else "group"
    values = ", ".join(f"{name} {value}" for name, value in changed.items() if name != kind and value != {})
    click.echo(f"changed {kind} {changed[kind]}: {values}")
