"""From the statements of the store to those that are sent: tables get their schema, and values their places."""

import re
import zlib
from functools import lru_cache

from receiver.errors import ConfigurationError

TABLES = (
    "actions",
    "arrival_minutes",
    "attempts",
    "bodies",
    "deliveries",
    "handler_minutes",
    "handlers",
    "jobs",
    "marks",
    "once_keys",
    "quarantine",
    "schedules",
    "schema_version",
    "words",
    "work_items",
    "workers",
)
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}").fullmatch
_PARTS = re.compile(
    r"(?P<text>'(?:[^']|'')*')|(?P<cast>::)|:(?P<name>\w+)|(?P<place>\?)"
    rf"|(?P<before>\b(?:FROM|JOIN|INTO|UPDATE)\s+)(?P<table>{'|'.join(TABLES)})\b"
)


class Translation:
    """Knows the schema, and the numbers of its locks.

    A statement names its values `:name`, or `?` where they come in a row. The names `append_lock` and
    `handlers_lock` are the numbers of locks, which it has no values for.
    """

    def __init__(self, schema: str) -> None:
        if not _SCHEMA(schema):
            raise ConfigurationError(
                f"{schema!r} cannot be the schema of a store: write small letters, digits and _, at most 63"
            )
        self.schema = schema
        self._locks = {f"{name}_lock": _number(f"{schema}/{name}") for name in ("append", "handlers", "migrate")}

    @lru_cache(maxsize=1_024)  # noqa: B019 - as many as a process has connections
    def __call__(self, sql: str) -> str:
        """Return a statement as the driver wants it (psycopg manual, Passing parameters to SQL queries)."""
        return _PARTS.sub(self._part, sql.replace("%", "%%"))

    def _part(self, found: re.Match[str]) -> str:
        if found["table"]:
            return f'{found["before"]}"{self.schema}".{found["table"]}'
        if found["place"]:
            return "%s"
        if found["name"] in self._locks:
            return str(self._locks[found["name"]])
        return f"%({found['name']})s" if found["name"] else found[0]


def _number(name: str) -> int:
    """Return a number for the first half of an advisory lock's key: 32 bits with a sign."""
    return zlib.crc32(name.encode()) - 2**31
