"""Looks at the disk and at the age of the log, every 10 s, and does what `RetentionPolicy` says.

A segment is removed at a time, with a pause behind it, so that sends don't wait for the file system and that the disk
is looked at again before the next one goes. RocketMQ: CleanCommitLogService, its diskCheckScheduledExecutorService.
"""

from collections import Counter
from collections.abc import Awaitable, Callable

from staticfire.broker.retention import Reason, RetentionPolicy
from staticfire.broker.state import BrokerState
from staticfire.protocol.errors import StorageError, UsageError
from staticfire.runtime.log import logger

log = logger("broker")

PAUSE_MS = 100
# Between two segments (RocketMQ: deleteCommitLogFilesInterval).


class DiskWatch:
    """Keeps one broker's disk from getting full."""

    def __init__(
        self,
        state: BrokerState,
        pause: Callable[[int], Awaitable[None]],
        on_removed: Callable[[], None],
        forget_removed: Callable[[], Awaitable[None]],
    ) -> None:
        """`on_removed`: called at once when records are gone; `forget_removed`: when no more go for now.

        Raises: UsageError (deleteWhen has something that is no hour).
        """
        self._state = state
        self._policy = RetentionPolicy(state.settings)
        self._pause = pause
        self._on_removed = on_removed
        self._forget_removed = forget_removed
        self._folder = state.settings.store_path_root_dir
        self._is_full = False
        self._trouble = ""

    async def loop(self) -> None:
        """Loop: look, remove what has to go."""
        while True:
            await self._pause(self._state.settings.clean_resource_interval)
            try:
                self.look()
                await self.remove_old()
                self._trouble = ""
            except (StorageError, UsageError) as error:
                if self._trouble != str(error):
                    self._trouble = str(error)
                    log.error("retention_failed", error=self._trouble)

    def look(self) -> None:
        """Find out how full the disk is, and let the store take messages or refuse them.

        Raises: StorageError, UsageError (deleteWhen was changed to something that is no hour).
        """
        state = self._state
        if self._policy.settings is not state.settings:
            self._policy = RetentionPolicy(state.settings)
        try:
            state.disk_use = state.machine.files.disk_usage(self._folder)
        except OSError as error:
            raise StorageError(f"the disk of {self._folder} can't be looked at: {error}") from error
        refusal = self._policy.refusal(self._folder, state.disk_use)
        state.store.refuse(refusal)
        if refusal is not None and not self._is_full:
            log.error("disk_full", error=str(refusal))
        elif refusal is None and self._is_full:
            log.warning("disk_has_room", folder=self._folder, used_percent=state.disk_use.percent)
        self._is_full = refusal is not None

    async def remove_expired(self) -> None:
        """Remove what is old enough, although it isn't the hour of deleteWhen. Raises: StorageError."""
        await self.remove_old(at_any_hour=True)

    async def remove_old(self, at_any_hour: bool = False) -> None:
        """Remove segments, the oldest first, until one has to stay. Raises: StorageError."""
        removed: Counter[Reason] = Counter()
        try:
            while (reason := self._remove_one(at_any_hour)) is not None:
                removed[reason] += 1
                self._on_removed()
                await self._pause(PAUSE_MS)
                self.look()
        finally:
            if removed:
                self._tell(removed)
                await self._forget_removed()

    def _remove_one(self, at_any_hour: bool) -> Reason | None:
        state = self._state
        if state.clock.stands:
            return None
        segment = state.store.oldest_segment()
        if segment is None:
            return None
        reason = self._policy.reason_to_remove(
            segment, state.store.max_position, state.clock.message_ms(), state.disk_use.percent, at_any_hour
        )
        if reason is None or not state.store.remove_segments_before(segment.end_position):
            return None  # It stays, or the disk doesn't have its queue entries yet.
        return reason

    def _tell(self, removed: Counter[Reason]) -> None:
        begins_at = self._state.store.min_position
        if removed[Reason.AGE]:
            log.info("old_messages_removed", segments=removed[Reason.AGE], log_begins_at=begins_at)
        if removed[Reason.DISK]:
            used = self._state.disk_use.percent
            words = "the disk was too full to keep them for fileReservedTime; see diskSpaceCleanForciblyRatio"
            log.warning(
                "young_messages_removed",
                segments=removed[Reason.DISK],
                log_begins_at=begins_at,
                folder=self._folder,
                used_percent=used,
                reason=words,
            )
