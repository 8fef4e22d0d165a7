"""A simulated world: the five seams of `runtime.machine` on virtual time, from one seed.

    async def scenario(world: SimulatedWorld) -> None:
        broker = world.machine("broker-a", host="10.0.0.1")
        await world.start(broker, Broker(broker, ...))
        world.partition("broker-a", "client")
        await world.run_for(hours=2)

    simulate(scenario, seed=7)

- `world.py`: the face; `box.py`: one machine in it; `process.py`: one life of what runs there
- `testing.py`: scenarios in pytest; `running.py`: without; `ending.py`: what has to be true when one is over
- `loop.py`: an event loop whose clock jumps; `tasks.py`: tasks that sort the same in every run; `workers.py`
- `network.py`, `link.py`, `transport.py`: who listens where, the way between two processes, one end of a connection
- `disk.py`, `inode.py`: what survives a kill and a power cut; `files.py`: how one process sees it
- `machine.py`: clock and identity; `chance.py`: repeatable chance; `history.py`: what happened, as one fingerprint
"""

from staticfire.simulation.world.ending import LeftOver
from staticfire.simulation.world.link import LinkQuality
from staticfire.simulation.world.loop import Deadlock, JumpingLoop, Livelock, SimulationStuck, TimeIsUp
from staticfire.simulation.world.process import ProcessKilled
from staticfire.simulation.world.running import simulate
from staticfire.simulation.world.world import SimulatedWorld

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
