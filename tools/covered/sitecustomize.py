"""Start measuring in each Python process of `make coverage`. Python imports this module because of its name.

Servers are started without `site`, and therefore without this module. The script `python` in this folder becomes
`sys.executable` and adds `site` again.
"""

import os
import sys

if "COVERAGE_PROCESS_START" in os.environ:
    import coverage

    coverage.process_startup()
    sys.executable = os.path.join(os.path.dirname(__file__), "python")
