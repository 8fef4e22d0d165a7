"""What the tasks of an event loop wait for: it replaces RocketMQ's `jstack` in a consumer's running info."""

import asyncio

STACK_FRAMES_MAX = 8


def stacks() -> str:
    """Return what each task of this event loop waits for."""
    lines = []
    for task in sorted(asyncio.all_tasks(), key=lambda one: one.get_name()):
        lines.append(task.get_name())
        for frame in task.get_stack(limit=STACK_FRAMES_MAX):
            lines.append(f"    {frame.f_code.co_qualname} {frame.f_code.co_filename}:{frame.f_lineno}")
    return "\n".join(lines)
