"""The command line as `python -m staticfire`."""

import sys

from staticfire.cli import main

if __name__ == "__main__":
    sys.exit(main())
