"""Which messages wait for a time of their own, and which are done. Pure.

A waiting message is one 64-bit number: the lower 13 bits of its due time, its queue offset (39 bits), its hash (12
bits). The numbers are in buckets, one for each 2^13 ms (8.2 s). A bucket is sorted when it becomes the next one. A
recall searches one bucket (two at a border): if a million messages are due within a minute, one is 140,000 numbers,
5 ms. A delivered or recalled message is one bit, so a recalled message is kept in its bucket and skipped later. A
million waiting messages take about 10 MiB.
"""

from array import array
from bisect import bisect_left, insort
from heapq import heappop, heappush

from staticfire.broker.timers.forms import HASH_BITS, HASH_MASK, PRECISION_MS
from staticfire.protocol.errors import StorageError
from staticfire.protocol.times import MessageMs

BUCKET_BITS = 13
OFFSET_BITS = 64 - BUCKET_BITS - HASH_BITS
OFFSETS_MAX = 1 << OFFSET_BITS
_TIME_SHIFT = OFFSET_BITS + HASH_BITS
_OFFSET_MASK = OFFSETS_MAX - 1
_BUCKET_MASK = (1 << BUCKET_BITS) - 1


class DoneOffsets:
    """Queue offsets of messages that no longer wait: all below `base`, and one bit for each offset from there on."""

    def __init__(self, base: int = 0, bits: bytes = b"") -> None:
        """`base`: a multiple of 8."""
        self.base = base
        self.bits = bytearray(bits)

    def __contains__(self, offset: int) -> bool:
        place = offset - self.base
        return place < 0 or (place >> 3 < len(self.bits) and bool(self.bits[place >> 3] >> (place & 7) & 1))

    def add(self, offset: int) -> None:
        """Mark an offset as done."""
        place = offset - self.base
        if place < 0:
            return
        missing = (place >> 3) + 1 - len(self.bits)
        if missing > 0:
            self.bits += bytes(missing)
        self.bits[place >> 3] |= 1 << (place & 7)

    def discard(self, offset: int) -> None:
        """Undo `add`."""
        place = offset - self.base
        if 0 <= place < 8 * len(self.bits):
            self.bits[place >> 3] &= ~(1 << (place & 7))

    def add_below(self, offset: int) -> None:
        """Mark all offsets before `offset` as done."""
        count = max(0, offset - self.base) >> 3
        if count:
            self.base += count * 8
            del self.bits[:count]
        for one in range(self.base, offset):
            self.add(one)

    def first_missing(self) -> int:
        """Return the first offset that isn't done, and drop the bits before it."""
        whole = len(self.bits) - len(self.bits.lstrip(b"\xff"))
        if whole:
            self.base += whole * 8
            del self.bits[:whole]
        if not self.bits:
            return self.base
        return self.base + next(bit for bit in range(8) if not self.bits[0] >> bit & 1)


class TimerIndex:
    """The waiting messages by due time."""

    def __init__(self) -> None:
        self.done = DoneOffsets()
        """Replaced as a whole at start, after the saved state was read."""
        self._buckets: dict[int, array[int]] = {}
        # A heap of the buckets' keys.
        self._keys: list[int] = []
        # The bucket with the next due times, sorted, and the index of its next message.
        self._front_key = -1
        self._front: array[int] = array("Q")
        self._at = 0

    def __len__(self) -> int:
        """The number of waiting messages. Recalled ones count until their due time."""
        return len(self._front) - self._at + sum(map(len, self._buckets.values()))

    def forget(self) -> None:
        """Reset everything, because the queue was deleted."""
        self.done = DoneOffsets()
        self._buckets.clear()
        self._keys.clear()
        self._front_key, self._front, self._at = -1, array("Q"), 0

    def add(self, due_ms: int, offset: int, hash_bits: int) -> None:
        """Add a message. Raises: StorageError (the largest possible offset was exceeded)."""
        if offset >= OFFSETS_MAX:
            raise StorageError(f"the limit of {OFFSETS_MAX} delayed messages is reached: reset the broker")
        key = due_ms >> BUCKET_BITS
        word = (due_ms & _BUCKET_MASK) << _TIME_SHIFT | offset << HASH_BITS | hash_bits
        if key == self._front_key:
            insort(self._front, word, lo=self._at)
            return
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = array("Q")
            heappush(self._keys, key)
        bucket.append(word)

    def next_due_ms(self) -> MessageMs | None:
        """Return when the next message is due; None if none waits."""
        if not self._find_front():
            return None
        return MessageMs(self._front_key << BUCKET_BITS | self._front[self._at] >> _TIME_SHIFT)

    def take_due(self, message_ms: MessageMs, count_max: int) -> list[tuple[int, int, int]]:
        """Remove and return due messages, in the order of their times: due time, offset, hash."""
        taken: list[tuple[int, int, int]] = []
        while len(taken) < count_max:
            due_ms = self.next_due_ms()
            if due_ms is None or due_ms > message_ms:
                break
            word = self._front[self._at]
            taken.append((due_ms, word >> HASH_BITS & _OFFSET_MASK, word & HASH_MASK))
            self._at += 1
        return taken

    def candidates(self, out_ms: int, hash_bits: int) -> list[tuple[int, int]]:
        """Return due time and offset of possible matches, within the second after `out_ms`."""
        found: list[tuple[int, int]] = []
        first_ms, end_ms = out_ms + 1, out_ms + 1 + PRECISION_MS
        for key in range(first_ms >> BUCKET_BITS, (end_ms - 1 >> BUCKET_BITS) + 1):
            start_ms = key << BUCKET_BITS
            low = max(first_ms - start_ms, 0) << _TIME_SHIFT
            high = min(end_ms - start_ms, 1 << BUCKET_BITS) << _TIME_SHIFT
            for word in self._between(key, low, high):
                offset = word >> HASH_BITS & _OFFSET_MASK
                if word & HASH_MASK == hash_bits and offset not in self.done:
                    found.append((start_ms | word >> _TIME_SHIFT, offset))
        return found

    def _between(self, key: int, low: int, high: int) -> "list[int] | array[int]":
        if key == self._front_key:
            first = bisect_left(self._front, low, lo=self._at)
            return self._front[first : bisect_left(self._front, high, lo=first)]
        return [word for word in self._buckets.get(key, ()) if low <= word < high]

    def _find_front(self) -> bool:
        """Move the next waiting message to the front; return whether there is one."""
        done = self.done
        while True:
            front, at = self._front, self._at
            while at < len(front) and front[at] >> HASH_BITS & _OFFSET_MASK in done:
                at += 1
            self._at = at
            is_left = at < len(front)
            if is_left and not (self._keys and self._keys[0] < self._front_key):
                return True
            if is_left:
                self._buckets[self._front_key] = front[at:]  # A message with an earlier due time was added.
                heappush(self._keys, self._front_key)
            self._front_key, self._front, self._at = -1, array("Q"), 0
            if not self._keys:
                return False
            self._front_key = heappop(self._keys)
            self._front = array("Q", sorted(self._buckets.pop(self._front_key)))
