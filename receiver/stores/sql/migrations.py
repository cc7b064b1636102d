"""The migrations of a kind of database: the SQL that makes each version of its schema from the one before."""

from collections.abc import Mapping
from importlib import resources

from receiver.errors import StoreRefused

FIRST = 100
"""The first version of a schema that was released. Stores of the versions before it have lower numbers."""


def migrations_of(package: str) -> Mapping[int, str]:
    """Return the SQL for each version, in order, from the files `migrations/NUMBER_WORDS.sql` of a package."""
    folder = resources.files(package) / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return {int(file.name.partition("_")[0]): file.read_text(encoding="utf-8") for file in files}


def require_released(version: int, store: str) -> None:
    """Raise StoreRefused for a schema from before the first release; 0 is a database without tables."""
    if 0 < version < FIRST:
        raise StoreRefused(
            f"{store} has schema {version}, from before the first release, which this version cannot migrate: run "
            "`receiver events export FILE` with the version that made it, and then `receiver events import FILE` "
            "with this one into a new store. Nothing was changed"
        )
