"""A file beside the database that is given up on a full disk, as pruning needs room before it can make some."""

import os
from contextlib import suppress
from pathlib import Path

from receiver.core.log_lines import event_log

log = event_log(__name__)

BYTES = 4 * 1024 * 1024
"""More than the log needs for one step of pruning."""
_ROOM = 8 * BYTES
"""What has to be free: on a disk that is almost full the ballast would be the reason why it gets full."""


class Ballast:
    """The ballast of a database."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(f"{database.name}-ballast")

    def make(self) -> None:
        """Make the file unless it is there or the disk has little room. A failure does not matter now."""
        with suppress(OSError):
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < _ROOM:
                return
            descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            try:
                _allocate(descriptor)
            finally:
                os.close(descriptor)

    def give_up(self) -> bool:
        """Delete the file. Return whether it was there."""
        try:
            self._path.unlink()
        except OSError:
            return False
        log.warning("ballast_given_up", extra={"bytes": BYTES})
        return True


def _allocate(descriptor: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, BYTES)
    else:  # macOS
        os.write(descriptor, bytes(BYTES))
