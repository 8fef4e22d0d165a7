"""`staticfire`, which signals itself at one step of its run: for test_signal_windows.py.

    python -m tests.cli.signalled STEP EVENT NUMBER FILE run -- command ...

STEP is the qualified name of a function, EVENT `call` or `return`: the moment at which the signal NUMBER comes, once.
Unless FILE is "-", the step waits for that file before: then the command is there and has its own handlers. A step that
comes before the command's start is passed over then.
"""

import os
import sys
from types import FrameType


def signal_at(step: str, event: str, number: int, wait_for: str) -> None:
    """Have this process signalled at a step."""
    has_started = wait_for == "-"

    def watch(frame: FrameType, what: str, _: object) -> None:
        nonlocal has_started
        if frame.f_code.co_qualname == "_run_command":
            has_started = True
        if has_started and what == event and frame.f_code.co_qualname == step:
            sys.setprofile(None)
            while wait_for != "-" and not os.path.exists(wait_for):
                os.sched_yield()
            print(f"signalled at {step}", file=sys.stderr, flush=True)
            os.kill(os.getpid(), number)

    sys.setprofile(watch)


if __name__ == "__main__":
    step, event, number, wait_for = sys.argv[1:5]
    from staticfire.cli import main

    signal_at(step, event, int(number), wait_for)
    sys.exit(main(sys.argv[5:]))
