"""No query is an error of ours, and the work for one is bounded."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.emulator.search.engine import period_of
from receiver.emulator.search.finding import (
    RANKED,
    SearchScope,
    find_images,
    find_pages,
    image_hits,
    load_images,
    load_pages,
    page_hits,
)
from receiver.emulator.search.index import SCHEMA, PageEntry, put, remove
from receiver.emulator.search.queries import EVERY, LONGEST, MOST_TERMS, indexed, mark, read_query

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = (
    "",
    '"',
    '""""',
    "NEAR(a b, 5)",
    "a AND OR NOT b",
    "OR OR OR",
    "{title} : x ^y*",
    "title:x -title:x",
    "'; DROP TABLE search_pages; --",
    "\0\ud800\uffff\U0010ffff",
    "(((((" * 500,
    '"a" ' * 1_000,
    "-" * LONGEST,
    " OR ".join("abcdefgh") * 100,
    "site:" + "a." * 900,
    "site:/// site:[::1] site:a:b@c inurl:%00 filetype:",
    "imagesize:99999x0 larger:x",
    "\u202e\u200b\u0301",
    "a" * LONGEST,
    "e\u0301" * 900,
)


def entry(number: int, **fields: Any) -> PageEntry:
    """Return the entry of a made page."""
    known: dict[str, Any] = {
        "key": f"//a.test/{number}",
        "url": f"https://a.test/{number}",
        "host": "a.test",
        "title": f"Page {number}",
        "place": f"a test {number}",
        "headings": "",
        "description": "",
        "body": "words of the body",
        "marks": f"{mark(EVERY, '')} {mark('host', 'a.test')}",
        "dated_at": 0,
        "published": "",
        "is_news": False,
        "picture": "",
    }
    return PageEntry(**(known | fields))


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    """An index with some pages."""
    made = sqlite3.connect(":memory:", isolation_level=None)
    made.row_factory = sqlite3.Row
    made.executescript(SCHEMA)
    for number in range(20):
        put(made, entry(number, body=indexed(f'words of the body {number} 港には船 "quoted" text')))
    yield made
    made.close()


def everything(connection: sqlite3.Connection, text: str, tbs: str = "") -> int:
    """Search in every way, and return the number of hits."""
    query, period = read_query(text), period_of(tbs, NOW)
    scope = SearchScope(since=period.since, until=period.until)
    pages = page_hits(
        load_pages(connection, find_pages(connection, query, scope, limit=10, most=50)),
        query,
        10,
        by_date=period.by_date,
    )
    images = image_hits(load_images(connection, find_images(connection, query, scope, limit=10, most=50)), 10)
    return len(pages) + len(images)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_query_has_an_answer(connection: sqlite3.Connection, text: str) -> None:
    assert everything(connection, text) <= 20


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80), st.text(alphabet="qdrcdmnxsb:,0123456789/hwy", max_size=30))
def test_every_text_is_a_query(connection: sqlite3.Connection, text: str, tbs: str) -> None:
    assert everything(connection, text, tbs) <= 20


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["-", '"', "site:", "intitle:", "OR", "a", "body", "(", ")", "*", "^", ":", "NEAR", " ", "NOT"]
        )
    )
)
def test_every_row_of_operators_is_a_query(connection: sqlite3.Connection, parts: list[str]) -> None:
    assert everything(connection, "".join(parts)) <= 20
    assert everything(connection, " ".join(parts)) <= 20


def test_a_query_has_a_limited_number_of_terms() -> None:
    """A thousand words cost no more than the first of them."""
    query = read_query(" ".join(f"word{n} -other{n}" for n in range(1_000)))

    assert sum(map(len, query.groups)) + len(query.excluded) == MOST_TERMS


def test_words_of_more_pages_than_can_be_ranked_are_found_in_titles_first() -> None:
    """The one page that has the words in its title comes first, although it was the last to come in."""
    made = sqlite3.connect(":memory:", isolation_level=None)
    made.row_factory = sqlite3.Row
    made.executescript(SCHEMA)
    made.execute("BEGIN")
    for number in range(RANKED + 10):
        put(made, entry(number, body="common words"))
    put(made, entry(RANKED + 10, title="Some common words", body="common"))
    answers = []
    for text in ("common", '"common words"', '"words common"'):
        found = find_pages(made, read_query(text), SearchScope(), limit=10, most=10)
        answers.append(page_hits(load_pages(made, found), read_query(text), 10, by_date=False))
    made.close()

    assert [len(hits) for hits in answers] == [10, 10, 0]
    assert {hits[0].title for hits in answers[:2]} == {"Some common words"}


def test_a_page_that_is_written_again_is_there_once() -> None:
    """The same content changes nothing, other content takes its place, and removal leaves nothing."""
    made = sqlite3.connect(":memory:", isolation_level=None)
    made.row_factory = sqlite3.Row
    made.executescript(SCHEMA)
    put(made, entry(1))
    before = made.total_changes
    put(made, entry(1, dated_at=5))
    assert made.total_changes == before
    put(made, entry(1, body="new"))
    rows = made.execute("SELECT count(*) FROM search_texts").fetchone()[0]
    assert (rows, len(find_pages(made, read_query("body"), SearchScope(), limit=5, most=5))) == (1, 0)
    remove(made, "//a.test/1")
    remove(made, "//a.test/1")
    assert made.execute("SELECT count(*) FROM search_texts").fetchone()[0] == 0
    made.execute("INSERT INTO search_texts (search_texts) VALUES ('integrity-check')")
    made.close()
