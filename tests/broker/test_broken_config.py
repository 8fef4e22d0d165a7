"""Configuration files with numbers and types that don't belong there: left out, or refused in words at the start."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from staticfire.broker.config_files import ConfigFiles
from staticfire.broker.groups.offsets import OffsetTable
from staticfire.protocol.errors import StorageError
from staticfire.protocol.numbers import INT64_MAX
from staticfire.runtime.live import live_machine


def ignore(*_: object) -> None:
    """Hear of a commit."""


def test_offsets_beyond_64_bits_that_were_saved_once_are_left_out_and_the_others_are_there() -> None:
    table = OffsetTable(ignore)
    queues = {"0": 7, "1": 2**63, "2": -(2**63) - 1, "3": 10**40, "4": INT64_MAX}
    table.restore(json.dumps({"offsetTable": {"orders@billing": queues}}).encode())
    assert table.queues_of("billing", "orders") == {0: 7, 4: INT64_MAX}


async def nothing() -> None:
    """Sync a log that there isn't."""


@pytest.mark.parametrize(
    "data",
    [
        b'{"unknown":' + b"[" * 100_000,
        b'{"offsetTable":[]}',
        b'{"offsetTable":{"orders@billing":{"0":"seven"}}}',
        b'{"offsetTable":{"orders@billing":{"x":7}}}',
        b'{"offsetTable":{"orders@billing":{"0":' + b"9" * 10_000 + b"}}}",
        b'{"offsetTable":{"\xff":{}}}',
        b"",
    ],
    ids=["deep", "type", "text", "queue", "digits", "bytes", "empty"],
)
def test_a_file_that_cant_be_read_is_named_with_the_way_out(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "consumerOffset.json").write_bytes(data)
    files = ConfigFiles(live_machine(), str(tmp_path), nothing)
    restore: Callable[[bytes], None] = OffsetTable(ignore).restore
    with pytest.raises(StorageError, match=r"consumerOffset\.json can't be read: .*move it away"):
        files.restore("consumerOffset.json", bytes, restore)
