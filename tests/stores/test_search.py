"""The contract of the search for words."""

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from receiver.core.activity import PruneRule
from receiver.core.bulk import Imported
from receiver.core.deliveries import Delivery, DeliveryFilter
from receiver.core.ports.store import SearchIndex, Store
from receiver.core.subjects import SearchReach
from receiver.core.types import DeliveryState
from receiver.errors import ConfigurationError, NoSearchIndex
from receiver.stores.sqlite.dialect import READS, require_module
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON, appended, body_of, delivery
from tests.stores.opened import MUCH, ONE, SECOND, Opened
from tests.stores.rows import execute, select


@pytest.fixture
async def index(store: Store, opened: Opened) -> AsyncIterator[SearchIndex]:
    """The index of words of the store that is open."""
    async with store.search() as index:
        yield index


def page(key: str, url: str = "", title: object = None, **changes: Any) -> Delivery:
    """Return a page with this URL and title."""
    metadata = {"sourceURL": url, "title": title}
    values = {"error": changes.pop("error", None)}
    return delivery(key, body=body_of(data=[{"markdown": "unseen", "metadata": metadata}], **values), **changes)


async def fill(index: SearchIndex) -> int:
    """Index everything, and return how many transactions that took."""
    turns = 0
    while await index.index(limit=100, max_bytes=MUCH):
        turns += 1
    return turns


PAGES = [
    page("a", "https://example.com/docs/Install-Guide?x=1", "Install Guide"),
    page("b", "https://example.com/docs/upgrade", ["Upgrade", "Guide to café"]),
    page("c", "https://shop.example.org/cart", "Cart", error="Scrape timed out after 30000ms", success=False),
    page("d", "https://example.com/docs", "Éléments in 2026"),
]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("guide", "ba"),
        ("GUIDE", "ba"),
        ("install", "a"),
        ("guide install", "a"),
        ("guide cart", ""),
        ("guid", ""),
        ("guid*", "ba"),
        ("in*", "da"),
        ('"install guide"', "a"),
        ('"guide install"', ""),
        ('"docs install gu"*', "a"),
        ("https://example.com/docs/upgrade", "b"),
        ("https://example.com/docs", "dba"),
        ("example.com/docs/install-guide", "a"),
        ("example.com", "dba"),
        ("example", "dcba"),
        ("timed out", "c"),
        ("30000ms cart", "c"),
        ("cafe", "b"),
        ("CAFÉ", "b"),
        ("elements", "d"),
        ("2026", "d"),
        ("unseen", ""),
        ("nosuch", ""),
        ('guide"', "ba"),
        ("guide ---", "ba"),
        ("AND guide", ""),
        ("NOT", ""),
        ("url : guide", ""),
        ("guide OR cart", ""),
        ("NEAR(guide install)", ""),
        ("^guide", "ba"),
        ("-guide", "ba"),
        ("(guide)", "ba"),
        ("gui'de", ""),
        ("guide* install", "a"),
    ],
)
async def test_all_the_words_have_to_occur(opened: Opened, index: SearchIndex, text: str, keys: str) -> None:
    """They occur in URL, title or error, in any case and with any accents. Nothing in a query is an operator."""
    await opened.add(*PAGES)
    await fill(index)

    assert "".join(await opened.keys(text=text)) == keys


@pytest.mark.parametrize("text", ["", " ", "*", '""', "--- ***", "…"])
async def test_a_query_without_a_word_is_an_error(opened: Opened, index: SearchIndex, text: str) -> None:
    """It would match all deliveries or none, and nobody means that."""
    await opened.add(*PAGES)

    with pytest.raises(ValueError, match="there is no word in"):
        await opened.keys(text=text)


async def test_without_an_index_a_search_says_what_to_do(opened: Opened) -> None:
    """Every report that takes the filter says it."""
    for ask in (opened.keys(text="x"), opened.reports.plan(DeliveryFilter(text="x"))):
        with pytest.raises(NoSearchIndex, match="set RECEIVER_SEARCH=true"):
            await ask
    assert await opened.reports.search_reach() is None


async def test_deliveries_stored_before_are_indexed_too(opened: Opened, store: Store) -> None:
    """Each step indexes some of them in the order of arrival, and the reach is known meanwhile."""
    await opened.add(*[page(f"k{n}", "https://example.com", received_at=NOON + n * SECOND) for n in range(5)])
    async with store.search() as index:
        assert await opened.reports.search_reach() == SearchReach(5, None)
        assert await index.index(limit=2, max_bytes=MUCH) == 2
        assert await opened.keys(text="example") == ["k1", "k0"]
        assert await opened.reports.search_reach() == SearchReach(3, NOON + SECOND)
        assert await index.index(limit=9, max_bytes=MUCH) == 3
        assert await index.index(limit=9, max_bytes=MUCH) == 0

    assert len(await opened.keys(text="example")) == 5
    assert await opened.reports.search_reach() == SearchReach(0, NOON + 4 * SECOND)


