"""The public names are the same for type checkers, for `import *`, and for Python."""

import ast
import importlib
import subprocess
import sys

import pytest

from tests.house.source import ROOT
from tools.public_api import FILE, lines

PACKAGES = ["staticfire", "staticfire.client"]
WANTED = {
    *("Admin", "AVERAGELY", "AVERAGELY_BY_CIRCLE", "BrokerAnswer", "ClientError", "ClientSettings", "ConsumeContext"),
    *("ConsumeFromWhere", "ConsumeStatus", "Message", "MessageModel", "MessageQueue", "NetworkError", "NotAtRest"),
    *("OrderedContext", "OrderedStatus", "Producer", "ProducerSettings", "PullConsumer", "PullResult", "PullSettings"),
    *("PullStatus", "PushConsumer", "PushSettings", "ReceivedMessage", "SendResult", "SendStatus", "StaticfireError"),
    *("TopicNotFound", "UsageError", "by_hash"),
}


def names_for_type_checkers(package: str) -> list[str]:
    """Return the names that are imported below `if TYPE_CHECKING`."""
    tree = ast.parse(ROOT.joinpath(*package.split("."), "__init__.py").read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    return [
        alias.name
        for block in blocks
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_see_what_can_be_imported(package: str) -> None:
    module = importlib.import_module(package)
    assert sorted(names_for_type_checkers(package)) == sorted(module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Produser'"):
        _ = module.Produser


@pytest.mark.parametrize("package", PACKAGES)
def test_what_users_need_is_there(package: str) -> None:
    assert set(importlib.import_module(package).__all__) >= WANTED


def test_staticfire_has_whatever_its_client_has() -> None:
    top, client = importlib.import_module("staticfire"), importlib.import_module("staticfire.client")
    assert set(client.__all__) < set(top.__all__)
    assert all(getattr(top, name) is getattr(client, name) for name in client.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_star_gives_the_names(package: str) -> None:
    program = f"from {package} import *; print(Producer.__name__, ConsumeStatus.__name__, AVERAGELY.name)"
    printed = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert printed.stdout == "Producer ConsumeStatus AVG\n", printed.stderr


def test_signatures_are_those_of_the_release() -> None:
    """A change that breaks programs needs a new major version; any other one is written down, to be seen in review."""
    assert FILE.read_text().splitlines() == list(lines()), (
        "`python -m tools.public_api` writes docs/public-api.txt anew"
    )
