"""A simulated world: the five seams of `runtime.machine` on virtual time, repeatable from one seed.

    async def scenario(world: SimulatedWorld) -> None:
        broker = world.machine("broker-a", host="10.0.0.1")
        await world.start(broker, Broker(broker, ...))
        world.partition("broker-a", "client")
        await world.run_for(hours=2)

    simulate(scenario, seed=7)

- `world.py`: the API; `box.py`: one machine; `process.py`: one process, from its start to its kill
- `testing.py`: scenarios in pytest; `running.py`: without pytest; `ending.py`: the checks at the end of a scenario
- `loop.py`: an event loop whose clock jumps; `tasks.py`: tasks with a repeatable order in sets; `workers.py`: workers
  without threads
- `network.py`, `link.py`, `transport.py`: listeners, the link between two processes, one end of a connection
- `disk.py`, `inode.py`: what survives a kill and a power loss; `files.py`: the disk as seen by one process
- `machine.py`: clock and identity; `chance.py`: repeatable randomness; `history.py`: all events, and their fingerprint
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
