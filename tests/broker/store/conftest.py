"""Tests that ask for `world` run on virtual time."""

from staticfire.simulation.world.testing import pytest_asyncio_loop_factories, world

__all__ = ["pytest_asyncio_loop_factories", "world"]
