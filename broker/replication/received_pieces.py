"""The pieces of the master's log that a slave has received and not stored yet.

Each is stored when its time has come: at once, or with a lag when it is old enough. Pieces are parts of one log: each
begins where the one before it ended, or it is requested again.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from staticfire.broker.state import BrokerState
from staticfire.broker.store.copied import end_of_whole_records
from staticfire.protocol.errors import StorageError
from staticfire.protocol.requests.replication import COPY_BYTES_MAX, PIECE_BYTES_MAX
from staticfire.protocol.times import UptimeMs

# Pieces that wait for their time. Above it, no further piece is requested.
LAGGING_BYTES_MAX = 64 * 1024 * 1024


class _Piece(NamedTuple):
    due_ms: UptimeMs
    position: int
    data: bytes
    end: int
    bytes_max: int
    """As requested."""
    segment_end: int | None


class ReceivedPieces:
    """The pieces, oldest first."""

    def __init__(self, state: BrokerState, settle: Callable[[], None], log_grew: Callable[[], None]) -> None:
        """`settle` writes the burst. `log_grew` is called after each piece that was stored."""
        self._state = state
        self._store = state.store
        self._settle = settle
        self._log_grew = log_grew
        self._uptime_ms = state.machine.clock.uptime_ms
        self._pieces: deque[_Piece] = deque()
        self.bytes_max = COPY_BYTES_MAX
        """How much of the log to request next. It grows if the next record is larger."""

    def __bool__(self) -> bool:
        return bool(self._pieces)

    @property
    def end(self) -> int:
        """Where the log ends, including what isn't stored yet."""
        return self._pieces[-1].end if self._pieces else self._store.max_position

    @property
    def due_in_ms(self) -> int:
        """The time until the oldest piece is stored. There must be one."""
        return max(0, self._pieces[0].due_ms - self._uptime_ms())

    @property
    def is_full(self) -> bool:
        """Whether so much waits that no further piece is requested."""
        return sum(len(piece.data) for piece in self._pieces) > LAGGING_BYTES_MAX

    def add(self, position: int, data: bytes, segment_end: int | None) -> None:
        """Add what the master sent. `segment_end`: see `CopyAnswer`."""
        lag_ms = self._state.settings.replication_lag_ms
        end = end_of_whole_records(position, data) if lag_ms else position + len(data)
        due_ms = UptimeMs(self._uptime_ms() + lag_ms)
        self._pieces.append(_Piece(due_ms, position, data, end, self.bytes_max, segment_end))

    def clear(self) -> None:
        """Forget all pieces: they are requested again."""
        self._pieces.clear()

    def store_due(self) -> None:
        """Store the pieces whose time has come. Raises: StorageError, OSError."""
        uptime_ms, is_lagging = self._uptime_ms(), self._state.settings.replication_lag_ms > 0
        while self._pieces and (not is_lagging or self._pieces[0].due_ms <= uptime_ms):
            piece = self._pieces.popleft()
            if piece.position == self._store.max_position:
                self._store_one(piece)
            else:
                self._pieces.clear()  # The piece before it ended within a record: this one is requested again.

    def _store_one(self, piece: _Piece) -> None:
        copy = self._store.copy_of_log()
        end = copy.add(piece.position, piece.data, piece.segment_end)
        self._settle()
        self._log_grew()
        if end == piece.position:
            if len(piece.data) < piece.bytes_max or piece.bytes_max >= PIECE_BYTES_MAX:
                # There is nothing more in this segment, or no record is as large: the master's disk is damaged, say.
                self.bytes_max = COPY_BYTES_MAX
                raise StorageError(f"the master's log has no whole record at position {end}: it is damaged")
            self.bytes_max = min(max(self.bytes_max, 2 * piece.bytes_max), PIECE_BYTES_MAX)
            return
        self.bytes_max = COPY_BYTES_MAX
        if self._store.max_position != end:
            raise self._store.failure or StorageError("a piece of the log could not be stored")
