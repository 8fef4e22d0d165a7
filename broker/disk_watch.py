"""Check the disk and the age of the log every 10 s, and apply `RetentionPolicy`.

One segment is removed at a time, followed by a pause, so that sends don't wait for the file system, and so that the
disk is checked again before the next removal. RocketMQ: CleanCommitLogService, its diskCheckScheduledExecutorService.
"""

from collections import Counter
from collections.abc import Awaitable, Callable

from staticfire.broker.retention import Reason, RetentionPolicy
from staticfire.broker.state import BrokerState
from staticfire.broker.store.outcomes import OldSegment
from staticfire.protocol.errors import StorageError, UsageError
from staticfire.protocol.times import MessageMs
from staticfire.runtime.log import logger

log = logger("broker")

# The pause between two segments (RocketMQ: deleteCommitLogFilesInterval).
PAUSE_MS = 100


class DiskWatch:
    """Keeps one broker's disk from filling up."""

    def __init__(
        self,
        state: BrokerState,
        pause: Callable[[int], Awaitable[None]],
        on_removed: Callable[[], object],
        forget_removed: Callable[[], Awaitable[None]],
        needed_from: Callable[[], int | None],
    ) -> None:
        """`on_removed` is called after each removal, and again later if it fails; `forget_removed` after the last one.

        `needed_from` returns the log position of the first message that waits for its time. Its segment isn't removed
        for its age, but it may be removed if the disk fills up.

        Raises: UsageError (deleteWhen contains something that is no hour).
        """
        self._state = state
        self._policy = RetentionPolicy(state.settings)
        self._pause = pause
        self._on_removed = on_removed
        self._forget_removed = forget_removed
        self._needed_from = needed_from
        self._folder = state.settings.store_path_root_dir
        self._is_full = False
        self._must_adjust = False
        """Whether something may have been removed since the last `on_removed` that succeeded."""
        self._trouble = ""
        self._looked_ms = MessageMs(0)
        """The message time up to which everything old enough was removed."""

    async def loop(self) -> None:
        """Check the disk and remove old segments, periodically."""
        self._looked_ms = self._state.clock.message_ms()
        while True:
            await self._pause(max(1, self._state.settings.clean_resource_interval))
            try:
                self.look()
                await self.remove_old()
                self._trouble = ""
            except (StorageError, UsageError, OSError) as error:
                if self._trouble != str(error):
                    self._trouble = str(error)
                    log.error("retention_failed", error=self._trouble)

    def look(self) -> None:
        """Check how full the disk is, and let the store accept or refuse messages.

        Raises: StorageError, UsageError (deleteWhen was changed to something that is no hour).
        """
        state = self._state
        if self._policy.settings is not state.settings:
            self._policy = RetentionPolicy(state.settings)
        try:
            state.disk_use = state.machine.files.disk_usage(self._folder)
        except OSError as error:
            trouble = StorageError(f"the disk of {self._folder} can't be checked: {error}")
            if isinstance(error, FileNotFoundError):
                # The folder is gone: anything stored now would be lost when the process ends.
                state.store.refuse(trouble)
            raise trouble from error
        refusal = self._policy.refusal(self._folder, state.disk_use)
        state.store.refuse(refusal)
        if refusal is not None and not self._is_full:
            log.error("disk_full", error=str(refusal))
        elif refusal is None and self._is_full:
            log.warning("disk_has_room", folder=self._folder, used_percent=state.disk_use.percent)
        self._is_full = refusal is not None

    async def remove_expired(self) -> None:
        """Remove what is old enough, in any hour, not only deleteWhen. Raises: StorageError, UsageError, OSError."""
        self.look()  # A setting may have changed since the last look: the old one could remove what must be kept.
        await self._remove(self._state.clock.message_ms(), PAUSE_MS)

    async def remove_passed(self) -> None:
        """Remove what was old enough in an hour that message time has jumped over.

        No pauses are needed: nothing is sent meanwhile, as the caller that moves the clock waits for this. Raises:
        StorageError, UsageError, OSError.
        """
        self.look()
        await self.remove_old(pause_ms=0)

    async def remove_old(self, pause_ms: int = PAUSE_MS) -> None:
        """Remove segments, oldest first, until one must be kept. Raises: StorageError, OSError."""
        message_ms = self._state.clock.message_ms()
        if await self._remove(self._policy.last_hour_ms(self._looked_ms, message_ms), pause_ms):
            self._looked_ms = message_ms

    async def _remove(self, hour_ms: MessageMs | None, pause_ms: int) -> bool:
        """Return whether everything due was removed; a segment is kept until the disk has its queue entries."""
        removed: Counter[Reason] = Counter()
        try:
            self._adjust()
            while True:
                segment = self._state.store.oldest_segment()
                reason = None if segment is None else self._reason(segment, hour_ms)
                if segment is None or reason is None:
                    return True
                if reason is Reason.AGE and self._is_needed(segment):
                    return False
                self._must_adjust = True
                if not self._state.store.remove_segments_before(segment.end_position):
                    return False
                removed[reason] += 1
                self._adjust()
                await self._pause(pause_ms)
                self.look()
        finally:
            if removed:
                self._tell(removed)
                await self._forget_removed()

    def _adjust(self) -> None:
        """Call `on_removed` if that is necessary. Raises: StorageError, OSError (a queue can't be read now)."""
        if self._must_adjust:
            self._on_removed()
            self._must_adjust = False

    def _reason(self, segment: OldSegment, hour_ms: MessageMs | None) -> Reason | None:
        state = self._state
        if state.clock.stands and hour_ms is None:
            return None
        return self._policy.reason_to_remove(
            segment, state.store.max_position, state.clock.message_ms(), self._used_percent, hour_ms
        )

    @property
    def _used_percent(self) -> int:
        """How full the disk is; 0 while message time is frozen."""
        return 0 if self._state.clock.stands else self._state.disk_use.percent

    def _is_needed(self, segment: OldSegment) -> bool:
        """Return whether an old segment must be kept, because a message in it waits. Raises: StorageError, OSError."""
        if self._policy.makes_room(segment, self._state.store.max_position, self._used_percent):
            return False
        needed_from = self._needed_from()
        return needed_from is not None and needed_from < segment.end_position

    def _tell(self, removed: Counter[Reason]) -> None:
        begins_at = self._state.store.min_position
        if removed[Reason.AGE]:
            log.info("old_messages_removed", segments=removed[Reason.AGE], log_begins_at=begins_at)
        if removed[Reason.DISK]:
            used = self._state.disk_use.percent
            words = "the disk was too full to keep them until fileReservedTime; see diskSpaceCleanForciblyRatio"
            log.warning(
                "young_messages_removed",
                segments=removed[Reason.DISK],
                log_begins_at=begins_at,
                folder=self._folder,
                used_percent=used,
                reason=words,
            )
