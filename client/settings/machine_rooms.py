"""Distribution by machine room: queues go to members near them. Pure.

RocketMQ: AllocateMessageQueueByMachineRoom, AllocateMachineRoomNearby.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.settings.allocation import AVERAGELY, AllocateStrategy, own_index
from staticfire.protocol.errors import ClientError, UsageError


class MachineRoom:
    """Distributes the queues of some rooms among all members. Broker names contain the room: `room@broker-a`.

    Each member gets a block, and some get one of the remaining queues from the end. Queues of other rooms get no member
    here: they need a group of their own, or members with other rooms.
    """

    name = "MACHINE_ROOM"

    def __init__(self, rooms: Iterable[str]) -> None:
        """`rooms`: the rooms that this member consumes. Raises: UsageError (none, or a single text)."""
        self.rooms = frozenset([] if isinstance(rooms, str) else rooms)
        if not self.rooms:
            raise UsageError(f'rooms={rooms!r}: MachineRoom needs the names of the rooms, as in MachineRoom(["east"])')

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return this member's block, and perhaps one of the remaining queues."""
        index = own_index(client_id, queues, client_ids)
        if index is None:
            return []
        near = [queue for queue in queues if room_in(queue.broker_name) in self.rooms]
        size, left_over = divmod(len(near), len(client_ids))
        block = near[index * size : (index + 1) * size]
        return [*block, near[index + size * len(client_ids)]] if index < left_over else block


def room_in(broker_name: str) -> str | None:
    """Return the part of a broker's name before the @; None if there is none, or several, as with Java's split."""
    parts = broker_name.rstrip("@").split("@")
    return parts[0] if len(parts) == 2 else None


class MachineRoomResolver(Protocol):
    """Returns the rooms of brokers and members. RocketMQ: AllocateMachineRoomNearby.MachineRoomResolver."""

    def broker_deploy_in(self, queue: MessageQueue) -> str | None:
        """Return the room of a queue's broker."""

    def consumer_deploy_in(self, client_id: str) -> str | None:
        """Return the room of a member."""


class RoomPrefix:
    """Takes the room from before the first separator, in names of brokers and in client ids: `east-broker-a`.

    A client id begins with the client's address, unless `ClientSettings.client_ip` is set.
    """

    def __init__(self, separator: str = "-") -> None:
        self._separator = separator

    def broker_deploy_in(self, queue: MessageQueue) -> str | None:
        """Return the prefix of the broker's name."""
        return self._room(queue.broker_name)

    def consumer_deploy_in(self, client_id: str) -> str | None:
        """Return the prefix of the client id."""
        return self._room(client_id)

    def _room(self, name: str) -> str | None:
        room, separator, _ = name.partition(self._separator)
        return room if separator else None


class NearbyMachineRoom:
    """Gives a room's queues to its members, and those of a room without members to all; `inner` distributes them."""

    def __init__(self, resolver: MachineRoomResolver, inner: AllocateStrategy = AVERAGELY) -> None:
        self._resolver = resolver
        self._inner = inner
        self.name = f"MACHINE_ROOM_NEARBY-{inner.name}"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share in the own room, then that of rooms without members. Raises: ClientError (unknown room)."""
        if own_index(client_id, queues, client_ids) is None:
            return []
        resolver = self._resolver
        queues_in: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            room = _known(resolver.broker_deploy_in(queue), f"broker {queue.broker_name}")
            queues_in.setdefault(room, []).append(queue)
        members_in: dict[str, list[str]] = {}
        for member in client_ids:
            room = _known(resolver.consumer_deploy_in(member), f"member {member}")
            members_in.setdefault(room, []).append(member)
        own_room = next(room for room, members in members_in.items() if client_id in members)
        near = queues_in.pop(own_room, [])
        share = self._inner.allocate(group, client_id, near, members_in[own_room]) if near else []
        for room in sorted(queues_in.keys() - members_in.keys()):
            share += self._inner.allocate(group, client_id, queues_in[room], client_ids)
        return share


def _known(room: str | None, who: str) -> str:
    """Return a room. Raises: ClientError if there is none."""
    if not room:
        raise ClientError(
            f"the machine room of {who} is unknown: the resolver must return one for each broker and member"
        )
    return room
