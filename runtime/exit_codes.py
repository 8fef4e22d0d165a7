"""Exit codes of every program, and the signals that end one."""

import signal

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

EXIT_STOPPED = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
"""The flags, the settings or the machine don't allow it; one line says what."""
EXIT_NOT_AT_REST = 3
"""Consumers didn't settle in time, so message time wasn't moved to where it should go."""

# `staticfire run` has its command's own code, as env and docker run do, or:
EXIT_CLUSTER_FAILED = 125
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
EXIT_SIGNAL_BASE = 128
"""And the number of the signal that killed the command."""
