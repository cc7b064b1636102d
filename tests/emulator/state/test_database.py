"""The state file belongs to one emulator."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from receiver.emulator.state.database import ForeignDatabase, StateDatabase

SCHEMA = ("CREATE TABLE IF NOT EXISTS notes (text TEXT) STRICT;",)


async def test_a_second_emulator_finds_the_file_locked(tmp_path: Path) -> None:
    """Two would run the same jobs and send the same webhooks; the end of the first frees the file."""
    file = tmp_path / "emulator.db"
    for _ in range(2):
        async with StateDatabase(file, SCHEMA) as state:
            await state.run(lambda connection: connection.execute("INSERT INTO notes VALUES ('kept')"))
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                async with StateDatabase(file, SCHEMA):
                    pass

    async with StateDatabase(file, SCHEMA) as state:
        rows = await state.run(lambda connection: connection.execute("SELECT text FROM notes").fetchall())
    assert len(rows) == 2


async def test_the_database_of_another_program_stays_as_it_is(tmp_path: Path) -> None:
    """Such as the receiver's own store: a reset would empty it."""
    file = tmp_path / "receiver.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE deliveries (body)")
    before = file.read_bytes()

    with pytest.raises(ForeignDatabase):
        async with StateDatabase(file, SCHEMA):
            pass

    assert file.read_bytes() == before
