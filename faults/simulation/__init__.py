"""A simulated world: the five seams of `runtime.machine` on virtual time, from one seed.

    async def scenario(world: SimulatedWorld) -> None:
        broker = world.machine("broker-a", host="10.0.0.1")
        await world.start(broker, Broker(broker, ...))
        world.partition("broker-a", "client")
        await world.run_for(hours=2)

    simulate(scenario, seed=7)

In pytest: `staticfire.faults.simulation.testing`.
"""

from staticfire.faults.simulation.ending import LeftOver
from staticfire.faults.simulation.link import LinkQuality
from staticfire.faults.simulation.loop import Deadlock, JumpingLoop, Livelock, SimulationStuck, TimeIsUp
from staticfire.faults.simulation.process import ProcessKilled
from staticfire.faults.simulation.running import simulate
from staticfire.faults.simulation.world import SimulatedWorld

__all__ = [
    "Deadlock",
    "JumpingLoop",
    "LeftOver",
    "LinkQuality",
    "Livelock",
    "ProcessKilled",
    "SimulatedWorld",
    "SimulationStuck",
    "TimeIsUp",
    "simulate",
]
