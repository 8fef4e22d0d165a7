"""Commands that people are given as the way out: does the command line take them?"""

import re
import shlex
from concurrent.futures import ThreadPoolExecutor

from staticfire.cli import main
from staticfire.runtime.exit_codes import EXIT_USAGE

NOWHERE = "127.0.0.1:1"
COMMAND = re.compile(r"\bstaticfire (.+?)(?=;|, or |$)")


def commands_in(words: str) -> list[str]:
    """Return the commands that a sentence names, without `staticfire`."""
    return COMMAND.findall(words)


def is_taken(command: str) -> bool:
    """Whether it can be run; not what it does, since it finds no cluster. In a thread: callers may have a loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(main, [*shlex.split(command), "-n", NOWHERE]).result() != EXIT_USAGE
