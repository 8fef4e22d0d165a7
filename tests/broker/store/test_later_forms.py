"""The later form of a record that was accepted before: it is never refused for its size."""

from collections.abc import Callable
from pathlib import Path

import pytest

from staticfire.broker.store.settings import StoreSettings
from staticfire.protocol.errors import StorageError
from staticfire.protocol.record import BLANK_BYTES_MIN
from staticfire.runtime.live.files import LiveFiles
from tests.broker.store.stand import SMALL, StoreStand

pytestmark = pytest.mark.row("D1")

MARK = -5
LARGE = SMALL.segment_bytes_max * 2 + 7
NO_BODY_BYTES = 98 + 8 + 3 + len("orders")


@pytest.fixture
def stand() -> StoreStand:
    stand = StoreStand()
    stand.open()
    return stand


@pytest.fixture(params=["simulated", "live"])
def reopened(request: pytest.FixtureRequest, stand: StoreStand, tmp_path: Path) -> Callable[[bool], None]:
    """Return a function that closes or kills the store, and opens it again."""
    is_live = request.param == "live"
    if is_live:
        stand.store.close()
        stand.open_on_folder(LiveFiles(), str(tmp_path))

    def reopen(is_killed: bool) -> None:
        if is_live or not is_killed:
            stand.store.close()
        report = stand.open_on_folder(LiveFiles(), str(tmp_path)) if is_live else stand.restart()
        assert (report.problems, report.cut_bytes) == ((), 0)

    return reopen


def starts(stand: StoreStand) -> list[int]:
    return [segment.start for segment in stand.store.log.segments.all]


@pytest.mark.parametrize("is_killed", [False, True])
def test_large_later_forms_get_segments_of_their_own_size(
    stand: StoreStand, reopened: Callable[[bool], None], is_killed: bool
) -> None:
    sizes = [10, LARGE, 20, LARGE + 1, LARGE, 3900, 3900, 30, LARGE, 40]
    for size in sizes:
        stand.append(bytes(size), mark=MARK if size >= LARGE else 0)
    stand.store.commit()
    for _ in range(3):
        assert [len(body) for body in stand.bodies()] == sizes
        ends = [segment.end - segment.start for segment in stand.store.log.segments.all]
        own = [LARGE + NO_BODY_BYTES + BLANK_BYTES_MIN + more for more in (0, 1, 0)]
        assert [size for size in ends if size > SMALL.segment_bytes_max][:3] == own
        reopened(is_killed)
        stand.send(b"x" * 50, bytes(LARGE), mark=MARK)
        sizes += [50, LARGE]
    for position in starts(stand)[1:]:
        stand.store.flush()
        assert stand.store.remove_segments_before(position) == 1
    assert [len(body) for body in stand.bodies()] == [LARGE]


def test_the_first_record_of_a_segment_needs_no_other_segment(
    stand: StoreStand, reopened: Callable[[bool], None]
) -> None:
    stand.send(bytes(LARGE), mark=MARK)
    assert starts(stand) == [0]
    stand.send(bytes(SMALL.segment_bytes_max - NO_BODY_BYTES - BLANK_BYTES_MIN))
    reopened(False)
    stand.send(bytes(LARGE), mark=MARK)
    assert len(starts(stand)) == 3
    assert len(stand.bodies()) == 3


def test_a_failed_write_leaves_no_large_segment(stand: StoreStand) -> None:
    stand.send(b"before")
    stand.disk.fail_write(1)
    stand.append(bytes(LARGE), mark=MARK)
    stand.store.commit()
    assert stand.store.failure is not None
    stand.send(*[bytes(3000)] * 3)
    sizes = [segment.end - segment.start for segment in stand.store.log.segments.all]
    assert sizes == [SMALL.segment_bytes_max] * 3
    stand.send(bytes(LARGE), mark=MARK)
    stand.restart()
    assert [len(body) for body in stand.bodies()] == [6, 3000, 3000, 3000, LARGE]


def test_a_later_form_has_a_limit_too(stand: StoreStand) -> None:
    stand.settings = StoreSettings(segment_bytes_max=4096, record_bytes_max=8192)
    stand.restart()
    stand.send(bytes(9000 - NO_BODY_BYTES), mark=MARK)
    with pytest.raises(StorageError, match="too large: the limit is 9216"):
        stand.append(bytes(9300), mark=MARK)
    with pytest.raises(StorageError, match="too large: the limit is 4069"):
        stand.append(bytes(4090))
