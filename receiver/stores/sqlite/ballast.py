"""A file beside the database that is given up on a full disk, as pruning needs room before it can make some."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from receiver.core.types import Tell
from receiver.core.units import shown_size
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

BYTES = 4 * 1024 * 1024
"""More than the log needs before it is moved into the database. With 1 or 2 MiB, pruning stops half way."""
LEAST_ROOM = 4 * BYTES
"""What has to be free: on a disk that is almost full the ballast would be the reason why it gets full."""


class Ballast:
    """The ballast of a database. What happens to it is logged, or given to `tell` as a sentence."""

    def __init__(self, database: Path) -> None:
        real = database.resolve()
        self._path = real.with_name(f"{real.name}-ballast")
        self._told = False

    def make(self, tell: Tell | None = None) -> None:
        """Make the file unless it is there. If that fails, or the disk has little room, say why once.

        One that a killed process has not finished is made anew.
        """
        try:
            if self._is_whole():
                return
            free = self._free()
            if free < LEAST_ROOM:
                self._say_not_made(self._too_little(free), tell)
                return
            self._write()
            self._told = False
        except OSError as exc:
            self._say_not_made(exc.strerror or str(exc), tell)

    def give_up(self, tell: Tell | None = None) -> bool:
        """Delete the file. Return whether it was there."""
        try:
            self._path.unlink()
        except OSError:
            return False
        if tell is None:
            log.warning("ballast_given_up", extra={"bytes": BYTES})
        else:
            tell(f"the disk is full: {self._path.name} was deleted, as pruning needs some room itself")
        return True

    def notes(self) -> Sequence[str]:
        """Return why there can be no file now, and what to do."""
        try:
            if self._is_whole() or (free := self._free()) >= LEAST_ROOM:
                return ()
        except OSError:  # what keeps the store itself from working is reported elsewhere
            return ()
        return (f"without {self._path.name} nothing can be pruned on a full disk: {self._too_little(free)}",)

    def _is_whole(self) -> bool:
        try:
            return self._path.stat().st_size >= BYTES
        except FileNotFoundError:
            return False

    def _free(self) -> int:
        disk = os.statvfs(self._path.parent)
        return disk.f_bavail * disk.f_frsize

    def _too_little(self, free: int) -> str:
        return f"{shown_size(free)} are free, and it needs {shown_size(LEAST_ROOM)}; take a larger disk"

    def _say_not_made(self, reason: str, tell: Tell | None) -> None:
        if self._told:
            return
        self._told = True
        if tell is None:
            log.warning("ballast_not_made", extra={"path": str(self._path), "reason": reason})
        else:
            tell(f"{self._path.name} was not made, and without it nothing can be pruned on a full disk: {reason}")

    def _write(self) -> None:
        descriptor = os.open(self._path, os.O_CREAT | os.O_NOFOLLOW | os.O_WRONLY, 0o600)
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
