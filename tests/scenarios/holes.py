"""Records that the disk never got, although it has later ones."""

from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import NAME

LOG = "/store/commitlog/00000000000000000000"
_HEAD = b"\xdc\x00\x11\xce"


def drop(world: SimulatedWorld, first: bytes, last: bytes) -> None:
    """Make zeros of the records from the one whose body begins with `first` up to the one that begins with `last`."""
    content = world.disk(NAME).files[LOG].content
    start, end = (content.rfind(_HEAD, 0, content.index(body)) for body in (first, last))
    assert 0 <= start < end
    content[start:end] = bytes(end - start)
