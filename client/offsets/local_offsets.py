"""Offsets in a local file, for BROADCASTING. RocketMQ: LocalFileOffsetStore.

    <folder>/<ip@instance>/<group>/offsets.json
    {"staticfire":"1 crc32:...","offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7}}

The format is that of RocketMQ, which ignores the checksum (runtime/state_file.py). So each of the two clients can
continue where the other stopped. The previous file is kept next to it as offsets.json.bak, and is read if the first one
can't be.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.nameservers import Nameservers
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.offsets.consume_from import NO_OFFSET
from staticfire.client.offsets.offset_store import OffsetStore, RemoteOffsets
from staticfire.client.settings.push_settings import MessageModel, PushSettings
from staticfire.protocol import fastjson
from staticfire.protocol.errors import ClientError, StaticfireError, StorageError
from staticfire.protocol.numbers import Int32, Int64
from staticfire.protocol.requests.routes import ClusterInfoAnswer, GetClusterInfo
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine
from staticfire.runtime.state_file import read_state_file, replace_state_file

log = logger("client")

FILE_NAME, BACKUP_SUFFIX = "offsets.json", ".bak"


class QueueKey(msgspec.Struct, rename="camel", frozen=True):
    """A queue in the file."""

    broker_name: str
    queue_id: Int32
    topic: str


class OffsetFile(msgspec.Struct, rename="camel"):
    """The whole file. RocketMQ: OffsetSerializeWrapper."""

    offset_table: dict[QueueKey, Int64]


def encode_offsets(offsets: dict[MessageQueue, int]) -> bytes:
    """Return the file's bytes, queues sorted."""
    keys = {QueueKey(queue.broker_name, queue.queue_id, queue.topic): offsets[queue] for queue in sorted(offsets)}
    return fastjson.encode(OffsetFile(keys))


def decode_offsets(data: bytes) -> dict[MessageQueue, int]:
    """Return the offsets in a file. Raises: ProtocolError."""
    table = fastjson.decode_as(data, OffsetFile, fastjson.UNLIMITED).offset_table
    return {MessageQueue(key.topic, key.broker_name, key.queue_id): offset for key, offset in table.items()}


