"""Exit codes of every program, and the signals that stop one."""

import signal

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

EXIT_STOPPED = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
"""The flags, the settings or the machine don't allow it; one line describes the problem."""
EXIT_NOT_AT_REST = 3
"""Consumers didn't settle in time, so message time wasn't moved to its target."""

# `staticfire run` exits with the code of its command, as env and docker run do, or with one of these:
EXIT_CLUSTER_FAILED = 125
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
EXIT_SIGNAL_BASE = 128
"""Plus the number of the signal that killed the command."""
