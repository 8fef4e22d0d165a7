"""The paths of requests: that they are counted, and that none gets longer unnoticed."""

import pytest

from benchmarks.request_paths import PATHS, Counts, functions, watch
from staticfire.protocol.compiled import twin

LONGEST = {
    "send": Counts(hops=24, hop_files=12, functions=81, calls=89, files=37),
    "pull": Counts(hops=10, hop_files=2, functions=90, calls=102, files=39),
    "death": Counts(hops=55, hop_files=24, functions=269, calls=661, files=84),
    "receive": Counts(hops=45, hop_files=15, functions=272, calls=379, files=81),
}
"""The lengths that are allowed. If a path gets shorter, enter its new length; if it has to be longer, say why.

Each burst calls the services of POP, transactions and the clock; before, the core looked into their state.
Each burst that stores something calls replication, and each call through gRPC the check of access. Without slaves and
users, both return at once.
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
