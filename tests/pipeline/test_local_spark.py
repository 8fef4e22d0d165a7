"""Spark on this machine: what is said where something is missing."""

from pathlib import Path

import pytest

from staticfire.cli import main
from staticfire.pipeline import local_spark
from staticfire.pipeline.errors import SparkMissing
from staticfire.pipeline.local_spark import check_java, java_version


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_a_missing_package_is_reported_in_one_line(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_spark, "find_spec", lambda name: None if name == package else object())
    assert main(["pipeline", "consumption", "--from", "127.0.0.1:1"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"{package} isn't installed: {local_spark.EXTRA}")


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("sh: no such thing", None),
    ],
)
def test_version_of_java_is_read(said: str, version: int | None) -> None:
    assert java_version(said) == version


def test_missing_java_is_reported_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(
        SparkMissing, match="java isn't found on PATH, and JAVA_HOME isn't set: Spark needs Java 17 or later"
    ):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(SparkMissing, match=f"JAVA_HOME={tmp_path}: .* can't be run"):
        check_java({"JAVA_HOME": str(tmp_path)})


def test_old_java_is_reported_with_the_remedy(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    with pytest.raises(SparkMissing, match="is Java 8: Spark needs Java 17 or later"):
        check_java({"PATH": str(tmp_path)})
