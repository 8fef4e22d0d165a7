"""Has pytest load the instrumented twin: `-p tests.sanitizers.plugin`, before anything imports `protocol.compiled`."""

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location

from tests.sanitizers.build import TWIN, TWIN_NAME

_loader = ExtensionFileLoader(TWIN_NAME, str(TWIN))
_spec = spec_from_file_location(TWIN_NAME, TWIN, loader=_loader)
assert _spec is not None
sys.modules[TWIN_NAME] = module_from_spec(_spec)
_loader.exec_module(sys.modules[TWIN_NAME])

from staticfire.protocol import compiled  # noqa: E402 (it has to find the module above)

if compiled.twin is not sys.modules[TWIN_NAME]:
    raise ImportError(f"the tests would not use the instrumented twin {TWIN}: is STATICFIRE_PURE_PYTHON set?")
