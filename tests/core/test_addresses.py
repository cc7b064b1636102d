"""Tests of how addresses of stores are shown."""

import pytest

from receiver.core.addresses import shown_address


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///receiver.db", "sqlite:///receiver.db"),
        ("postgresql://host/database", "postgresql://host/database"),
        ("postgresql://user:hidden@host:5433/database", "postgresql://host:5433/database"),
        ("postgresql://user:hidden@one:1,two:2/d?target_session_attrs=read-write", "postgresql://one:1,two:2/d"),
        ("postgres://user:hid@den@host/d?schema=own&sslmode=require", "postgres://host/d?schema=own"),
        ("postgresql://host/d?user=u&password=hidden&schema=own", "postgresql://host/d?schema=own"),
        ("postgresql:///d?host=/run/postgresql&password=hid@den", "postgresql://***"),
        ("postgresql://user:hid?den@host/d", "postgresql://***"),
        ("postgresql://user:hid/den@host/d", "postgresql://host/d"),
        ("postgresql://user@server:hid?den@host/d", "postgresql://***"),
        ("postgresql:/user:hidden@host/d", "***"),
        ("user:hidden@host/d", "***"),
        ("no address", "no address"),
    ],
)
def test_an_address_is_shown_without_user_password_and_options(url: str, shown: str) -> None:
    """A password in it may have characters that should have been escaped."""
    assert shown_address(url) == shown
