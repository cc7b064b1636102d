"""How fast a large index is searched: `python -m tests.benchmarks.search [--pages N] [--json FILE]`.

The index of the emulator is filled with made pages: words by Zipf's law, some 80 a page. Then queries of several
kinds are answered one after the other, from the text of the query to the hits with their passages: rare words,
words of one sentence, a question, a phrase, words within one host and one week, and the most frequent words, which
nearly every page has. The time that the processor worked tells how busy the machine was with other things.
"""

import argparse
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, islice
from pathlib import Path

from receiver.core.clock import to_micros
from receiver.emulator.search.finding import PageHit, SearchScope, find_pages, load_pages, page_hits
from receiver.emulator.search.index import SCHEMA, PageEntry, put
from receiver.emulator.search.queries import EVERY, host_names, mark, month_of, read_query
from receiver.emulator.state.database import CACHE_KIB
from tests.benchmarks.report import table, write_json

NOW = datetime(2026, 8, 21, tzinfo=UTC)
HOSTS = 5_000
HITS = 10
_WORDS = 200_000
_SENTENCES = 100_000
_SYLLABLES = [f"{first}{last}" for first in "bdfgklmnprstvz" for last in "aeiou"]
_TOGETHER = 10_000

Kind = tuple[str, Callable[["MadePages"], str], SearchScope]


class MadePages:
    """Pages and queries, the same for a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.words = [_word(number) for number in range(_WORDS)]
        self._weights = list(accumulate(1 / (rank + 2.7) ** 1.05 for rank in range(_WORDS)))
        self._sentences = [" ".join(self.some(14)) for _ in range(_SENTENCES)]

    def some(self, count: int) -> list[str]:
        """Return some words, frequent ones more often."""
        return self.random.choices(self.words, cum_weights=self._weights, k=count)

    def entries(self, first: int = 0) -> Iterator[PageEntry]:
        """Yield pages without end."""
        number = first
        while True:
            yield self._entry(number)
            number += 1

    def _entry(self, number: int) -> PageEntry:
        host = f"{_word(number % HOSTS)}.test"
        title, path = " ".join(self.some(5)), "-".join(self.some(2))
        at = NOW - timedelta(days=number % 1_000)
        names = (mark("host", name) for name in host_names(host))
        return PageEntry(
            key=f"//{host}/{path}-{number}",
            url=f"https://{host}/{path}-{number}",
            host=host,
            title=title,
            place=f"{host} {path} {number}".replace("-", " "),
            headings=" ".join(self.some(4)),
            description=self.random.choice(self._sentences),
            body="\n".join(self.random.choices(self._sentences, k=4)),
            marks=" ".join([mark(EVERY, ""), *names, mark("type", "html"), mark("month", month_of(at))]),
            dated_at=to_micros(at),
            published="",
            is_news=False,
            picture="",
        )

    def sentence(self) -> list[str]:
        """Return the words of a sentence that pages have."""
        return self.random.choice(self._sentences).split()


def _word(number: int) -> str:
    """Return the word with a number: the frequent ones are short."""
    letters = []
    number += len(_SYLLABLES)
    while number:
        number, rest = divmod(number, len(_SYLLABLES))
        letters.append(_SYLLABLES[rest])
    return "".join(letters)


_ALL = SearchScope()
_LAST_WEEK = SearchScope(since=NOW - timedelta(days=7), until=NOW)
KINDS: tuple[Kind, ...] = (
    ("a rare word", lambda made: made.words[made.random.randrange(2_000, _WORDS)], _ALL),
    ("two words of a page", lambda made: " ".join(made.sentence()[:2]), _ALL),
    ("four words of a page", lambda made: " ".join(made.sentence()[3:7]), _ALL),
    ("a question", lambda made: f"what is the {' of a '.join(made.sentence()[:3])} and how", _ALL),
    ("a phrase", lambda made: f'"{" ".join(made.sentence()[2:5])}"', _ALL),
    ("words of a host", lambda made: f"site:{_word(made.random.randrange(HOSTS))}.test {made.sentence()[0]}", _ALL),
    ("words of a week", lambda made: " ".join(made.sentence()[:2]), _LAST_WEEK),
    ("the most frequent words", lambda made: " ".join(made.random.sample(made.words[:20], 2)), _ALL),
)


def fill(connection: sqlite3.Connection, made: MadePages, count: int) -> float:
    """Write so many pages, and return the seconds that it took, without making the pages."""
    seconds = 0.0
    entries = made.entries()
    while some := list(islice(entries, min(_TOGETHER, count))):
        begun = time.perf_counter()
        connection.execute("BEGIN")
        for entry in some:
            put(connection, entry)
        connection.execute("COMMIT")
        seconds += time.perf_counter() - begun
        count -= len(some)
        if not count:
            break
    return seconds


def answer(connection: sqlite3.Connection, text: str, scope: SearchScope) -> list[PageHit]:
    """Return the hits of a query, as the emulator finds them."""
    query = read_query(text)
    return page_hits(
        load_pages(connection, find_pages(connection, query, scope, limit=HITS, most=50 + 3 * HITS)),
        query,
        HITS,
        by_date=False,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.search", description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=200, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    made = MadePages(chosen.seed)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "index.db")
        connection = sqlite3.connect(file, isolation_level=None)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.executescript(SCHEMA)
        seconds = fill(connection, made, chosen.pages)
        rows = [_row(connection, made, kind, chosen.queries) for kind in KINDS]
        connection.close()
        size = file.stat().st_size
    table(
        f"search of {chosen.pages:,} pages, an index of {size / 1e6:,.0f} MB, written with"
        f" {chosen.pages / seconds:,.0f} pages a second",
        rows,
    )
    write_json(chosen.json, {"searches": rows, "pages": chosen.pages, "bytes": size, "seconds": seconds})
    return 0


def _row(connection: sqlite3.Connection, made: MadePages, kind: Kind, count: int) -> dict[str, object]:
    name, query, scope = kind
    milliseconds, computed, found = [], [], 0
    for text in [query(made) for _ in range(count)]:
        begun, worked = time.perf_counter(), time.process_time()
        found += len(answer(connection, text, scope))
        milliseconds.append(1000 * (time.perf_counter() - begun))
        computed.append(1000 * (time.process_time() - worked))
    milliseconds.sort()
    computed.sort()
    most = min(count - 1, int(count * 0.99))
    return {
        "query": name,
        "p50 ms": statistics.median(milliseconds),
        "p99 ms": milliseconds[most],
        "slowest": milliseconds[-1],
        "p50 of CPU": statistics.median(computed),
        "p99 of CPU": computed[most],
        "hits": found / count,
    }


if __name__ == "__main__":
    sys.exit(main())
