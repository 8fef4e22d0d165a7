"""The real machine behind the five seams.

- `clock.py`: monotonic time and wall time
- `network.py`: TCP; `listener.py`: a port that accepts connections; `surroundings.py`: the networks of this machine
- `descriptors.py`: how file descriptors are reserved
- `files.py`: folders and whole files; `file.py`: one open file; `file_system_sync.py`: one sync for many files;
  `copying.py`: copies; `holes.py`: the parts of a sparse file that have data
- `workers.py`: threads for blocking functions; `daemon_threads.py`: threads for functions that may never end
- `identity.py`: the identity of this process

It is cheap to import and to create, because a cluster of several processes must start in half a second.
"""

from staticfire.runtime.live.clock import LiveClock
from staticfire.runtime.live.files import LiveFiles
from staticfire.runtime.live.identity import live_identity
from staticfire.runtime.live.network import LiveNetwork
from staticfire.runtime.live.workers import THREADS_MAX, LiveWorkers
from staticfire.runtime.machine import Machine


def live_machine(threads_max: int = THREADS_MAX, is_durable: bool = True) -> Machine:
    """Return the machine that this process runs on. The caller must end it with `await machine.workers.close()`.

    `is_durable`: whether files must survive a crash of the machine. Files of a temporary cluster needn't.
    """
    return Machine(
        clock=LiveClock(),
        network=LiveNetwork(),
        files=LiveFiles(is_durable),
        workers=LiveWorkers(threads_max),
        identity=live_identity(),
    )
