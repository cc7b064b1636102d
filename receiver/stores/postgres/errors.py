"""PostgreSQL's errors in our own words (PostgreSQL manual, Appendix A, Error Codes)."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from receiver.errors import StoreError, StoreRefused
from receiver.stores.sql.connection import NoNumber

REPEATED = (errors.DeadlockDetected, errors.SerializationFailure)
"""The server undid a transaction that came into the way of another one. The same again succeeds."""
POISONOUS = ("22", "23", "54")
"""Classes of errors that lie in the values of a row: the other rows of its batch can be written."""

_WORDS = {
    "25006": "it is read-only",
    "42501": "this user may not do that",
    "42P01": "its tables are not there",
    "53100": "the disk of the server is full",
    "53200": "the server is out of memory",
    "53300": "the server has no connection left",
    "55P03": "a lock could not be taken in time",
    "57014": "the server has cancelled a statement that took too long",
    "57P01": "the server has ended the connection",
    "57P02": "the server crashed and starts again",
    "57P03": "the server starts or stops",
    "3D000": "there is no database of this name",
    "28P01": "the password is wrong",
    "28000": "this user may not connect",
}
_HOPELESS = {"42501", "3D000", "28P01", "28000"}
_REFUSALS = {
    r"password authentication failed|no password supplied": "28P01",
    r"no pg_hba\.conf entry|role \".*\" does not exist|role \".*\" is not permitted": "28000",
    r"database \".*\" does not exist": "3D000",
    r"permission denied for": "42501",
    r"too many clients|remaining connection slots|too many connections": "53300",
    r"system is (starting up|shutting down|not yet accepting|not accepting|in recovery)": "57P03",
}
"""Before a connection is made, libpq tells the text of an error, and not its code."""


def is_poisonous(error: BaseException) -> bool:
    """Tell whether the values of some row were refused, and not the batch."""
    if isinstance(error, psycopg.Error):
        return (error.sqlstate or "")[:2] in POISONOUS or isinstance(error, psycopg.DataError)
    return isinstance(error, UnicodeEncodeError)


@contextmanager
def translated(name: str, *, was_open: bool = False) -> Iterator[None]:
    """Turn errors of the driver into StoreError, or StoreRefused where waiting cannot help.

    It can help where the database `was_open` before: somebody takes a right away, or a name, and gives it back.
    """
    try:
        yield
    except psycopg.Error as exc:
        code = exc.sqlstate or _code_of(exc)
        reason = _WORDS.get(code, _said(exc))
        words = f"the database {name} cannot be used: {reason}"
        raise (StoreRefused(words) if code in _HOPELESS and not was_open else StoreError(words)) from exc
    except NoNumber as exc:
        raise StoreRefused(f"the database {name} cannot be used: it is damaged; restore a backup") from exc
    except UnicodeEncodeError as exc:
        raise StoreError(f"the database {name} cannot keep a text that is no Unicode: {exc.reason}") from exc


def _code_of(error: psycopg.Error) -> str:
    said = _said(error)
    return next((code for pattern, code in _REFUSALS.items() if re.search(pattern, said)), "")


def _said(error: psycopg.Error) -> str:
    """Return the first line of an error, which quotes no values; of several addresses that of the last one."""
    if error.diag.message_primary:
        return error.diag.message_primary
    text = str(error).strip()
    _, found, last = text.rpartition("failed: ")
    return (last if found else text).partition("\n")[0] or type(error).__name__
