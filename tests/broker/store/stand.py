"""A store on a simulated disk, and what can happen to the process that has it."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import PutOutcome
from staticfire.broker.store.recovery import RecoveryReport
from staticfire.broker.store.sealed import unseal
from staticfire.broker.store.settings import StoreSettings
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.record import decode_records, join_records
from staticfire.protocol.tags import java_hash, tags_code
from staticfire.protocol.times import MessageMs
from staticfire.runtime.machine import Bytes, Files
from staticfire.simulation.world.disk import Disk
from staticfire.simulation.world.files import SimulatedFiles
from staticfire.simulation.world.history import History
from staticfire.simulation.world.process import Process, ProcessKilled

HOST = bytes([127, 0, 0, 1, 0, 0, 0x30, 0x39])
SMALL = StoreSettings(segment_bytes_max=4096, queue_file_entries=16, queue_tail_entries=4, queues_per_flush_max=3)
FOLDER = "/store"


class StoppedClock:
    """Of a history whose times nobody reads."""

    uptime_ns: int = 0


STOPPED = StoppedClock()
LOG = f"{FOLDER}/commitlog/{0:020d}"


@dataclass
class Sent:
    """An append and what became of it."""

    body: bytes
    log_position: int = -1
    settled: list[tuple[int, int, PutOutcome]] = field(default_factory=list)

    @property
    def outcome(self) -> PutOutcome:
        assert len(self.settled) == 1, self.settled
        return self.settled[0][2]


def note(sent: Sent, queue_offset: int, log_position: int, outcome: PutOutcome) -> None:
    sent.settled.append((queue_offset, log_position, outcome))


def tags_code_of(_topic: str, properties: bytes, _stored_ms: int, _log_position: int) -> int:
    return tags_code(properties)


class StoreStand:
    """One disk; `store` is that of the process that lives at the moment."""

    def __init__(self, settings: StoreSettings = SMALL) -> None:
        self.settings = settings
        self.disk = Disk("disk")
        self.store: MessageStore = None  # type: ignore[assignment]
        self.stored_ms = 1000
        self._lives = 0

    def open(self) -> RecoveryReport:
        self._lives += 1
        self.process = Process("broker", "127.0.0.1", self._lives)
        return self.open_on(SimulatedFiles(self.process, self.disk, History(STOPPED)))

    def open_on(self, files: Files) -> RecoveryReport:
        return self.open_on_folder(files, FOLDER)

    def open_on_folder(self, files: Files, folder: str) -> RecoveryReport:
        self.files = files
        self.store = MessageStore(files, folder, self.settings, tags_code_of)
        return self.store.open()

    def kill(self) -> None:
        self.process.die([])

    def lose_power(self, torn: Random | None = None) -> None:
        self.kill()
        self.disk.lose_power(torn)

    def restart(self) -> RecoveryReport:
        self.kill()
        return self.open()

    # --- what clients do

    def append(self, body: bytes, topic: str = "orders", queue_id: int = 0, tag: str = "", **fields: Any) -> Sent:
        sent = Sent(body)
        properties = f"TAGS\x01{tag}\x02".encode() if tag else b""
        given = {
            "sys_flag": 0, "stored_ms": self.stored_ms, "on_stored": note, "wait_flush": True, "mark": 0, **fields
        }  # fmt: skip
        new = NewRecord(
            self.store.queue(topic, queue_id), properties, java_hash(tag) if tag else 0, body, 5, HOST,
            given["sys_flag"], prepared_position=given["mark"], wait_flush=given["wait_flush"],
        )  # fmt: skip
        sent.log_position = self.store.put(new, MessageMs(given["stored_ms"]), given["on_stored"], sent)
        return sent

    def send(self, *bodies: bytes, topic: str = "orders", queue_id: int = 0, **fields: Any) -> list[Sent]:
        """Append these as one burst and commit it."""
        burst = [self.append(body, topic, queue_id, **fields) for body in bodies]
        self.store.commit()
        return burst

    def bodies(self, topic: str = "orders", queue_id: int = 0, start: int | None = None) -> list[bytes]:
        """Read a queue from the beginning to its end, as a consumer does."""
        queue = self.store.queue(topic, queue_id)
        offset = queue.min_offset if start is None else start
        found: list[bytes] = []
        while (result := self.store.read(queue, offset, 32)).record_count:
            records = decode_records(join_records(slices := self.store.records(result), result.record_count))
            assert [record.queue_offset for record in records] == list(range(offset, offset + len(records)))
            assert {(record.topic, record.queue_id) for record in records} == {(topic, queue_id)}
            assert sum(map(len, slices)) == result.record_bytes
            assert (result.first_offset, result.end_offset) == (offset, offset + len(records))
            found += [record.body for record in records]
            assert result.next_offset == offset + len(records)
            offset = result.next_offset
        assert offset == queue.max_offset
        return found

    def bodies_with_gaps(self, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
        """Read a queue to its end, over messages that are damaged."""
        queue = self.store.queue(topic, queue_id)
        offset, found = queue.min_offset, []
        while offset < queue.max_offset:
            result = self.store.read(queue, offset, 32)
            if result.positions:
                records = decode_records(join_records(self.store.records(result), result.record_count))
                found += [record.body for record in records]
            offset = result.next_offset
        return found


ENDS = f"{FOLDER}/queueEnds"
QUEUES = f"{FOLDER}/consumequeue"
BODIES = [b"%03d" % number * 20 for number in range(40)]


def filled() -> StoreStand:
    """40 messages in queue 0 of orders, in three files and the log's first four; one in another queue."""
    stand = StoreStand()
    stand.open()
    stand.send(*BODIES)
    stand.send(b"other", topic="bills", queue_id=3)
    stand.store.close()
    return stand


def noted_ends(stand: StoreStand) -> list[bytes]:
    """The lines of queueEnds."""
    return [unseal(line) for line in bytes(stand.disk.files[ENDS].content).splitlines()]


# --- what can happen to it


def kill_in_write(stand: StoreStand, file: str, written_bytes: int) -> None:
    """Let the process be killed in the next write to that file, when so many bytes are written."""

    def on_write(path: str, position: int, data: Bytes) -> None:
        if path == file:
            stand.disk.on_write = None
            if written_bytes:
                stand.disk.files[path].write(position, bytes(data)[:written_bytes])
            raise ProcessKilled

    stand.disk.on_write = on_write


def overwrite(stand: StoreStand, position: int, data: bytes, file: str = LOG) -> None:
    stand.disk.files[file].write(position, data)


def lose_before(stand: StoreStand, lost: list[Sent], kept: list[Sent]) -> None:
    """Leave a hole where the first of these lies, as a failed fsync does."""
    segment = stand.store.log.segments.at(lost[0].log_position)
    assert segment is not None
    start, end = lost[0].log_position, kept[0].log_position
    content = stand.disk.files[segment.path].content
    content[start - segment.start : end - segment.start] = bytes(end - start)
