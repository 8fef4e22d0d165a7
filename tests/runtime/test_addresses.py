"""Addresses as users write them."""

import pytest

from staticfire.protocol.errors import UsageError
from staticfire.runtime.addresses import comparable


@pytest.mark.parametrize("text", ["127.0.0.1:1;b:2", "b:2,127.0.0.1:1", " LOCALHOST:1 ; B:2;", "B:2;b:2;localhost:1"])
def test_forms_of_the_same_addresses_are_equal(text: str) -> None:
    assert comparable(text) == {("127.0.0.1", 1), ("b", 2)}


def test_other_addresses_of_the_loopback_are_other_ones() -> None:
    """Two clusters may listen on the same port, each at its own address."""
    assert not comparable("127.0.0.2:1") & comparable("localhost:1")
    with pytest.raises(UsageError, match="write host:port"):
        comparable("localhost")
