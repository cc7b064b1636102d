"""Files and folders that survive a power cut."""

import fcntl
import os
from pathlib import Path

_FULL = getattr(fcntl, "F_FULLFSYNC", None)
"""macOS writes through the cache of the drive only on this request (fsync(2) of macOS)."""


def sync(descriptor: int) -> None:
    """Return when the bytes of a file are on the disk."""
    if _FULL is not None:
        fcntl.fcntl(descriptor, _FULL)
    else:
        os.fdatasync(descriptor)


def sync_file(path: Path) -> None:
    """Return when the bytes of the file at a path are on the disk, whoever has written them."""
    with path.open("rb") as file:
        sync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
