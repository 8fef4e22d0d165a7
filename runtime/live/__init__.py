"""The real machine behind the five seams.

- `clock.py`: monotonic time and wall time
- `network.py`: TCP; `listener.py`: a port that accepts; `surroundings.py`: the networks that this machine is in
- `descriptors.py`: what is kept of the file descriptors
- `files.py`: folders and whole files; `file.py`: one open file; `file_system_sync.py`: one sync for many;
  `copying.py`: copies
- `workers.py`: threads for what blocks; `daemon_threads.py`: those for functions that may never end
- `identity.py`: who this process is

Cheap to import and to make: a cluster of several processes is to be up in half a second.
"""

from staticfire.runtime.live.clock import LiveClock
from staticfire.runtime.live.files import LiveFiles
from staticfire.runtime.live.identity import live_identity
from staticfire.runtime.live.network import LiveNetwork
from staticfire.runtime.live.workers import THREADS_MAX, LiveWorkers
from staticfire.runtime.machine import Machine


def live_machine(threads_max: int = THREADS_MAX, is_durable: bool = True) -> Machine:
    """Return the machine that this process runs on. Who asks for it ends it with `await machine.workers.close()`.

    `is_durable`: files are to survive it. Those of a cluster that is removed in the end needn't.
    """
    return Machine(
        clock=LiveClock(),
        network=LiveNetwork(),
        files=LiveFiles(is_durable),
        workers=LiveWorkers(threads_max),
        identity=live_identity(),
    )
