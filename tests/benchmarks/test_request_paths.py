"""The paths of requests: that they are counted, and that none gets longer unnoticed."""

import pytest

from benchmarks.request_paths import PATHS, Counts, functions, watch
from staticfire.protocol.compiled import twin

LONGEST = {
    "send": Counts(hops=24, hop_files=12, functions=80, calls=88, files=36),
    "pull": Counts(hops=10, hop_files=2, functions=89, calls=101, files=39),
    "death": Counts(hops=55, hop_files=24, functions=266, calls=655, files=82),
    "receive": Counts(hops=45, hop_files=15, functions=270, calls=377, files=79),
}
"""The lengths that are allowed. If a path gets shorter, enter its new length; if it has to be longer, say why.

Each burst calls the services of POP, transactions and the clock; before, the core looked into their state.
"""


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
