"""The statements that the guide gives to operators run on the server."""

import psycopg

from tests.texts import blocks


def test_every_statement_of_the_guide_runs(postgres_server: str) -> None:
    """In the schema of its default name, and all is taken back."""
    found = blocks("sql")
    assert found
    with psycopg.connect(postgres_server) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS receiver")
        for _, block in found:
            connection.execute(block.encode())
        connection.rollback()
