"""`receiver store copy`, run as a user runs it, on real databases."""

import asyncio
from pathlib import Path

import pytest

from receiver.core.recorded_actions import NewAction
from receiver.core.types import AppendOutcome, DeliveryKey
from receiver.errors import StoreError
from receiver.stores import open_store
from receiver.stores.copying import open_copy
from receiver.stores.sql.copying import StoreCopy
from receiver.stores.sqlite.bodies import body_files
from receiver.stores.sqlite.files import prepare
from tests.cli.copied import COPY, KEPT, TO, contents, fill_store, invoke, rows
from tests.cli.kept import STORE, delivery
from tests.cli.replaying import keep
from tests.doubles import NOON, appended
from tests.stores.outside import PostgresTables, SqliteTables
from tests.stores.rows import execute, select

pytestmark = pytest.mark.usefixtures("configured")

TABLES = ("deliveries", "bodies", "quarantine", "work_items", "attempts", "handlers", "once_keys", "actions")


@pytest.fixture
def filled(configured: None) -> None:
    """The store has work in every state that rests."""
    fill_store()


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


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize(
    "then",
    [(), ("DELETE FROM delivery_keys", "UPDATE marks SET value = 0 WHERE name = 'keyed'")],
    ids=["", "cut"],
)
def test_a_copy_knows_the_ids_that_it_has(then: tuple[str, ...]) -> None:
    """Be it of UUIDs, of hashes or of texts, and however far the index of the target was before."""
    ids = ["0" * 8 + f"-0000-4000-8000-{number:012x}" for number in range(3)] + ["sha256:" + "ab" * 32, "text"]
    keep(*[delivery(one) for one in ids])
    prepare(COPY, create=True)
    execute(COPY, "UPDATE marks SET value = 256 WHERE name IN ('keys_moving', 'keys_place')")
    assert invoke("store", "copy", STORE, TO, "--yes") == 0
    execute(COPY, *then)

    async def again() -> set[AppendOutcome]:
        async with open_store(TO).log() as log:
            return {(await appended(log, delivery(one))).outcome for one in ids}

    assert asyncio.run(again()) == {AppendOutcome.DUPLICATE}


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

    assert "TO has deliveries that FROM does not have" in capsys.readouterr().err
    assert rows(COPY, "deliveries") == before


