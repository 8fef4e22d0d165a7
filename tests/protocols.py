"""The two protocols of clients. Most tests use one of them; these run the same test in both.

`make test` runs RocketMQ's, `make test-slow` staticfire's, which all other tests use.
"""

import pytest

from staticfire.client import ClientSettings
from tests.cases import first_and_slow

ROCKETMQ = ClientSettings(protocol="rocketmq")
NATIVE = ClientSettings()

NAMES = ["rocketmq", "staticfire"]
PROTOCOLS = first_and_slow(NAMES)


def in_both_protocols(argument: str = "shop", *, indirect: bool = True) -> pytest.MarkDecorator:
    """Run a test with a client's settings of each protocol. `argument` is the fixture that is given them."""
    return pytest.mark.parametrize(argument, first_and_slow([ROCKETMQ, NATIVE]), ids=NAMES, indirect=indirect)


BOTH_PROTOCOLS = in_both_protocols()
