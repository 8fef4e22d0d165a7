"""Builds the module and its examples together by Maven, in a copy, and reads what their tests report."""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from tests.cli.commands import ROOT
from tests.clients.toolchains import BRING_TIMEOUT_S

MODULE, JUNIT, SPRING = "java", "examples/testing/junit", "examples/testing/spring"
POM = "tests/java/pom.xml"


def copied_module(to: Path) -> Path:
    """Copy the module, the examples and the file that builds them together."""
    for name in (MODULE, JUNIT, SPRING):
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("target"))
    (to / POM).parent.mkdir(parents=True)
    shutil.copy(ROOT / POM, to / POM)
    return to


def run_maven(folder: Path, *words: str, **environment: str) -> str:
    """Run Maven for everything in the copy, whatever fails; return what it printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["mvn", "-B", "-ntp", "-fae", "-f", POM, "test", "-Dsurefire.failIfNoSpecifiedTests=false", *words],
        cwd=folder, env={**os.environ, "PATH": path, **environment},
        capture_output=True, text=True, timeout=BRING_TIMEOUT_S, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def results(folder: Path, module: str) -> Counter[str]:
    """Return how many tests of a module passed, failed or were skipped, by surefire's reports."""
    found: Counter[str] = Counter()
    for report in (folder / module / "target" / "surefire-reports").glob("TEST-*.xml"):
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
            found[kinds.pop() if kinds else "passed"] += 1
    return found