@pytest.mark.usefixtures("filled")
def test_a_dry_run_makes_no_store(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan says what there is on both sides."""
    assert invoke("store", "copy", STORE, TO, "--dry-run") == 0
    assert not COPY.exists()
    plan = capsys.readouterr().out
    assert "  from      6 events" in plan
    assert "does not exist yet" in plan
    assert invoke("store", "copy", STORE, TO) == 2, "there is no terminal to ask"
    assert not COPY.exists()
    assert invoke("store", "copy", "sqlite:///none.db", TO, "--dry-run") == 3
    capsys.readouterr()

    assert invoke("store", "copy", STORE, TO, "--yes") == 0
    capsys.readouterr()
    assert invoke("store", "copy", STORE, TO, "--dry-run") == 0
    assert capsys.readouterr().out.count("6 events") == 2


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("source", "target", "code", "said"),
    [
        (STORE, STORE, 2, "are the same store"),
        ("sqlite:///none.db", TO, 3, "FROM: there is no database"),
        (STORE, "sqlite:///none/none.db", 3, "TO: cannot create the database"),
        ("postgresql://127.0.0.1:1/no", TO, 3, "FROM: the database no at 127.0.0.1 cannot be used"),
        (STORE, "postgresql://127.0.0.1:1/no", 3, "TO: the database no at 127.0.0.1 cannot be used"),
        (STORE, "memory://", 2, "ends with its process"),
        ("nowhere", TO, 2, "FROM: this is no address of a store"),
        (STORE, "nowhere", 2, "TO: this is no address of a store"),
    ],
)
def test_wrong_addresses_are_refused(
    source: str, target: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is made."""
    assert invoke("store", "copy", source, target, "--yes") == code
    assert said in capsys.readouterr().err
    assert not COPY.exists()


@pytest.mark.usefixtures("filled")
def test_a_store_goes_to_postgresql_and_back(postgres_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each copy is equal to its source, with every byte, and the stores can be used afterwards."""
    execute(
        KEPT,
        "UPDATE bodies SET body = x'00ff0d0a', headers = '[[\"a\",\"\\u0000\"]]' WHERE seq = 2",
        "UPDATE bodies SET body = x'789c030000000001', coding = 1 WHERE seq = 3",
        "UPDATE deliveries SET success = NULL, job_id = NULL WHERE seq = 4",
        "DELETE FROM bodies WHERE seq = 5",
        "UPDATE deliveries SET pruned_at = 7 WHERE seq = 5",
        "INSERT INTO quarantine (received_at, reason, detail, headers, body) VALUES (1, 'conflict', '', '', x'00')",
        "INSERT INTO once_keys VALUES ('one', 'k', 1, NULL)",
    )
    assert invoke("store", "copy", STORE, postgres_url, "--yes") == 0
    out = capsys.readouterr().out
    assert " has no tables of ours yet; they will be made\n" in out  # the database itself is there
    assert "both stores are equal: 6 events" in out
    assert contents(PostgresTables(postgres_url)) == contents(SqliteTables(KEPT))

    assert invoke("store", "copy", postgres_url, TO, "--yes") == 0
    assert contents(SqliteTables(COPY)) == contents(SqliteTables(KEPT))
    for url in (postgres_url, TO):
        assert invoke("events", "list", "--store", url, "--json") == 0
        assert invoke("work-items", "list", "--store", url, "--json") == 0
        assert invoke("work-items", "retry", "2", "--store", url, "--yes") == 0


async def test_long_bodies_come_over_from_the_files_beside_a_database(
    bare_environment: Path, postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The copy has them in itself. A body that cannot be read ends the copy, and the file is named."""
    long = b'{"text":"' + b"x" * 20_000 + b'"}'
    async with open_store(STORE).log() as log:
        for key in ("a", "b"):
            await appended(log, delivery(key, body=long))

    for url in (TO, postgres_url):
        async with open_copy(STORE, url) as (reading, writing):
            copy = StoreCopy(reading, writing)
            await copy.run()
            assert await copy.differences() == 0
        async with open_store(url).reports() as reports:
            assert [(await reports.detail(DeliveryKey(key))).body for key in ("a", "b")] == [long, long]

    [file] = body_files(KEPT)
    file.unlink()
    async with open_copy(STORE, "sqlite:///other.db") as (reading, writing):
        with pytest.raises(StoreError, match=f"{file.name}: No such file or directory; put the file back"):
            await StoreCopy(reading, writing).run()


async def test_new_deliveries_come_behind_what_was_pruned(bare_environment: Path, postgres_url: str) -> None:
    """The newest deliveries are pruned. A number that was given is not given again, or no worker would see it."""
    async with open_store(STORE).log() as log:
        for key in ("a", "b"):
            await appended(log, delivery(key))
    execute(KEPT, "UPDATE marks SET value = 2 WHERE name = 'routed'", "DELETE FROM deliveries WHERE seq = 2")
    execute(KEPT, "DELETE FROM bodies WHERE seq = 2")

    for source, target in ((STORE, postgres_url), (postgres_url, TO)):
        async with open_copy(source, target) as (reading, writing):
            await StoreCopy(reading, writing).run()
            assert await StoreCopy(reading, writing).differences() == 0
    for url in (postgres_url, TO):
        async with open_store(url).log() as log, open_store(url).queue() as queue:
            await appended(log, delivery("c"))
            batch = await queue.routing_batch(limit=9, max_bytes=9_999)
            assert [(one.seq, one.delivery.key) for one in batch.deliveries] == [(3, "c")]


async def test_new_actions_come_behind_those_that_work_items_remember(
    bare_environment: Path, postgres_url: str
) -> None:
    """Old actions are forgotten. A new one with the same number could be undone on items that it never changed."""
    async with open_store(STORE).log() as log:
        await appended(log, delivery("a"))
    execute(
        KEPT,
        "INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger, action_id) "
        "VALUES (1, 'one', 'dead', 1, 'delivery', 7)",
    )

    for source, target in ((STORE, postgres_url), (postgres_url, TO)):
        async with open_copy(source, target) as (reading, writing):
            await StoreCopy(reading, writing).run()
    for url in (TO, postgres_url):
        async with open_store(url).controls() as controls:
            assert await controls.begin_action(NewAction("cli", "retry", "all", 1), now=NOON) == 8


async def test_pages_and_bodies_are_copied_in_parts(bare_environment: Path, postgres_url: str) -> None:
    """Here each page has two rows. A row that changes in the source after its page is found at the end."""
    async with open_store(STORE).log() as log:
        for n in range(7):
            await appended(log, delivery(f"k{n}"))

    async with open_copy(STORE, postgres_url) as (reading, writing):
        copy = StoreCopy(reading, writing, page_size=2)
        await copy.run()
        assert await copy.differences() == 0
        execute(
            KEPT,
            "UPDATE bodies SET body = x'00' WHERE seq = 3",
            "UPDATE deliveries SET duplicates = 1 WHERE seq = 6",
        )
        execute(KEPT, "DELETE FROM deliveries WHERE seq = 7")
        assert await copy.differences() == 3
        await copy.run()
        assert await copy.differences() == 0
    assert contents(PostgresTables(postgres_url)) == contents(SqliteTables(KEPT))


async def test_the_plan_of_a_first_copy_reads_no_events(bare_environment: Path, postgres_url: str) -> None:
    """An empty target has none to remove. That of a later copy reads the ids in both stores."""
    async with open_store(STORE).log() as log:
        for key in ("a", "b", "c"):
            await appended(log, delivery(key))

    for url in (TO, postgres_url):
        compared: list[int] = []
        async with open_copy(STORE, url) as (reading, writing):
            copy = StoreCopy(reading, writing, advance=compared.append)
            assert (await copy.removals(), compared) == (0, [])
            await StoreCopy(reading, writing).run()
            assert (await copy.removals(), compared) == (0, [3])
