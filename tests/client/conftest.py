"""Clients are tested in a simulated world, against peers that do what a test tells them."""

from staticfire.simulation.world.testing import pytest_asyncio_loop_factories, world

__all__ = ["pytest_asyncio_loop_factories", "world"]
