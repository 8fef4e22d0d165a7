"""What mqadmin's commands print, and the names of the files that they write.

Bodies, properties and client ids come from other users. They must neither control the terminal, nor choose the file.
All modules here print with `show` (tests/house/test_terminal.py).
"""

import re
from urllib.parse import quote

import click

from staticfire.cli.listing import without_controls

# File systems allow 255 bytes, and a suffix may follow.
NAME_CHARS_MAX = 200
DIGEST_CHARS = 16


def show(words: str = "", err: bool = False) -> None:
    """Print lines, on stderr with `err`, without control characters for a terminal."""
    click.echo(without_controls(words), err=err)


def file_name(words: str) -> str:
    """Return a text as the name of one file in a folder. Different texts have different names.

    Message ids and the usual client ids stay as they are, so that scripts find their files. Other characters are
    percent-quoted, and so are a leading dot (`..`, hidden files) and a leading hyphen (flags).
    """
    name = re.sub(r"^[.-]", lambda found: f"%{ord(found[0]):02X}", quote(words, safe="@#:+=,$"))
    if len(name) > NAME_CHARS_MAX:
        from hashlib import sha256  # here, since hardly any name is that long

        digest = sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]
        name = f"{name[: NAME_CHARS_MAX - DIGEST_CHARS - 1]}%{digest}"
    return name or "%"
