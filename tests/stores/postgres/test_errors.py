"""Errors of the driver in our own words."""

import psycopg
import pytest

from receiver.errors import StoreError, StoreRefused
from receiver.stores.postgres.database import translated

CONNECTING = 'connection failed: connection to server at "127.0.0.1", port 5432 failed: '


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('FATAL:  password authentication failed for user "u"', "the password is wrong"),
        ("fe_sendauth: no password supplied", "the password is wrong"),
        ('FATAL:  no pg_hba.conf entry for host "1.2.3.4"', "this user may not connect"),
        ('FATAL:  role "nobody" does not exist', "this user may not connect"),
        ('FATAL:  database "nothing" does not exist', "there is no database of this name"),
    ],
)
def test_what_waiting_cannot_help_is_refused_at_the_start_only(said: str, words: str) -> None:
    """A process that was at work waits until somebody has mended it."""
    with pytest.raises(StoreRefused, match=words), translated("db at host"):
        raise psycopg.OperationalError(CONNECTING + said)
    with pytest.raises(StoreError, match=words), translated("db at host", was_open=True):
        raise psycopg.OperationalError(CONNECTING + said)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("FATAL:  the database system is starting up", "the server starts or stops"),
        ("FATAL:  the database system is shutting down", "the server starts or stops"),
        ("FATAL:  the database system is in recovery mode", "the server starts or stops"),
        ("FATAL:  the database system is not yet accepting connections\nDETAIL:  Consistent", "starts or stops"),
        ("FATAL:  sorry, too many clients already", "no connection left"),
        ("FATAL:  remaining connection slots are reserved", "no connection left"),
        ("Connection refused\n\tIs the server running on that host?", "cannot be used: Connection refused$"),
    ],
)
def test_what_waiting_can_help_is_an_error(said: str, words: str) -> None:
    """A process that starts at the same time as its server must not give up."""
    with pytest.raises(StoreError, match=words), translated("db at host"):
        raise psycopg.OperationalError(CONNECTING + said)
