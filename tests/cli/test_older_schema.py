"""Commands on a store of an older version: a server or a worker migrates it, and nobody one of before the first."""

import asyncio
from pathlib import Path

import pytest

from receiver.cli.main import receiver, run
from receiver.stores import open_store
from receiver.stores.sql.migrations import FIRST
from tests.cli.replaying import write_handlers
from tests.stores.rows import select
from tests.stores.test_sqlite_migration import make_prerelease, release

pytestmark = pytest.mark.usefixtures("configured")

KEPT, COPY = Path("kept.db"), Path("copy.db")
HANDLER = "@router.on('*')\ndef look(event): ..."
NEEDED = FIRST + 1
COMMANDS = [
    "events list",
    "events export out.ndjson",
    "events prune --older-than 90d --yes",
    "jobs list",
    "work-items list",
    "work-items retry --state dead --yes",
    "work-items bury --state waiting --reason no --yes",
    "handlers list",
    "handlers pause look",
    "quarantine list",
    "drift",
    "tail --limit 1",
    "replay --dry-run",
    "replay --enqueue --yes",
]
"""Commands that read or change a store."""


def invoke(*args: str) -> int:
    return run(receiver.main, list(args))


def version(path: Path) -> int:
    """Return the schema of a database."""
    [(found,)] = select(path, "PRAGMA user_version")
    return int(found)


async def _open_for_appending() -> None:
    async with open_store("sqlite:///kept.db").log():
        pass


@pytest.fixture(autouse=True)
def made(configured: None) -> None:
    """There is a store of the schema that this version writes."""
    asyncio.run(_open_for_appending())


@pytest.fixture
def older(made: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store has the first schema, and this version needs the next one."""
    release(monkeypatch)


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize("command", COMMANDS)
def test_readers_and_small_writers_stop_and_leave_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """One line names both schemas and what to do, and the exit code is 3."""
    write_handlers(HANDLER, monkeypatch)
    # It takes the logs of the whole process over, and this one is that of all tests.
    monkeypatch.setattr("receiver.cli.replay.command.configure_logs", lambda **_: None)
    before = KEPT.read_bytes()

    assert invoke(*command.split()) == 3

    [line] = capsys.readouterr().err.splitlines()
    assert f"kept.db has schema {FIRST}, and this version needs {NEEDED}: start `receiver serve`" in line
    assert KEPT.read_bytes() == before


@pytest.mark.usefixtures("older")
def test_check_says_both_schemas_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no error: the start of a server migrates it."""
    write_handlers(HANDLER, monkeypatch)
    monkeypatch.setenv("RECEIVER_SECRETS", "a-secret")

    assert invoke("check") == 0

    assert (
        f"kept.db has schema {FIRST}, and this version needs {NEEDED}: `receiver serve` migrates"
        in capsys.readouterr().out
    )
    assert version(KEPT) == FIRST


@pytest.mark.usefixtures("older")
def test_a_backup_and_its_restore_keep_the_older_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """So there is a way back to the older version after this one has migrated the store."""
    assert invoke("backup", "copy.db") == 0
    assert f", schema {FIRST}" in capsys.readouterr().out
    assert (version(KEPT), version(COPY)) == (FIRST, FIRST)
    before = select(KEPT, "SELECT * FROM work_items")
    asyncio.run(_open_for_appending())
    assert version(KEPT) == NEEDED

    assert invoke("restore", "copy.db", "--yes") == 0

    assert f", schema {FIRST}" in capsys.readouterr().out
    assert version(KEPT) == FIRST
    assert select(KEPT, "SELECT * FROM work_items") == before


@pytest.mark.parametrize("command", [*COMMANDS, "backup copy.db", "store migrate", "check"])
def test_every_command_refuses_a_store_from_before_the_first_release(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """One line says how to move, the exit code is 3, and nothing is changed."""
    write_handlers(HANDLER, monkeypatch)
    monkeypatch.setenv("RECEIVER_SECRETS", "a-secret")
    monkeypatch.setattr("receiver.cli.replay.command.configure_logs", lambda **_: None)
    make_prerelease(KEPT, 15)
    before = KEPT.read_bytes()

    assert invoke(*command.split()) == 3

    shown = capsys.readouterr()
    assert "kept.db has schema 15, from before the first release" in shown.out + shown.err
    assert "`receiver events export FILE`" in shown.out + shown.err
    assert KEPT.read_bytes() == before
