"""What `receiver store copy` does not write into: stores that are no copies of its source."""

import shutil
from pathlib import Path

import pytest

from receiver.errors import StoreRefused
from receiver.stores.copying import open_copy
from receiver.stores.sql.copying import StoreCopy
from receiver.stores.sqlite.files import prepare
from tests.cli.copied import COPY, KEPT, TO, contents, fill_store, invoke, rows
from tests.cli.kept import STORE, delivery
from tests.cli.replaying import keep
from tests.stores.outside import PostgresTables, SqliteTables, Tables
from tests.stores.rows import execute

pytestmark = pytest.mark.usefixtures("configured")


@pytest.fixture
def filled(configured: None) -> None:
    """The store has work in every state that rests."""
    fill_store()


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request: pytest.FixtureRequest) -> tuple[str, Tables]:
    """A store that does not exist yet, and its tables."""
    if request.param == "sqlite":
        return TO, SqliteTables(COPY)
    url = request.getfixturevalue("postgres_url")
    return url, PostgresTables(url)


@pytest.mark.usefixtures("filled")
def test_a_copy_of_another_store_is_not_overwritten(
    target: tuple[str, Tables], capsys: pytest.CaptureFixture[str]
) -> None:
    """Be it that the other one never had so many deliveries."""
    url, tables = target
    keep(delivery("other"), store="sqlite:///other.db")
    assert invoke("store", "copy", STORE, url, "--yes") == 0
    before = contents(tables)

    for more in ("--yes", "--dry-run"):
        assert invoke("store", "copy", "sqlite:///other.db", url, more) == 3
        assert "TO has deliveries that did not come from FROM: copy into an empty store" in capsys.readouterr().err

    assert contents(tables) == before
    assert invoke("store", "copy", STORE, url, "--yes") == 0


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM deliveries WHERE seq > 3",
        "UPDATE deliveries SET key = 'another' WHERE seq = 4",
    ],
    ids=["behind", "beside"],
)
def test_a_copy_of_the_same_files_that_went_its_own_way_is_another_store(
    change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody copied the files of a store, and uses both: what only one of them has is not taken for pruned."""
    shutil.copy(KEPT, "twin.db")
    execute(Path("twin.db"), change)
    keep(delivery("newest"))
    assert invoke("store", "copy", STORE, TO, "--yes") == 0
    before = contents(SqliteTables(COPY))

    assert invoke("store", "copy", "sqlite:///twin.db", TO, "--yes") == 3

    assert "TO has deliveries that FROM does not have" in capsys.readouterr().err
    assert contents(SqliteTables(COPY)) == before


@pytest.mark.usefixtures("filled")
def test_the_plan_says_what_is_removed(target: tuple[str, Tables], capsys: pytest.CaptureFixture[str]) -> None:
    """What was pruned since the last copy goes from the copy too, also the newest."""
    url, tables = target
    assert invoke("store", "copy", STORE, url, "--yes") == 0
    assert "removes" not in capsys.readouterr().out
    execute(
        KEPT,
        *(f"DELETE FROM {table} WHERE seq IN (2, 6)" for table in ("deliveries", "bodies")),
        "UPDATE marks SET value = 6 WHERE name = 'routed'",
    )

    assert invoke("store", "copy", STORE, url, "--dry-run") == 0
    assert "  removes   2 events of TO that FROM no longer has\n" in capsys.readouterr().out
    assert len(tables.select("SELECT seq FROM deliveries")) == 6

    assert invoke("store", "copy", STORE, url, "--yes") == 0
    assert contents(tables) == contents(SqliteTables(KEPT))


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("is_copy", [False, True], ids=["own", "copy"])
@pytest.mark.parametrize(
    ("row", "table"),
    [
        (
            "quarantine (received_at, reason, detail, headers, body) VALUES (1, 'conflict', '', '', x'00')",
            "quarantine",
        ),
        (
            "work_items (delivery_seq, handler, state, attempts, trigger) VALUES (1, 'one', 'dead', 1, 'delivery')",
            "work_items",
        ),
    ],
    ids=["quarantine", "work"],
)
def test_what_a_target_has_besides_deliveries_stays_too(
    row: str, table: str, is_copy: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not a copy, or was one and is used since."""
    prepare(COPY, create=True)
    if is_copy:
        assert invoke("store", "copy", STORE, TO, "--yes") == 0
    execute(COPY, f"INSERT INTO {row}")
    before = rows(COPY, table)

    assert invoke("store", "copy", STORE, TO, "--yes") == 3

    assert "TO has rows in " in capsys.readouterr().err
    assert rows(COPY, table) == before


@pytest.mark.usefixtures("filled")
async def test_a_copy_that_is_used_meanwhile_keeps_what_it_took(target: tuple[str, Tables]) -> None:
    """It has taken a delivery with a number that the source has given too."""
    url, tables = target
    async with open_copy(STORE, url) as (reading, writing):

        def take(_: int) -> None:
            if not tables.select("SELECT seq FROM deliveries WHERE key = 'own'"):
                tables.run(
                    "INSERT INTO deliveries (seq, key, type, received_at, size) "
                    "VALUES (5, 'own', 'crawl.page', 1, 0)"
                )

        with pytest.raises(StoreRefused, match="TO: it has deliveries that FROM does not have"):
            await StoreCopy(reading, writing, advance=take, page_size=2).run()

    assert [key for (key,) in tables.select("SELECT key FROM deliveries ORDER BY seq")] == ["key-1", "key-2", "own"]


@pytest.mark.usefixtures("filled")
def test_a_store_is_not_copied_into_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """Also by another name, and not into a copy of its files."""
    before = contents(SqliteTables(KEPT))
    Path("link.db").symlink_to(KEPT)
    shutil.copy(KEPT, "twin.db")

    for name in ("./kept.db", "link.db", "twin.db"):
        assert invoke("store", "copy", STORE, f"sqlite:///{name}", "--yes") == 2
        assert "TO is FROM itself or a copy of its files" in capsys.readouterr().err
    assert contents(SqliteTables(KEPT)) == before
