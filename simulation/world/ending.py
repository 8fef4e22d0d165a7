"""The end of a simulated world: the run fails if anything is left over or any error went unnoticed."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from staticfire.simulation.world.loop import JumpingLoop
from staticfire.simulation.world.network import SimulatedNetwork
from staticfire.simulation.world.process import Process, ProcessKilled
from staticfire.simulation.world.tasks import NumberedTask

# Virtual time for cancelled tasks to end.
TIDY_UP_S = 60.0


class LeftOver(AssertionError):
    """A simulation ended with something unfinished, or with an unnoticed error."""


def left_over(network: SimulatedNetwork, unhandled: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each problem at the end. `unhandled`: what the loop's exception handler received."""
    for task in _in_order(network.loop):
        if not task.done() and task is not asyncio.current_task():
            yield f"  an unfinished task: {task!r}"
        elif _failed_unnoticed(task):
            yield f"  a task with an unhandled failure: {task.get_name()}: {task.exception()!r}"
    for transport in network.transports:
        yield f"  an open connection: {transport!r}"
    for listener in network.listeners.values():
        yield f"  an open port: {listener!r}"
    for context in unhandled:
        if not isinstance(context.get("exception"), ProcessKilled):
            yield f"  an unhandled exception: {context['message']}: {context.get('exception')!r}"


async def tidy_up(network: SimulatedNetwork, processes: Iterable[Process]) -> None:
    """Kill all processes and cancel the other tasks, so that nothing runs or warns when it is collected."""
    loop = network.loop
    dead = list(processes)
    for process in dead:
        process.die(loop.take_away(process))
    network.listeners.clear()
    network.transports.clear()
    rest = [task for task in _in_order(loop) if not task.done() and task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=TIDY_UP_S)
    for process in dead:
        process.bury()


def _in_order(loop: JumpingLoop) -> list[NumberedTask]:
    return sorted(loop.tasks, key=lambda task: task.number)


def _failed_unnoticed(task: NumberedTask) -> bool:
    # asyncio reports it only when the task is collected, which may be long after the run.
    if task.process is not None and task.process.is_dead:
        return False  # it was killed before any other task could retrieve the exception
    return task.done() and task._log_traceback and not isinstance(task.exception(), ProcessKilled)
