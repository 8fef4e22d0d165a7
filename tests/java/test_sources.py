"""What the Java sources repeat of the program: its version, and the words of faults."""

import re
import tomllib
import xml.etree.ElementTree as ElementTree

import pytest

from staticfire.faults.parsing import WORDS
from tests.cli.commands import ROOT
from tests.java.reactor import JUNIT, MODULE, SPRING

SPACE = {"": "http://maven.apache.org/POM/4.0.0"}
ARTIFACT = "staticfire-testcontainers"


def test_a_fault_rule_has_a_method_for_each_word() -> None:
    source = (ROOT / MODULE / "src/main/java/org/staticfire/testing/FaultRule.java").read_text()
    assert set(re.findall(r'word\("(\w+)"', source)) == set(WORDS)


def maven_version() -> str:
    declared: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return re.sub(r"\.dev\d+$", "-SNAPSHOT", declared)


def test_the_module_has_the_version_of_the_program() -> None:
    project = ElementTree.parse(ROOT / MODULE / "pom.xml").getroot()
    assert project.findtext("version", namespaces=SPACE) == maven_version()


@pytest.mark.parametrize("example", [JUNIT, SPRING])
def test_the_examples_use_that_version(example: str) -> None:
    project = ElementTree.parse(ROOT / example / "pom.xml").getroot()
    used = {
        one.findtext("artifactId", namespaces=SPACE): one.findtext("version", namespaces=SPACE)
        for one in project.iterfind("dependencies/dependency", SPACE)
    }
    assert used[ARTIFACT] == maven_version()
