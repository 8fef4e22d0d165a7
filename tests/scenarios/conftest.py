"""Scenarios run in a simulated world: `world` is staticfire.faults.simulated.SimulatedWorld."""

from staticfire.faults.simulated.testing import pytest_asyncio_loop_factories, world

__all__ = ["pytest_asyncio_loop_factories", "world"]
