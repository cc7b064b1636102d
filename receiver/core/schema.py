"""The version of a database's schema."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schema:
    """The version of the schema that a database has, and the one that this program needs."""

    stored: int
    needed: int