async def test_long_bodies_are_indexed_one_by_one(opened: Opened, index: SearchIndex) -> None:
    """A step takes at least one body, and then as many as fit."""
    await opened.add(*[page(f"k{n}", "https://example.com/" + "x" * 1000) for n in range(3)])

    assert await index.index(limit=9, max_bytes=10) == 1
    assert await index.index(limit=9, max_bytes=1_500) == 2


async def test_an_index_that_is_made_again_goes_on(opened: Opened, store: Store) -> None:
    """Each start of a worker makes it again."""
    await opened.add(page("a", "https://example.com"))
    async with store.search() as index:
        await fill(index)
    await opened.add(page("b", "https://example.com"))
    async with store.search() as index:
        assert await index.index(limit=9, max_bytes=MUCH) == 1

    assert await opened.keys(text="example") == ["b", "a"]


async def test_two_workers_index_each_delivery_once(opened: Opened, store: Store) -> None:
    """Either of them may be first."""
    await opened.add(*[page(f"k{n}", "https://example.com") for n in range(9)])
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(store.search()) for _ in range(2)]
        while await one.index(limit=2, max_bytes=MUCH) or await two.index(limit=2, max_bytes=MUCH):
            pass

    assert len(await opened.keys(text="example")) == 9


async def test_words_narrow_with_the_other_filters(opened: Opened, index: SearchIndex) -> None:
    """These are type, job, state and number."""
    await opened.add(page("a", "https://example.com", job_id="j1"), page("b", "https://example.com", job_id="j2"))
    await opened.route(ONE)
    await opened.add(page("c", "https://example.com", job_id="j1"), page("d", "https://other.com", job_id="j1"))
    await fill(index)

    assert await opened.keys(text="example", job_id="j1") == ["c", "a"]
    assert await opened.keys(text="example", state=DeliveryState.NEW) == ["c"]
    assert await opened.keys(text="example", limit=2) == ["c", "b"]
    assert await opened.keys(text="example", type="agent.*") == []
    wanted = DeliveryFilter(text="example")
    assert (await opened.reports.plan(wanted)).count == 3
    assert [one.delivery.key async for one in opened.reports.iter_deliveries(wanted)] == ["a", "b", "c"]
    assert [one.key for one in (await opened.reports.since(wanted, after=1, limit=9)).deliveries] == ["b", "c"]


async def test_more_than_one_page_is_found_in_order(opened: Opened, index: SearchIndex) -> None:
    """The newest comes first."""
    await opened.add(*[page(f"k{n}", "https://example.com") for n in range(1_200)])
    await fill(index)

    assert await opened.keys(text="example") == [f"k{n}" for n in reversed(range(1_200))]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"data":7}', b'{"data":[7,null,{"metadata":[]}]}', b"\xff"])
async def test_a_body_without_words_holds_up_nothing(opened: Opened, index: SearchIndex, body: bytes) -> None:
    """Any bytes may come."""
    await opened.add(delivery("odd", body=body), page("a", "https://example.com"))
    await fill(index)

    assert await opened.keys(text="example") == ["a"]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("monitor.page", {"data": [{"url": "https://found.example"}]}),
        ("monitor.page", {"data": {"url": "https://found.example", "error": "x"}}),
        ("monitor.check.completed", {"data": {"pages": [{"url": "x"}, {"url": "https://found.example"}]}}),
        (
            "crawl.completed",
            {"data": [{"content": {"metadata": {"sourceURL": "x"}}, "source": "https://found.example"}]},
        ),
        ("crawl.page", {"data": [{"metadata": {"url": "https://found.example"}}]}),
        ("crawl.page", {"data": [{"metadata": {"title": "Found"}}]}),
        ("crawl.page", {"data": [{"metadata": {"error": "not found"}}]}),
        ("extract.failed", {"error": "nothing found"}),
        ("extract.completed", {"data": [{"error": "nothing found"}]}),
    ],
    ids=str,
)
async def test_every_family_is_found(
    opened: Opened, index: SearchIndex, kind: str, content: dict[str, object]
) -> None:
    """Words come from the URLs, titles and errors of its events, in each of their forms."""
    await opened.add(delivery("a", kind=kind, body=body_of(kind, **content)))
    await fill(index)

    assert await opened.keys(text="found") == ["a"]


@pytest.mark.parametrize("bodies", [False, True])
async def test_what_is_pruned_is_not_found_any_more(opened: Opened, index: SearchIndex, bodies: bool) -> None:
    """The delivery goes or its body alone. A body that is imported again brings its words."""
    old = page("old", "https://example.com")
    await opened.add(old, page("new", "https://example.com", received_at=NOON + SECOND))
    await opened.route()
    await fill(index)
    assert await opened.keys(text="example") == ["new", "old"]

    rule = PruneRule(NOON + SECOND, bodies=bodies)
    await opened.maintenance.prune(rule, after=0, limit=9, now=NOON + 2 * SECOND)

    assert await opened.keys(text="example") == ["new"]
    assert await opened.reports.search_reach() == SearchReach(0, NOON + SECOND)
    if bodies:
        await opened.controls.import_deliveries([Imported(old)])
        assert await opened.keys(text="example") == ["new", "old"]
        await opened.maintenance.prune(rule, after=0, limit=9, now=NOON + 2 * SECOND)
        assert await opened.keys(text="example") == ["new"]


