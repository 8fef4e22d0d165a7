"""The paths of requests: that they are counted, and that none gets longer unnoticed."""

import pytest

from benchmarks.request_paths import PATHS, Counts, functions, watch
from staticfire.protocol.compiled import twin

LONGEST = {
    "send": Counts(hops=24, hop_files=12, functions=77, calls=85, files=33),
    "pull": Counts(hops=10, hop_files=2, functions=86, calls=98, files=36),
    "death": Counts(hops=56, hop_files=25, functions=263, calls=640, files=79),
    "receive": Counts(hops=43, hop_files=13, functions=266, calls=373, files=77),
}
"""The lengths that are allowed. If a path gets shorter, enter its new length; if it has to be longer, say why."""


@pytest.mark.skipif(twin is None, reason="the numbers are those of the compiled parts")
@pytest.mark.parametrize("name", PATHS)
def test_no_path_gets_longer(name: str) -> None:
    counts = Counts.of(watch(PATHS[name]))
    assert all(counted <= most for counted, most in zip(counts, LONGEST[name], strict=True)), counts


def test_a_path_goes_from_the_program_to_the_log_and_back() -> None:
    lines = functions(watch(PATHS["send"])).splitlines()
    hops = [line.split()[-1] for line in lines if line.startswith("*")]
    places = [hops.index(name) for name in ("Producer.send", "CommitLog.write", "BrokerSender._many_answered")]
    assert places == sorted(places)
