"""One Spark for all tests that need one, a cluster for each. Without PySpark those tests aren't there."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from staticfire import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HAS_SPARK = find_spec("pyspark") is not None


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
