"""A file beside the database that is given up on a full disk, as pruning needs room before it can make some."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from receiver.core.log_lines import event_log

log = event_log(__name__)

_MIB = 1024 * 1024
BYTES = 4 * _MIB
"""More than the log needs before it is moved into the database. With 1 or 2 MiB, pruning stops half way."""
LEAST_ROOM = 4 * BYTES
"""What has to be free: on a disk that is almost full the ballast would be the reason why it gets full."""


class Ballast:
    """The ballast of a database."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(f"{database.name}-ballast")
        self._told = False

    def make(self) -> None:
        """Make the file unless it is there. If that fails, or the disk has little room, log why once."""
        try:
            if self._path.exists():
                return
            free = self._free()
            if free < LEAST_ROOM:
                self._tell(self._too_little(free))
                return
            self._write()
            self._told = False
        except FileExistsError:
            return
        except OSError as exc:
            self._tell(exc.strerror or str(exc))

    def give_up(self) -> bool:
        """Delete the file. Return whether it was there."""
        try:
            self._path.unlink()
        except OSError:
            return False
        log.warning("ballast_given_up", extra={"bytes": BYTES})
        return True

    def notes(self) -> Sequence[str]:
        """Return why there can be no file now, and what to do."""
        try:
            if self._path.exists() or (free := self._free()) >= LEAST_ROOM:
                return ()
        except OSError:  # what keeps the store itself from working is told elsewhere
            return ()
        return (f"without {self._path.name} nothing can be pruned on a full disk: {self._too_little(free)}",)

    def _free(self) -> int:
        disk = os.statvfs(self._path.parent)
        return disk.f_bavail * disk.f_frsize

    def _too_little(self, free: int) -> str:
        return f"{free / _MIB:.1f} MiB are free, and it needs {LEAST_ROOM // _MIB} MiB; take a larger disk"

    def _tell(self, reason: str) -> None:
        if not self._told:
            self._told = True
            log.warning("ballast_not_made", extra={"path": str(self._path), "reason": reason})

    def _write(self) -> None:
        descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            _allocate(descriptor)
        except OSError:
            with suppress(OSError):
                self._path.unlink()
            raise
        finally:
            os.close(descriptor)


def _allocate(descriptor: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, BYTES)
    else:  # macOS
        os.write(descriptor, bytes(BYTES))
