"""What all tests share: how hypothesis and signals behave. Everything else of pytest's set-up is in pyproject.toml."""

import signal

from hypothesis import HealthCheck, settings

# Tests share two cores with whatever else runs, so a slow example says nothing about the code.
settings.register_profile("staticfire", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("staticfire")

# Under nohup, and in the background of a script, these are ignored, by this process and by what it starts; tests of
# Ctrl-C and of closed terminals would wait in vain.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
