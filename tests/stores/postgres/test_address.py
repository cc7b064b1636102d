"""Addresses reach libpq as they are written, but for the schema, and nothing of a user is quoted."""

import pytest
from psycopg.conninfo import conninfo_to_dict

from receiver.errors import ConfigurationError
from receiver.stores.postgres.connection import parse_address

USER = "postgresql://user:pass@"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"{USER}one/db?options=-c%20statement_timeout%3D5s&schema=a", {"options": "-c statement_timeout=5s"}),
        (f"{USER}one/db?schema=a&application_name=two%20words", {"application_name": "two words"}),
        (f"{USER}one/db?passfile=/a+b%26c&schema=a", {"passfile": "/a+b&c"}),
        (f"{USER}[::1]:5432,[::2]:5433/db?schema=a", {"host": "::1,::2", "port": "5432,5433"}),
        (f"{USER}one,two/db?schema=a&target_session_attrs=read-write", {"host": "one,two"}),
        ("postgresql:///db?host=/run/sockets&user=user&schema=a", {"host": "/run/sockets", "dbname": "db"}),
        ("postgres://%2Frun%2Fsockets/db?schema=a", {"host": "/run/sockets"}),
        ("postgresql://user:p#a?s%40s@one/db?schema=a", {"password": "p#a?s@s", "host": "one"}),
        (f"{USER}one?schema=a", {"host": "one"}),
        ("postgresql+psycopg://user:a+b@one/db?schema=a", {"host": "one", "password": "a+b", "dbname": "db"}),
        ("postgres+asyncpg:///db?host=/run/sockets&schema=a", {"host": "/run/sockets", "dbname": "db"}),
    ],
)
def test_libpq_gets_what_the_address_says(url: str, expected: dict[str, str]) -> None:
    """Only the schema is ours."""
    address = parse_address(url)

    assert address.schema == "a"
    known = conninfo_to_dict(address.conninfo)
    assert {name: known.get(name) for name in expected} == expected
    assert "schema" not in known


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:",
        "postgresql://user:p@secret:word@one/db",
        "postgresql://user:p/secret@one/db",
        "postgresql://secret:%FF@one/db",
        "postgresql://user:p/a?secret=b@one/db",
        "postgresql://secret@one/db?no%74hing=secret",
        "postgresql://[::1/db",
    ],
)
def test_a_wrong_address_is_refused_without_a_word_of_it(url: str) -> None:
    """It may hold a password."""
    with pytest.raises(ConfigurationError, match="this is no address") as caught:
        parse_address(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("option", ["nothing=secret", "ssl=secret", "sslmode=require&nothing=secret"])
def test_an_option_that_libpq_does_not_know_is_named(option: str) -> None:
    """Its value is not: it may be a password."""
    with pytest.raises(ConfigurationError, match=r"libpq takes no option (nothing|ssl) with this value") as caught:
        parse_address(f"postgresql://user@one/db?{option}")
    assert "secret" not in str(caught.value)


def test_the_name_of_a_database_shows_no_user() -> None:
    """Also where the database is not named, which libpq then takes to be that of the user."""
    address = parse_address("postgresql://secret:pass@one,two")

    assert address.name == "the default at one,two"
    assert repr(address) == "Address(the default at one,two)"
