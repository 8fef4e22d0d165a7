"""Make sure that a folder survives a loss of power. For this, its name must be synced in every folder above it."""

import posixpath

from staticfire.runtime.machine import Files


def sync_folders_above(files: Files, folder: str) -> None:
    """Sync the name of the folder, and of each folder above it, to the disk. Blocks. Raises: OSError.

    A folder above that may be entered but not read belongs to another user, who is responsible for it.
    """
    while (above := posixpath.dirname(folder) or ".") != folder:
        try:
            files.sync_folder(above)
        except PermissionError:
            pass
        folder = above
