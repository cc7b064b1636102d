"""`receiver store copy`, run as a user runs it, on real databases."""

from pathlib import Path

import pytest

from receiver.cli.main import receiver, run
from tests.cli.kept import DEAD, DONE, HELD, QUEUED, SKIPPED, STORE, WAITING, delivery, fill
from tests.cli.replaying import keep
from tests.stores.rows import execute, select

pytestmark = pytest.mark.usefixtures("configured")

KEPT, COPY = Path("kept.db"), Path("copy.db")
TO = "sqlite:///copy.db"
TABLES = ("deliveries", "bodies", "quarantine", "work_items", "attempts", "handlers", "once_keys")


def invoke(*args: str) -> int:
    return run(receiver.main, list(args))


def rows(path: Path, table: str) -> list[tuple[object, ...]]:
    return select(path, f"SELECT * FROM {table} ORDER BY 1, 2")


@pytest.fixture
def filled(configured: None) -> None:
    """The store has work in every state that rests."""
    fill(*(lambda store, state=state: store.item(state) for state in (DONE, DEAD, WAITING, QUEUED, HELD, SKIPPED)))


@pytest.mark.usefixtures("filled")
def test_a_copy_is_equal(capsys: pytest.CaptureFixture[str]) -> None:
    """All tables are equal, and new numbers begin behind the copied ones."""
    assert invoke("store", "copy", STORE, TO, "--yes") == 0

    out = capsys.readouterr().out
    assert f"copy {STORE} to {TO}" in out
    assert "both stores are equal: 6 events" in out
    for table in TABLES:
        assert (table, rows(COPY, table)) == (table, rows(KEPT, table))
    assert select(COPY, "SELECT name, seq FROM sqlite_sequence WHERE seq > 0") == select(
        KEPT, "SELECT name, seq FROM sqlite_sequence WHERE seq > 0"
    )
    assert invoke("events", "list", "--store", TO) == 0


@pytest.mark.usefixtures("filled")
def test_a_copy_goes_on_with_what_changed() -> None:
    """What was added, changed, moved between lanes and removed since comes over with the same command."""
    assert invoke("store", "copy", STORE, TO, "--yes") == 0
    keep(delivery("later"))
    execute(KEPT, "UPDATE work_items SET heads_lane = 0, state = 'done', due_at = NULL WHERE heads_lane = 1")
    execute(KEPT, "UPDATE work_items SET heads_lane = 1 WHERE state = 'queued'")
    execute(
        KEPT,
        "DELETE FROM bodies WHERE seq = 1",
        "UPDATE deliveries SET duplicates = 3, pruned_at = 7 WHERE seq = 1",
    )

    assert invoke("store", "copy", STORE, TO, "--yes") == 0

    for table in TABLES:
        assert (table, rows(COPY, table)) == (table, rows(KEPT, table))


@pytest.mark.usefixtures("filled")
def test_a_store_in_use_is_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    """A target with deliveries of its own is refused and stays as it is."""
    assert invoke("store", "copy", STORE, TO, "--yes") == 0
    execute(COPY, "INSERT INTO deliveries (key, type, received_at, size) VALUES ('own', 'crawl.page', 1, 0)")
    before = rows(COPY, "deliveries")

    assert invoke("store", "copy", STORE, TO, "--yes") == 3

    assert "has deliveries that the source does not have" in capsys.readouterr().err
    assert rows(COPY, "deliveries") == before


@pytest.mark.usefixtures("filled")
def test_a_dry_run_makes_no_store(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan says what there is on both sides."""
    assert invoke("store", "copy", STORE, TO, "--dry-run") == 0
    assert not COPY.exists()
    assert "does not exist yet" in capsys.readouterr().out

    assert invoke("store", "copy", STORE, TO, "--yes") == 0
    capsys.readouterr()
    assert invoke("store", "copy", STORE, TO, "--dry-run") == 0
    assert capsys.readouterr().out.count("6 events") == 2


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("source", "target", "code", "said"),
    [
        (STORE, STORE, 2, "are the same store"),
        ("sqlite:///none.db", TO, 3, "there is no database"),
        (STORE, "memory://", 2, "ends with its process"),
        ("nowhere", TO, 2, "no address of a store"),
    ],
)
def test_wrong_addresses_are_refused(
    source: str, target: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is made."""
    assert invoke("store", "copy", source, target, "--yes") == code
    assert said in capsys.readouterr().err
    assert not COPY.exists()
