"""Create holes in a log: records that never reached the disk although later ones did."""

from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import NAME

LOG = "/store/commitlog/00000000000000000000"
_HEAD = b"\xdc\x00\x11\xce"


def drop(world: SimulatedWorld, first: bytes, last: bytes) -> None:
    """Overwrite records with zeros: from the one whose body starts with `first`, up to but without that with `last`."""
    content = world.disk(NAME).files[LOG].content
    start, end = (content.rfind(_HEAD, 0, content.index(body)) for body in (first, last))
    assert 0 <= start < end
    content[start:end] = bytes(end - start)
