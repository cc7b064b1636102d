"""What `check`, the metrics and the console tell of a PostgreSQL server, and how words become vectors there."""

from datetime import timedelta

import pytest

from receiver.core.deliveries import DeliveryFilter
from receiver.core.subjects import Texts
from receiver.core.work import StoreFacts
from receiver.stores.postgres.dialect import vector
from receiver.stores.postgres.reports import load_notes
from receiver.stores.postgres.store import PostgresStore
from tests.doubles import body_of, delivery
from tests.stores.conftest import open_all
from tests.stores.opened import MUCH, ONE
from tests.stores.outside import PostgresTables


async def test_the_facts_are_those_of_this_store(postgres_url: str) -> None:
    """The size grows with it, and an open transaction elsewhere on the server shows."""
    store = PostgresStore(postgres_url)
    async with open_all(store) as opened:
        empty = await opened.reports.facts()
        await opened.add(*[delivery(f"k{n}", body=b"%d" % n * 2_000) for n in range(50)])
        await opened.items(20, ONE)
        full = await opened.reports.facts()
        assert 0 < empty.bytes < full.bytes
        assert full.dead_rows is not None
        assert full.standby_lag is None
        with PostgresTables(postgres_url).connect() as other:
            other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT count(*) FROM marks")
            assert (await opened.reports.facts()).oldest_snapshot is not None


async def test_a_sound_server_has_no_load_notes(postgres_url: str) -> None:
    """The notes of a new store are at most about the settings of the server of the tests."""
    store = PostgresStore(postgres_url)
    async with store.log():
        pass
    assert all("full_page_writes" in note or "open for" in note for note in await store.health_notes())


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (StoreFacts(1, 0, timedelta(seconds=9)), []),
        (StoreFacts(1, 10**6, timedelta(hours=2)), ["has been open for 2h"]),
        (StoreFacts(1, 10**6), ["1,000,000 dead rows: autovacuum is off or does not keep up"]),
        (StoreFacts(1), []),
    ],
)
def test_what_keeps_a_server_from_tidying_up_is_told(found: StoreFacts, said: list[str]) -> None:
    """An old snapshot is the cause of dead rows, so the rows are told only without one."""
    notes = [*load_notes(found)]

    assert len(notes) == len(said)
    assert all(part in note for part, note in zip(said, notes, strict=True))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (Texts(), ""),
        (Texts("a b a", "b", "c"), "'a':1,3 'b':2,6001 'c':12001"),
        (Texts("x" * 3_000), f"'{'x' * 500}':1"),
    ],
)
def test_the_fields_of_a_vector_lie_apart(texts: Texts, expected: str) -> None:
    """So a phrase never reaches from one field into the next. Long words are cut."""
    assert vector(texts) == expected


HUGE = {
    "many words": " ".join(f"w{n}" for n in range(100_000)),
    "one word often": "again " * 50_000,
    "a long word": "y" * 5_000,
    "long words of long letters": " ".join(chr(0x20000 + n) * 600 for n in range(900)),
}


@pytest.mark.parametrize("title", HUGE.values(), ids=HUGE)
async def test_the_limits_of_the_server_are_kept(postgres_url: str, title: str) -> None:
    """PostgreSQL refuses longer vectors. The beginning of such a text is found, as a word and as a phrase."""
    store = PostgresStore(postgres_url)
    pages = [title[start : start + 2_000] for start in range(0, len(title), 2_000)]
    data = [{"metadata": {"title": pages[at : at + 100]}} for at in range(0, len(pages), 100)]
    async with open_all(store) as opened, store.search() as index:
        await opened.add(delivery("huge", body=body_of(data=[{"metadata": {"title": "first of all"}}, *data])))
        assert await index.index(limit=9, max_bytes=MUCH) == 1
        for text in ("first", '"first of all"', f"{title[:20]}*"):
            assert [one.key async for one in opened.reports.deliveries(DeliveryFilter(text=text))] == ["huge"]
