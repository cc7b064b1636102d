"""The files that lie beside a database and belong to it, by their names."""

import re
from pathlib import Path

from receiver.core.text import escape_controls
from receiver.errors import ConfigurationError

_COMPANION = re.compile(
    r"(?P<database>.+)-(wal|shm|journal|locks|ballast|bodies-[0-9a-f]{16})", re.DOTALL
).fullmatch
"""The first three are of SQLite (SQLite manual, Temporary Files Used By SQLite), the others of `file_locks.py`,
`ballast.py` and `body_files.py`."""
_DATABASE = b"SQLite format 3\0"
"""How a database begins (SQLite file format, section 1.3.1)."""


def require_no_companion(path: Path) -> None:
    """Raise ConfigurationError if the file at this path, however it is written, belongs to a database.

    Who writes such a file destroys the database, also while it is used.
    """
    real = path.resolve()
    found = _COMPANION(real.name)
    if found and (database := real.with_name(found["database"])).is_file():
        names = escape_controls(f"{path} belongs to the database {database}")
        raise ConfigurationError(f"{names}; name another file")


def require_no_database(path: Path) -> None:
    """Raise ConfigurationError if the file at this path is a database or belongs to one.

    This process must not have the database open: to close a file drops the locks on it (SQLite manual, How To
    Corrupt, section 2.2).
    """
    require_no_companion(path)
    if _begins_as_database(path):
        raise ConfigurationError(f"{escape_controls(str(path))} is a database; name another file")


def _begins_as_database(path: Path) -> bool:
    try:
        if not path.is_file():  # to open a pipe would wait for its other end
            return False
        with path.open("rb") as file:
            return file.read(len(_DATABASE)) == _DATABASE
    except OSError:  # whoever writes it tells what is wrong
        return False
