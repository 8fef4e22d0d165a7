"""One Spark for all tests that need one, a cluster for each. Without PySpark those tests aren't there."""

import os
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from staticfire import Cluster
from staticfire.client import ClusterClient
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.testing import pytest_asyncio_loop_factories, world
from tests.scenarios.consuming import NAMESRV
from tests.scenarios.faulty_shop import FaultyShop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pytest_asyncio_loop_factories", "world"]

HAS_SPARK = find_spec("pyspark") is not None

os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
# Of all of Spark's JVMs: they end before a second compiler has paid off, which takes half of their CPU time.


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what imports PySpark where there is none."""
    if HAS_SPARK or not collection_path.name.startswith("test_"):
        return None
    return "mark.spark" in collection_path.read_text() or None


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    from staticfire.pipeline import session

    with session("tests", settings={"spark.sql.shuffle.partitions": "1"}) as spark:
        yield spark


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[FaultyShop]:
    """A simulated cluster."""
    shop = await FaultyShop(world).open(queues=1)
    yield shop
    await shop.close()


@pytest_asyncio.fixture
async def client(world: SimulatedWorld, shop: FaultyShop) -> AsyncIterator[ClusterClient]:
    """The client of a task on that cluster."""
    async with ClusterClient(NAMESRV, machine=world.machine("task", host="10.0.4.3")) as client:
        yield client


@pytest.fixture
def for_few_rows(spark: "SparkSession") -> Iterator[None]:
    """For sixty rows, compiling each query costs more than all else."""
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false",
                "spark.sql.codegen.factoryMode": "NO_CODEGEN"}  # fmt: skip
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, old in before.items():
        spark.conf.set(name, old or "")
