"""What all tests share: how hypothesis behaves. Everything else of pytest's set-up is in pyproject.toml."""

from hypothesis import HealthCheck, settings

# Tests share two cores with whatever else runs, so a slow example says nothing about the code.
settings.register_profile("staticfire", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("staticfire")
