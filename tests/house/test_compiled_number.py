"""Compiled parts that were built from other sources aren't used: a change of what they do has a number of its own."""

import re
from hashlib import sha256
from pathlib import Path

from staticfire.protocol.compiled import MADE_FOR

FOLDER = Path(__file__).parents[2] / "protocol"
KNOWN = 12, "0da25cae00febe8a"
"""MADE_FOR, and the digest of the code that it was given for."""
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_NUMBER = re.compile(r"MADE_FOR = (\d+)")


def code() -> str:
    """Return the code of the compiled parts, without its number, comments and line breaks."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("_compiled*.[ch]"))]
    return " ".join(_NUMBER.sub("", _COMMENT.sub("", "\n".join(texts))).split())


def test_the_number_is_that_of_this_code() -> None:
    """An older build is used as long as its number fits, whatever it does.

    So increase MADE_FOR, in compiled.py and in _compiled.c, if a function does something else than before. Then, or if
    all do the same, note the new digest here.
    """
    in_c = _NUMBER.search((FOLDER / "_compiled.c").read_text(encoding="utf-8"))
    assert in_c is not None
    assert int(in_c[1]) == MADE_FOR
    assert (MADE_FOR, sha256(code().encode()).hexdigest()[:16]) == KNOWN
