"""Commands on a store that an older version made: only a server or a worker migrates it."""

import asyncio
from importlib import resources
from pathlib import Path

import pytest

from receiver.cli.main import receiver, run
from receiver.stores import open_store
from tests.cli.replaying import write_handlers
from tests.stores.rows import select
from tests.stores.test_sqlite_migration import make_schema_6

pytestmark = pytest.mark.usefixtures("configured")

KEPT, COPY = Path("kept.db"), Path("copy.db")
NEWEST = len([*resources.files("receiver.stores.sqlite").joinpath("migrations").iterdir()])
HANDLER = "@router.on('*')\ndef look(event): ..."


def invoke(*args: str) -> int:
    return run(receiver.main, list(args))


def version(path: Path) -> int:
    """Return the schema of a database."""
    [(found,)] = select(path, "PRAGMA user_version")
    return int(found)


@pytest.fixture(autouse=True)
def older(configured: None) -> None:
    """The store has schema 6."""
    make_schema_6(KEPT)


@pytest.mark.parametrize(
    "command",
    [
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
    ],
)
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
    assert f"kept.db has schema 6, and this version needs {NEWEST}: start `receiver serve`" in line
    assert KEPT.read_bytes() == before


def test_check_says_both_schemas_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no error: the start of a server migrates it."""
    write_handlers(HANDLER, monkeypatch)
    monkeypatch.setenv("RECEIVER_SECRETS", "a-secret")

    assert invoke("check") == 0

    assert (
        f"kept.db has schema 6, and this version needs {NEWEST}: `receiver serve` migrates"
        in capsys.readouterr().out
    )
    assert version(KEPT) == 6


async def _open_for_appending() -> None:
    async with open_store("sqlite:///kept.db").log():
        pass


def test_a_backup_and_its_restore_keep_the_older_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """So there is a way back to the older version after this one has migrated the store."""
    assert invoke("backup", "copy.db") == 0
    assert ", schema 6" in capsys.readouterr().out
    assert (version(KEPT), version(COPY)) == (6, 6)
    before = select(KEPT, "SELECT * FROM work_items")
    asyncio.run(_open_for_appending())
    assert version(KEPT) == NEWEST

    assert invoke("restore", "copy.db", "--yes") == 0

    assert ", schema 6" in capsys.readouterr().out
    assert version(KEPT) == 6
    assert select(KEPT, "SELECT * FROM work_items") == before
