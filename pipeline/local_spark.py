"""A local Spark session that is set up for the data source."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING

import staticfire
from staticfire.pipeline.errors import SparkMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
EXTRA = "pip install 'staticfire[spark]'"
ENTRY_MODULE = "pyspark_staticfire"

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.python.filterPushdown.enabled": "true",  # for pushDownFilters; without that nothing is pushed
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(
    name: str = "staticfire", master: str = "local[2]", settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """Return a local session, the running one if there is one; `with` stops it at the end.

    Its workers run the same Python, times are shown in UTC, and only errors are logged. `settings`: Spark settings,
    which override these.

    Raises: SparkMissing (no PySpark, no Java).
    """
    check_installed()
    import pyspark
    from pyspark.sql import SparkSession

    check_java(os.environ)
    set_up_environment(Path(pyspark.__file__).parent)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in (SETTINGS | dict(settings or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def check_installed() -> None:
    """Check that PySpark and PyArrow are installed. Raises: SparkMissing."""
    for package in ("pyspark", "pyarrow"):
        if find_spec(package) is None:
            raise SparkMissing(f"{package} isn't installed: {EXTRA}")


def set_up_environment(spark_home: Path) -> None:
    """Set the environment that Spark's processes inherit: which Python to use, and where the data source is."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_HOME", str(spark_home))  # local-cluster starts its workers from there
    # An editable install is found by an import hook, which Spark's search for data sources doesn't use.
    if not any(module.name == ENTRY_MODULE for module in iter_modules()):
        folder = str(Path(staticfire.__path__[0]).parent)
        sys.path.append(folder)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), folder)))


def check_java(environment: Mapping[str, str]) -> None:
    """Check that there is a Java that Spark can use. Raises: SparkMissing, with the Java that was found."""
    home = environment.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH"))
    way_out = f"Spark needs Java {JAVA_MIN} or later; on Debian: apt-get install openjdk-17-jre-headless"
    if java is None:
        raise SparkMissing(f"java isn't found on PATH, and JAVA_HOME isn't set: {way_out}")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError as error:
        raise SparkMissing(f"JAVA_HOME={home}: {java} can't be run ({error.strerror}): {way_out}") from None
    found = java_version(said)
    if found is None or found < JAVA_MIN:
        raise SparkMissing(f"{java} is {'no Java' if found is None else f'Java {found}'}: {way_out}")


def java_version(said: str) -> int | None:
    """Return the major version of a Java from the output of `java -version`: 8 for 1.8.0, 17 for 17.0.15."""
    numbers = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(numbers[1]) if numbers else None
