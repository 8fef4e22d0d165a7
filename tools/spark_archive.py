"""`make spark-archive`: what executors need, as one archive: staticfire and the packages that it works with.

    spark-submit --archives staticfire-spark.tar.gz#env --conf spark.executorEnv.PYTHONPATH=env ...

It is built from the packages installed here, so nothing is downloaded. PySpark is left out, since the cluster has its
own. It fits machines with the same Python minor version and the same processor type, since some packages are compiled.
"""

import argparse
import os
import sys
import tarfile
from importlib.metadata import distribution
from pathlib import Path

import staticfire
from tools.constraints import installed_closure

LEFT_OUT = {"pyspark", "py4j", "staticfire", "pip", "setuptools"}
EXTRAS = ("spark", "compression")
# Half a minute faster than gzip's default level, and a tenth larger.
LEVEL = 1
_SKIPPED = (".pyc", ".pyi", ".a", ".h", ".hpp")


def write_archive(path: Path) -> int:
    """Write the archive; return the number of packages in it."""
    packages = [name for name in installed_closure(EXTRAS) if name.lower() not in LEFT_OUT]
    partly = path.with_name(f".{path.name}.part")
    with tarfile.open(partly, "w:gz", compresslevel=LEVEL, dereference=True) as archive:
        for name in packages:
            _add_package(archive, name)
        _add_own(archive)
    partly.replace(path)
    return len(packages)


def _add_package(archive: tarfile.TarFile, name: str) -> None:
    for file in distribution(name).files or ():
        found = Path(str(file.locate()))
        is_inside = not file.parts[0].startswith("..")  # Scripts are installed outside of the packages' folder.
        if is_inside and found.is_file() and not file.name.endswith(_SKIPPED) and "tests" not in file.parts:
            archive.add(found, str(file))


def _add_own(archive: tarfile.TarFile) -> None:
    folder = Path(staticfire.__path__[0])
    for found in sorted(_walk(folder)):
        if not found.name.endswith(_SKIPPED):
            archive.add(found, str(Path("staticfire") / found.relative_to(folder)))
    entry = folder.parent / "pyspark_staticfire.py"
    archive.add(entry, entry.name)


def _walk(folder: Path) -> list[Path]:
    """Return all files. This follows links, since the packages of a checkout are links."""
    return [Path(place, name) for place, _, names in os.walk(folder, followlinks=True) for name in names]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--to", type=Path, default=Path("build/staticfire-spark.tar.gz"))
    to: Path = parser.parse_args().to
    to.parent.mkdir(parents=True, exist_ok=True)
    count = write_archive(to)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    print(f"spark-archive: {to}: staticfire and {count} packages, {to.stat().st_size / 1e6:.0f} MB, Python {version}")


if __name__ == "__main__":
    main()
