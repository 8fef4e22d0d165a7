"""A nameserver at 10.0.0.1:9876 of a simulated world, and programs that ask it."""

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.codecs import JSON, NATIVE
from staticfire.simulation.world.testing import pytest_asyncio_loop_factories, world  # noqa: F401
from staticfire.simulation.world.world import SimulatedWorld
from tests.nameserver.asking import NAMESERVER_HOST, Asking

Connect = Callable[..., Asking]


@pytest.fixture
def settings() -> NameserverSettings:
    """Settings of the nameserver; a test that wants others overrides this fixture by parametrizing it."""
    return NameserverSettings()


@pytest_asyncio.fixture
async def nameserver(world: SimulatedWorld, settings: NameserverSettings) -> Nameserver:  # noqa: F811
    machine = world.machine("nameserver", NAMESERVER_HOST)
    return await world.start("nameserver", Nameserver(machine, settings))


@pytest_asyncio.fixture
async def connect(world: SimulatedWorld, nameserver: Nameserver) -> AsyncIterator[Connect]:  # noqa: F811
    """What makes programs that ask the nameserver: `connect()`, `connect("10.0.0.7")`, `connect(codec=JSON)`."""
    made: list[Asking] = []

    def make(host: str = "10.0.0.9", codec: int = NATIVE, to: str = NAMESERVER_HOST) -> Asking:
        made.append(Asking(world.machine(f"program-{len(made)}", host), codec, f"{to}:{nameserver.port}"))
        return made[-1]

    yield make
    for asking in made:
        await asking.close()


@pytest.fixture(params=[NATIVE, JSON], ids=["native", "json"])
def codec(request: pytest.FixtureRequest) -> int:
    """Both codecs, one after the other."""
    number: int = request.param
    return number