class LocalOffsets:
    """Offsets of one group of one client."""

    def __init__(self, machine: Machine, folder: str, nameservers: Nameservers) -> None:
        """`folder`: the folder for this group and client."""
        self._machine = machine
        self._nameservers = nameservers
        self._folder = folder
        self._path = f"{folder}/{FILE_NAME}"
        self._offsets: dict[MessageQueue, int] = {}
        self._written: dict[MessageQueue, int] = {}
        self._writing = asyncio.Lock()
        self._doubted: dict[MessageQueue, str] = {}
        """The queues whose topic a broker doesn't have, with its address, until they are given away."""

    async def load(self) -> None:
        """Read the file, or its backup. Raises: ClientError if neither can be read."""
        self._written = await self._machine.workers.run(self._read)
        self._offsets = dict(self._written)

    def _read(self) -> dict[MessageQueue, int]:
        files = self._machine.files
        faults = []
        for path in (self._path, self._path + BACKUP_SUFFIX):
            if files.exists(path):
                try:
                    offsets = read_state_file(files, path, decode_offsets, "repair it, or remove it")
                except StorageError as error:
                    faults.append(str(error))
                else:
                    if faults:
                        log.warning("offsets_file_broken", reason=faults[0], read_instead=path)
                    return offsets or {}
        if faults:
            raise ClientError(f"offsets can't be read ({'; '.join(faults)})")
        return {}

    def memory(self, queue: MessageQueue) -> int:
        return self._offsets.get(queue, NO_OFFSET)

    async def stored(self, queue: MessageQueue) -> int:
        offset = self._written.get(queue, NO_OFFSET)
        if offset >= 0:
            self._offsets[queue] = offset
        return offset

    def update(self, queue: MessageQueue, offset: int, increase_only: bool = True) -> None:
        if not increase_only or offset > self._offsets.get(queue, NO_OFFSET):
            self._offsets[queue] = offset

    def move(self, queue: MessageQueue, offset: int) -> None:
        self._offsets[queue] = offset

    def drained(self, queue: MessageQueue) -> None:
        """Do nothing: the file isn't written per message."""

    def ride_along(self, queue: MessageQueue, connection: Connection) -> int:
        return 0

    def pull_failed(self, queue: MessageQueue) -> None:
        """Do nothing: pulls contain no offsets."""

    async def persist(self, queues: Sequence[MessageQueue]) -> None:
        try:
            await self.store(queues)
        except ClientError as error:
            log.warning("offsets_not_written", path=self._path, reason=str(error))

    async def hand_over(self, queues: Sequence[MessageQueue]) -> None:
        doubted = {queue: self._doubted.pop(queue) for queue in queues if queue in self._doubted}
        if doubted:
            await self._decide(doubted)
        await self.persist(queues)

    async def _decide(self, doubted: Mapping[MessageQueue, str]) -> None:
        """Begin again at 0 in the queues whose own broker doesn't have their topic.

        Another broker may be at its old address. It doesn't know the topic, and says nothing about it. A slave counts
        as its own broker: it may be the only one of which this member hears that the topic was deleted.
        """
        addresses: dict[str, list[str]] | None = None
        try:
            answer = await self._nameservers.ask(GetClusterInfo())
            if isinstance(answer, ClusterInfoAnswer) and answer.body is not None:
                brokers = answer.body.broker_addr_table
                addresses = {name: list(data.broker_addrs.values()) for name, data in brokers.items()}
        except StaticfireError as error:
            log.warning("brokers_unknown", reason=str(error))
        for queue, address in doubted.items():
            if addresses is not None and address not in addresses.get(queue.broker_name, ()):
                reason = f"{address} doesn't have the topic, but isn't an address of {queue.broker_name}"
                log.warning("offset_kept", queue=str(queue), reason=reason)
            else:  # Too many messages are better than too few. LAST_OFFSET would skip the first ones of the new queue.
                self._offsets[queue] = 0

    async def store(self, queues: Sequence[MessageQueue]) -> None:
        # Two rounds at once would each write the file without the other's changes.
        async with self._writing:
            await self._store(queues)

    async def _store(self, queues: Sequence[MessageQueue]) -> None:
        changed = {
            queue: self._offsets[queue]
            for queue in queues
            if queue in self._offsets and self._offsets[queue] != self._written.get(queue)
        }
        if not changed:
            return
        wanted = self._written | changed
        try:
            await self._machine.workers.run(self._write, encode_offsets(wanted))
        except OSError as error:
            raise ClientError(f"offsets can't be written to {self._path}: {error}") from error
        self._written = wanted

    def _write(self, data: bytes) -> None:
        files = self._machine.files
        files.make_folder(self._folder)
        if files.exists(self._path):
            files.replace(self._path + BACKUP_SUFFIX, files.read_bytes(self._path))
        replace_state_file(files, self._path, data)

    def topic_is_gone(self, queue: MessageQueue, answered_by: str) -> None:
        self._doubted[queue] = answered_by

    def forget(self, queue: MessageQueue) -> None:
        # The file keeps its offset: the queue may be taken again.
        self._offsets.pop(queue, None)


def offsets_of(group: str, client: ClusterClient, settings: PushSettings) -> OffsetStore:
    """Return the offset store of a consumer.

    For BROADCASTING the folder must be the same after a restart, so DEFAULT isn't replaced in its name.
    """
    if settings.message_model is MessageModel.CLUSTERING:
        return RemoteOffsets(group, client, settings)
    names = client.settings
    unit = f"@{names.unit_name}" if names.unit_name else ""
    who = f"{names.client_ip or client.machine.identity.host_ip}@{names.instance_name}{unit}"
    return LocalOffsets(client.machine, f"{settings.local_offset_store_dir}/{who}/{group}", client.nameservers)
