"""Making it certain that a folder is still there after a loss of power: its name has to be safe in each one above."""

import posixpath

from staticfire.runtime.machine import Files


def sync_folders_above(files: Files, folder: str) -> None:
    """Return when the folder's name is on the disk, and the names of those in which it lies. Blocks. Raises: OSError.

    One that may be entered but not read belongs to somebody else, who made it safe.
    """
    while (above := posixpath.dirname(folder) or ".") != folder:
        try:
            files.sync_folder(above)
        except PermissionError:
            pass
        folder = above
