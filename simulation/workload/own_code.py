"""A person's own code that runs in a simulation (bodies, listeners, checkers): what it raises is told with its line."""

import traceback

OWN_ERRORS = (Exception, SystemExit)
"""What such code may raise. A run goes on after `sys.exit()`, too: it would end all runs, and look like a success."""


def told(error: BaseException, called: object) -> str:
    """Return what somebody's function has raised: `shop.py:5: KeyError: 'orders'`.

    The line is the last one in the file of `called`, or where that begins when the call itself was wrong.
    """
    words = f"{type(error).__name__}: {error}"
    code = getattr(called, "__code__", None)
    if code is None:
        return words
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == code.co_filename and frame.lineno]
    return f"{code.co_filename}:{lines[-1] if lines else code.co_firstlineno}: {words}"
