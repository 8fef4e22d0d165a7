"""Users' code that runs in a simulation (bodies, listeners, checkers): its errors are reported with their line."""

import traceback

OWN_ERRORS = (Exception, SystemExit)
"""The exceptions of such code. `sys.exit()` is one of them: it would end all runs, and look like a success."""


def words_of_error(error: BaseException, called: object) -> str:
    """Return the text of an exception of a user's function: `shop.py:5: KeyError: 'orders'`.

    The line is the last one in the file of `called`, or its first line if the call itself was wrong.
    """
    words = f"{type(error).__name__}: {error}"
    code = getattr(called, "__code__", None)
    if code is None:
        return words
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == code.co_filename and frame.lineno]
    return f"{code.co_filename}:{lines[-1] if lines else code.co_firstlineno}: {words}"
