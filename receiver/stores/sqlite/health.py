"""What an operator should know about the SQLite of this Python."""

from collections.abc import Sequence

_WAL_RESET_FIXED = (3, 51, 3)
_WAL_RESET_FIXED_IN_BRANCHES = ((3, 50, 7), (3, 44, 6))


def health_notes(version: tuple[int, ...]) -> Sequence[str]:
    """Return what could harm a store with this version of SQLite, each with what to do."""
    if not _has_wal_reset_bug(version):
        return ()
    return (
        f"SQLite {'.'.join(map(str, version))} has a bug that can, very rarely, damage the database; "
        "use a Python with SQLite 3.51.3 or later: https://sqlite.org/wal.html#walresetbug",
    )


def _has_wal_reset_bug(version: tuple[int, ...]) -> bool:
    """Tell whether two processes can damage a database in WAL mode, as the web process and a worker are two.

    SQLite manual, Write-Ahead Logging, "The WAL-Reset Bug"; distributions may have fixed an older version.
    """
    fixed = any(branch <= version < (*branch[:2], 1000) for branch in _WAL_RESET_FIXED_IN_BRANCHES)
    return version < _WAL_RESET_FIXED and not fixed
