"""When old messages are removed, and when the disk is too full for new ones. Pure. RocketMQ: CleanCommitLogService.

    disk used     a segment is removed
    up to 75 %    if it is older than fileReservedTime, at the hours of deleteWhen
    above 75 %    if it is older than fileReservedTime
    above 85 %    whatever its age, except for the newest GiB of the log
    above 90 %    likewise, and no message is accepted until there is room again

Ages and hours are message time, and hours are in UTC. A jump of the clock passes the hours in between as if time had
run: everything that was old enough in the last of them is removed. While message time is frozen, nothing is removed.
RocketMQ's log always keeps its last file, which has up to 1 GiB. Segments are smaller here, so a whole GiB is kept:
what a test has just sent must not be removed because the disk of a laptop is nearly full. The newest segment is never
removed.
"""

from enum import Enum

from staticfire.broker.settings import BrokerSettings
from staticfire.broker.store.outcomes import OldSegment
from staticfire.protocol.errors import StorageError, UsageError
from staticfire.protocol.times import MessageMs
from staticfire.runtime.machine import DiskUse

HOUR_MS = 3_600_000


class Reason(Enum):
    """Why a segment is removed."""

    AGE = "age"
    DISK = "disk"


class RetentionPolicy:
    """What a broker with these settings keeps."""

    def __init__(self, settings: BrokerSettings) -> None:
        """Raises: UsageError (deleteWhen contains something that is no hour)."""
        self.settings = settings
        self._reserved_ms = settings.file_reserved_time * HOUR_MS
        self._hours = parse_hours(settings.delete_when)

    def last_hour_ms(self, since_ms: MessageMs, message_ms: MessageMs) -> MessageMs | None:
        """Return the last moment after `since_ms`, up to now, that is in an hour of deleteWhen.

        None if there is none.
        """
        hour = message_ms // HOUR_MS
        for passed in range(24):
            if (hour - passed) % 24 in self._hours:
                moment_ms = message_ms if passed == 0 else MessageMs((hour - passed + 1) * HOUR_MS - 1)
                return moment_ms if moment_ms > since_ms else None
        return None

    def reason_to_remove(
        self,
        segment: OldSegment,
        end_position: int,
        message_ms: MessageMs,
        used_percent: int,
        hour_ms: MessageMs | None,
    ) -> Reason | None:
        """Return why the oldest segment of a log that ends at `end_position` must be removed now; None to keep it.

        `hour_ms`: the last moment of deleteWhen at which old messages had to be removed, if there was one.
        """
        settings = self.settings
        forced = self._is_forced(used_percent)
        goes_at_ms = segment.newest_ms + self._reserved_ms
        if hour_ms is not None and goes_at_ms <= hour_ms:
            return Reason.AGE
        if goes_at_ms <= message_ms and (forced or used_percent > settings.disk_max_used_space_ratio):
            return Reason.AGE
        return Reason.DISK if self.makes_room(segment, end_position, used_percent) else None

    def makes_room(self, segment: OldSegment, end_position: int, used_percent: int) -> bool:
        """Return whether a segment must be removed whatever is in it."""
        is_behind = end_position - segment.end_position >= self.settings.clean_file_forcibly_keep_bytes
        return is_behind and self._is_forced(used_percent)

    def _is_forced(self, used_percent: int) -> bool:
        settings = self.settings
        return settings.clean_file_forcibly_enable and used_percent > settings.disk_space_clean_forcibly_ratio

    def refusal(self, folder: str, use: DiskUse) -> StorageError | None:
        """Return why no message is accepted; None if there is room."""
        limit = self.settings.disk_space_warning_level_ratio
        if use.percent <= limit:
            return None
        return StorageError(
            f"the disk of {folder} is {use.percent} % full, and above diskSpaceWarningLevelRatio={limit} nothing is "
            f"stored: free space, or set a higher ratio, up to diskSpaceWarningLevelRatio=100"
        )


def parse_hours(text: str) -> frozenset[int]:
    """Return the hours of deleteWhen, like `04` or `04;16`. Raises: UsageError."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    if not all(part.isdecimal() and int(part) < 24 for part in parts):
        raise UsageError(
            f"deleteWhen={text} is not a list of hours: write hours from 00 to 23, separated by semicolons"
        )
    return frozenset(int(part) for part in parts)


def disk_words(use: DiskUse) -> str:
    """Return the disk usage in the format of RocketMQ's refusals. RocketMQ: DefaultMessageStore.diskUtil."""
    share = f"{use.percent / 100:5.2f}"  # Log, queues and index are on the same disk.
    return f"CL: {share} CQ: {share} INDEX: {share}"
