"""What a pytest within this one loads remains loaded."""

import sys
from pathlib import Path
from types import ModuleType


class KeptModules:
    """A plugin of the inner pytest. `restore` is called when pytester has ended.

    pytester forgets these modules, but other modules still have what they have imported from them. Then each class of
    them would exist twice, also for later tests, where no `except` and no `isinstance` would recognize the other one.
    A structlog that is loaded again has lost its configuration.
    """

    def __init__(self) -> None:
        self._loaded: dict[str, ModuleType] = {}

    def pytest_unconfigure(self) -> None:
        folder = str(Path.cwd())  # Of its tests, which are forgotten.
        for name, module in sys.modules.items():
            if not (getattr(module, "__file__", None) or "").startswith(folder):
                self._loaded[name] = module

    def restore(self) -> None:
        sys.modules.update(self._loaded)


KEPT = KeptModules()
