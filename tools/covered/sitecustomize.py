"""Begins to measure in each Python process of `make coverage`; Python itself imports this, by its name.

Servers are started without `site`, hence without this. The script `python` beside this file becomes `sys.executable`
and puts `site` back.
"""

import os
import sys

if "COVERAGE_PROCESS_START" in os.environ:
    import coverage

    coverage.process_startup()
    sys.executable = os.path.join(os.path.dirname(__file__), "python")
