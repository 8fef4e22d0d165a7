"""When old messages go, and when the disk is too full for new ones. Pure. RocketMQ: CleanCommitLogService.

    disk used     a segment goes
    up to 75 %    when it is older than fileReservedTime, at the hours of deleteWhen
    above 75 %    when it is older than fileReservedTime
    above 85 %    however young it is, but for the newest GiB of the log
    above 90 %    likewise, and no message is taken until there is room again

Ages and hours are message time, hours those of UTC. A jump passes the hours between its ends as if time had run: what
was old enough in the last of them goes. While message time stands nothing goes. RocketMQ's log always keeps its last
file, which has up to 1 GiB: segments are smaller here, and what a test has just sent to a laptop whose disk is nearly
full isn't what should go; the newest segment never does.
"""

from enum import Enum

from staticfire.broker.settings import BrokerSettings
from staticfire.broker.store.outcomes import OldSegment
from staticfire.protocol.errors import StorageError, UsageError
from staticfire.protocol.times import MessageMs
from staticfire.runtime.machine import DiskUse

HOUR_MS = 3_600_000


class Reason(Enum):
    """Why a segment goes."""

    AGE = "age"
    DISK = "disk"


class RetentionPolicy:
    """What a broker with these settings keeps."""

    def __init__(self, settings: BrokerSettings) -> None:
        """Raises: UsageError (deleteWhen has something that is no hour)."""
        self.settings = settings
        self._reserved_ms = settings.file_reserved_time * HOUR_MS
        self._hours = parse_hours(settings.delete_when)

    def last_hour_ms(self, since_ms: MessageMs, message_ms: MessageMs) -> MessageMs | None:
        """Return the last moment after `since_ms`, up to now, that lies in an hour of deleteWhen; None for none."""
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
        """Return why the oldest segment of a log that ends at `end_position` goes now; None when it stays.

        `hour_ms`: the last moment at which what was old had to go by its age alone, if there was one.
        """
        settings = self.settings
        forced = settings.clean_file_forcibly_enable and used_percent > settings.disk_space_clean_forcibly_ratio
        goes_at_ms = segment.newest_ms + self._reserved_ms
        if hour_ms is not None and goes_at_ms <= hour_ms:
            return Reason.AGE
        if goes_at_ms <= message_ms and (forced or used_percent > settings.disk_max_used_space_ratio):
            return Reason.AGE
        if forced and end_position - segment.end_position >= settings.clean_file_forcibly_keep_bytes:
            return Reason.DISK
        return None

    def refusal(self, folder: str, use: DiskUse) -> StorageError | None:
        """Return why no message is taken; None when there is room."""
        limit = self.settings.disk_space_warning_level_ratio
        if use.percent <= limit:
            return None
        return StorageError(
            f"the disk of {folder} is {use.percent} % full, and above diskSpaceWarningLevelRatio={limit} nothing is "
            f"stored: make room, or set a higher one, up to diskSpaceWarningLevelRatio=100"
        )


def parse_hours(text: str) -> frozenset[int]:
    """Return the hours of deleteWhen, like `04` or `04;16`. Raises: UsageError."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    if not all(part.isdecimal() and int(part) < 24 for part in parts):
        raise UsageError(f"deleteWhen={text} is no list of hours: it takes 00 to 23, separated by semicolons")
    return frozenset(int(part) for part in parts)


def disk_words(use: DiskUse) -> str:
    """Return how full the disk is as RocketMQ's refusals say it. RocketMQ: DefaultMessageStore.diskUtil."""
    share = f"{use.percent / 100:5.2f}"  # all of it is on one disk
    return f"CL: {share} CQ: {share} INDEX: {share}"