async def test_a_restored_body_is_indexed_once(opened: Opened, index: SearchIndex) -> None:
    """Here the index has not reached it yet."""
    await opened.add(page("a", "https://example.com"), page("b", "https://example.com"))
    await opened.route()
    await opened.maintenance.prune(PruneRule(NOON + SECOND, bodies=True), after=0, limit=9, now=NOON + SECOND)
    await opened.controls.import_deliveries([Imported(page("a", "https://example.com"))])
    await fill(index)

    assert await opened.keys(text="example") == ["a"]
    await opened.controls.import_deliveries([Imported(page("b", "https://example.com")), Imported(page("a"))])
    assert await opened.keys(text="example") == ["b", "a"]


async def test_without_an_index_a_body_comes_back_without_its_words(opened: Opened) -> None:
    """An index that is made later takes them."""
    await opened.add(page("a", "https://example.com"))
    await opened.route()
    await opened.maintenance.prune(PruneRule(NOON + SECOND, bodies=True), after=0, limit=9, now=NOON + SECOND)

    await opened.controls.import_deliveries([Imported(page("a", "https://example.com"))])

    assert await opened.reports.search_reach() is None


async def test_compressed_and_imported_bodies_are_found(opened: Opened, index: SearchIndex) -> None:
    """Words stay after compression, and an imported body is indexed like any other, also a compressed one."""
    long = "https://example.com/" + "word " * 20_000
    await opened.add(page("sent", long))
    await opened.route()
    await opened.maintenance.compress(limit=9)
    await opened.controls.import_deliveries([Imported(page("imported", "https://example.com"))])
    await fill(index)
    await opened.maintenance.compress(limit=9)

    assert await opened.keys(text="example") == ["imported", "sent"]


# --- SQLite alone


async def test_what_is_pruned_leaves_the_index(sqlite_store: SqliteStore, path: Path) -> None:
    """The transaction that removes the body removes its words.

    A step at the same moment does not bring them back.
    """
    async with sqlite_store.log() as log, sqlite_store.search() as index:
        for key in ("a", "b"):
            await appended(log, page(key, "https://example.com"))
        await index.index(limit=1, max_bytes=MUCH)
        execute(path, "DELETE FROM bodies WHERE seq = 1", "DELETE FROM bodies WHERE seq = 2")
        await appended(log, page("c", "https://example.com"))
        await index.index(limit=9, max_bytes=MUCH)

    assert select(path, "SELECT rowid FROM words WHERE words MATCH 'example'") == [(3,)]


async def test_an_append_does_not_use_the_index(sqlite_store: SqliteStore, path: Path) -> None:
    """It writes no word, and works without the index."""
    async with sqlite_store.search(), sqlite_store.log() as log:
        await appended(log, page("a", "https://example.com"))
        assert select(path, "SELECT count(*) FROM words") == [(0,)]
        execute(path, "DROP TABLE words")
        await appended(log, page("b", "https://example.com"))

    assert select(path, "SELECT count(*) FROM deliveries") == [(2,)]


def test_a_sqlite_without_full_text_search_says_so() -> None:
    """Here an empty table stands in for SQLite's list of its modules."""
    with closing(sqlite3.connect(":memory:")) as connection:
        require_module(connection)
        connection.execute("CREATE TABLE pragma_module_list (name)")
        with pytest.raises(ConfigurationError, match="has no full text search"):
            require_module(connection)


async def test_rows_of_the_index_are_searched_and_not_sorted(sqlite_store: SqliteStore, path: Path) -> None:
    """A word that all deliveries have costs no more than one page of a listing."""
    async with sqlite_store.search():
        pass
    for state in (None, DeliveryState.DEAD):
        statement, values = READS.filters.delivery_listing(DeliveryFilter(text="example", state=state))
        with sqlite3.connect(path) as connection:
            plan = connection.execute(
                f"EXPLAIN QUERY PLAN {statement}", values | {"before": 9, "rows": 9}
            ).fetchall()
        connection.close()
        assert not [row for row in plan if "TEMP B-TREE" in row[3]], json.dumps(plan)


async def test_looks_for_words_find_what_a_listing_finds(index: SearchIndex, opened: Opened) -> None:
    """The index of words finds a rare word at once; what else is asked for is looked for among its deliveries."""
    await opened.add(*(page(f"k{n}", f"https://example.com/{'rare' if n == 1 else 'page'}") for n in range(9)))
    await opened.route(ONE)
    await fill(index)

    rare = await opened.reports.delivery_page(DeliveryFilter(text="rare"), examine=2)
    cut = await opened.reports.delivery_page(DeliveryFilter(text="example", type="none"), examine=2)
    assert cut.end is not None
    rest = await opened.reports.delivery_page(
        DeliveryFilter(text="example", limit=3), examine=2, before=cut.end.place
    )

    assert cut.rows == ()
    assert [one.key for one in rest.rows] == ["k6", "k5"]
    assert rest.end is not None
    assert [one.key for one in rare.rows] == ["k1"]
