"""Scenarios run in a simulated world: `world` is staticfire.faults.simulation.SimulatedWorld."""

from staticfire.faults.simulation.testing import pytest_asyncio_loop_factories, world

__all__ = ["pytest_asyncio_loop_factories", "world"]
