"""A user of the database with no more rights than the guide names."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.stores.outside import PostgresTables


@contextmanager
def limited_user(url: str) -> Iterator[str]:
    """Yield the address of a store, which has tables, for a user who may do everything but migrate."""
    tables, schema, user = PostgresTables(url), url.partition("schema=")[2], secrets.token_hex(4)
    tables.run(
        f"""
        CREATE ROLE limited_{user} LOGIN;
        GRANT USAGE ON SCHEMA {schema} TO limited_{user};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO limited_{user};
        GRANT USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA {schema} TO limited_{user};
        """
    )
    parts = urlsplit(url)
    yield parts._replace(netloc=f"limited_{user}@{parts.netloc.rpartition('@')[2]}").geturl()
    tables.run(f"DROP OWNED BY limited_{user}; DROP ROLE limited_{user}")
