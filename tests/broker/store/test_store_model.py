"""Whatever happens to a store, in whatever order, it holds what a list per queue would hold."""

import errno
from itertools import product
from random import Random

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from staticfire.broker.store.outcomes import PutOutcome
from staticfire.broker.store.settings import StoreSettings
from staticfire.runtime.machine import Bytes
from staticfire.simulation.world.process import ProcessKilled
from tests.broker.store.stand import Sent, StoreStand

TOPICS = st.sampled_from(["orders", "bills"])
QUEUE_IDS = st.integers(0, 1)
BODY_SIZES = st.integers(0, 300) | st.just(800)
Name = tuple[str, int]


class StoreMachine(RuleBasedStateMachine):
    """`messages` is what was stored, `safe` how many of each queue would survive a loss of power."""

    def __init__(self) -> None:
        super().__init__()
        self.stand = StoreStand(
            StoreSettings(segment_bytes_max=1024, queue_file_entries=4, queue_tail_entries=1, queues_per_flush_max=2)
        )
        self.stand.open()
        self.messages: dict[Name, list[Sent]] = {}
        self.safe: dict[Name, int] = {}
        self.in_holes: set[int] = set()
        # Log positions of messages that a power loss has taken, and not those behind them.
        self.pending: list[tuple[Name, Sent]] = []
        self.count = 0

    # --- what is done to it

    @rule(topic=TOPICS, queue_id=QUEUE_IDS, size=BODY_SIZES)
    def append(self, topic: str, queue_id: int, size: int) -> None:
        self.count += 1
        body = (b"%d." % self.count) * (size // 4 + 1)
        sent = self.stand.append(body[: max(4, size)], topic, queue_id)
        self.pending.append(((topic, queue_id), sent))

    @rule()
    def commit(self) -> None:
        self.stand.store.commit()
        self._take_pending(len(self.pending))

    @rule(at_write=st.integers(1, 3), part=st.floats(0, 1))
    def commit_on_a_full_disk(self, at_write: int, part: float) -> None:
        failed = self._fail_in_write(at_write, part, OSError(errno.ENOSPC, "No space left on device"))
        self.stand.store.commit()
        self.stand.disk.on_write = None
        if failed:
            assert {sent.outcome for _, sent in self.pending} <= {PutOutcome.FAILED}
            self.pending = []
        else:
            self._take_pending(len(self.pending))

    @rule(at_write=st.integers(1, 3), part=st.floats(0, 1))
    def kill_in_commit(self, at_write: int, part: float) -> None:
        self._fail_in_write(at_write, part, ProcessKilled())
        try:
            self.stand.store.commit()
        except ProcessKilled:
            self._begin_anew()
            end = self.stand.store.max_position
            self._take_pending(sum(sent.log_position < end for _, sent in self.pending))
            self.pending = []
        else:
            self.stand.disk.on_write = None
            self._take_pending(len(self.pending))

    @rule()
    def flush(self) -> None:
        self.stand.store.flush()
        self.safe = {name: len(sent) for name, sent in self.messages.items()}

    @rule(at_write=st.integers(1, 4), part=st.floats(0, 1))
    def flush_on_a_full_disk(self, at_write: int, part: float) -> None:
        failed = self._fail_in_write(at_write, part, OSError(errno.ENOSPC, "No space left on device"))
        try:
            self.stand.store.flush()
        except OSError:
            assert failed
        self.stand.disk.on_write = None

    @rule(at_write=st.integers(1, 4), part=st.floats(0, 1))
    def kill_in_flush(self, at_write: int, part: float) -> None:
        self._fail_in_write(at_write, part, ProcessKilled())
        try:
            self.stand.store.flush()
        except ProcessKilled:
            self.pending = []
            self._begin_anew()
        self.stand.disk.on_write = None

    @rule()
    def kill(self) -> None:
        self.pending = []
        self._begin_anew()

    @rule(seed=st.integers(0, 1000))
    def lose_power(self, seed: int) -> None:
        self.pending = []
        self.stand.lose_power(Random(seed))
        # Segments are written back in any order: whole records may be left behind a gap. None of them was safe.
        assert self.stand.open().lost_synced_bytes == 0
        for topic, queue_id in product(("orders", "bills"), (0, 1)):
            sent = self.messages.setdefault((topic, queue_id), [])
            left = self.stand.store.queue(topic, queue_id).max_offset
            safe = self.safe.get((topic, queue_id), 0)
            assert safe <= left <= len(sent)
            del sent[left:]
            gone = [one.log_position for one in sent[safe:] if self.stand.store.record_at(one.log_position) is None]
            self.in_holes.update(gone)

    @rule()
    def close_and_open(self) -> None:
        self.stand.store.close()
        self._take_pending(len(self.pending))
        self.safe = {name: len(sent) for name, sent in self.messages.items()}
        report = self.stand.open()
        assert (report.was_closed, report.cut_bytes, report.problems) == (True, 0, ())

    @rule(topic=TOPICS)
    def delete(self, topic: str) -> None:
        self.stand.store.delete_queues(topic)
        self._take_pending(len(self.pending))
        for queue_id in (0, 1):
            self.messages.pop((topic, queue_id), None)
            self.safe.pop((topic, queue_id), None)

    @rule(back=st.integers(0, 4000))
    def remove_segments(self, back: int) -> None:
        self.stand.store.remove_segments_before(self.stand.store.max_position - back)

    @rule()
    @precondition(lambda self: self.stand.store.min_position == 0)
    def lose_the_checkpoint(self) -> None:
        self.pending = []
        self.stand.kill()
        self.stand.disk.remove("/store/checkpoint")
        assert not self.stand.open().is_damaged
        # Until the first flush has written another one, nobody knows what is safe: should the power go within that half
        # second, a hole may be damage, and a start is refused.
        self.stand.store.flush()

    # --- what must be true

    @invariant()
    def every_queue_has_what_was_stored(self) -> None:
        oldest = self.stand.store.min_position
        for (topic, queue_id), sent in self.messages.items():
            queue = self.stand.store.queue(topic, queue_id)
            stored = [one for one in sent if one.log_position >= oldest]
            there = [one.body for one in stored if one.log_position not in self.in_holes]
            assert queue.max_offset == len(sent)
            assert self.stand.bodies_with_gaps(topic, queue_id) == there
            if len(there) == len(stored):
                assert queue.min_offset == len(sent) - len(there)
                assert self.stand.bodies(topic, queue_id) == there

    @invariant()
    def every_record_is_found_by_its_position(self) -> None:
        for sent in self.messages.values():
            for one in sent[-2:]:
                record = self.stand.store.record_at(one.log_position)
                is_stored = one.log_position >= self.stand.store.min_position and one.log_position not in self.in_holes
                assert (record is not None) == is_stored

    # --- helpers

    def _take_pending(self, count: int) -> None:
        for name, sent in self.pending[:count]:
            self.messages.setdefault(name, []).append(sent)
        self.pending = []

    def _begin_anew(self) -> None:
        self.stand.disk.on_write = None
        report = self.stand.restart()
        assert not report.is_damaged
        assert not report.rebuilt
        assert report.problems == ()

    def _fail_in_write(self, at_write: int, part: float, error: BaseException) -> list[bool]:
        """Let the n-th write fail after a part of it was done; the list tells whether it came to that."""
        failed: list[bool] = []
        writes = 0

        def on_write(path: str, position: int, data: Bytes) -> None:
            nonlocal writes
            writes += 1
            if writes == at_write:
                is_replaced = path.endswith(("checkpoint", "deletedTopics", "logStart"))
                is_replaced |= path.endswith("queueEnds") and position == 0
                if path in self.stand.disk.files and not is_replaced:
                    self.stand.disk.files[path].write(position, bytes(data)[: int(len(data) * part)])
                failed.append(True)
                raise error

        self.stand.disk.on_write = on_write
        return failed


StoreMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=50)
TestStoreModel = StoreMachine.TestCase
