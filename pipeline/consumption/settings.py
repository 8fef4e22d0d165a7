"""The settings of a consumption analysis. Pure."""

import re
from dataclasses import dataclass
from pathlib import Path

from staticfire.protocol.errors import UsageError
from staticfire.protocol.names import TRACE_TOPIC, group_fault, topic_fault
from staticfire.runtime.addresses import parse_addresses

MESSAGES, JOURNAL, PROGRESS, TABLES = "messages", "journal", "progress", "tables"
PAGE = "consumption.html"
# In the folder of an ingest, this is where the results are: Spark and others read no folder whose name begins with _.
OWN_FOLDER = "_consumption"
TRIGGER_MS = 5_000
_ADDRESSES = re.compile(r"[^/\\]+:\d+(;[^/\\]+:\d+)*;?")


@dataclass(frozen=True, slots=True)
class ConsumptionSettings:
    """The source, the folders for data and results, and filters. Raises: UsageError."""

    name_server: str
    """Empty: all data is in the folder already."""
    folder: str
    """The folder of the data: an ingest's table, or what this job has gathered."""
    topics: tuple[str, ...] = ()
    """Empty: all topics of users."""
    groups: tuple[str, ...] = ()
    """Empty: all groups that consume."""
    trace_topic: str = TRACE_TOPIC
    is_trace_wanted: bool = False
    """Whether a missing trace topic is an error."""
    protocol: str = "staticfire"
    trigger_ms: int = TRIGGER_MS
    results: str = ""
    """The folder for tables and page; empty: the folder of the data, or `_consumption` in it if that is a table."""

    def __post_init__(self) -> None:
        faults = [topic_fault(topic) for topic in (*self.topics, self.trace_topic)]
        faults += [group_fault(group) for group in self.groups]
        for fault in faults:
            if fault is not None:
                raise UsageError(fault)

    def place(self, name: str) -> str:
        """Return the path of a part of the data."""
        return f"{self.folder.rstrip('/')}/{name}"

    @property
    def result_folder(self) -> str:
        return self.results or self.folder

    def result_place(self, name: str) -> str:
        """Return the path of a part of the results."""
        return f"{self.result_folder.rstrip('/')}/{name}"


def read_source(text: str) -> tuple[str, str]:
    """Return the nameserver and the folder of `--from`; one of them is empty. Raises: UsageError."""
    if Path(text).is_dir() or "://" in text:
        return "", text
    if _ADDRESSES.fullmatch(text):
        parse_addresses(text)
        return text, ""
    raise UsageError(f"--from {text}: neither a folder nor a nameserver; write the folder of an ingest, or host:port")


def default_folder(name_server: str) -> str:
    """Return the default folder for the analysis of a cluster."""
    return f"build/consumption/{re.sub(r'[^A-Za-z0-9.-]', '-', name_server)}"
