"""A simulated world: the five seams of `runtime.machine` on virtual time, from one seed.

    async def scenario(world: SimulatedWorld) -> None:
        broker = world.machine("broker-a", host="10.0.0.1")
        await world.start(broker, Broker(broker, ...))
        world.partition("broker-a", "client")
        await world.run_for(hours=2)

    simulate(scenario, seed=7)

In pytest: `staticfire.faults.simulated.testing`.
"""

from staticfire.faults.simulated.ending import LeftOver
from staticfire.faults.simulated.link import LinkQuality
from staticfire.faults.simulated.loop import Deadlock, JumpingLoop, Livelock, SimulationStuck, TimeIsUp
from staticfire.faults.simulated.process import ProcessKilled
from staticfire.faults.simulated.running import simulate
from staticfire.faults.simulated.world import SimulatedWorld

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
