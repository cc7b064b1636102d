"""The newest scrape of each page, team and tag, and the changes of a page since then.

The history outlives the results of jobs.
"""

import json
import sqlite3
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from receiver.core.clock import from_micros, to_micros
from receiver.emulator.clock import wire_time
from receiver.emulator.content.page import PageContent
from receiver.emulator.extraction.evidence import ExtractionSource
from receiver.emulator.extraction.extractor import Extractor
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.fetching.web_urls import host_of, registrable_domain, split_web_url
from receiver.emulator.scrapes import FetchedPage, Json, ScrapePlan
from receiver.emulator.scraping.diffs import changed_keys, compare_texts
from receiver.emulator.scraping.document import source_of, wish_of
from receiver.emulator.scraping.ports import ReadPage
from receiver.emulator.state.database import StateDatabase, pack, unpack
from receiver.emulator.working.processes import HeavyWork, WorkLost

SCHEMA = """
CREATE TABLE IF NOT EXISTS page_history (
    team TEXT NOT NULL,
    url TEXT NOT NULL,
    tag TEXT NOT NULL,
    scrape_id TEXT NOT NULL,
    scraped_at INTEGER NOT NULL,
    markdown BLOB NOT NULL,
    page TEXT,
    body BLOB,
    PRIMARY KEY (team, url, tag)
) STRICT;
CREATE TABLE IF NOT EXISTS extraction_programs (
    program TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
"""

MAX_BODY = 2_000_000
"""Bytes of a page that are kept for a later comparison of extracted values."""
_FIND = "SELECT * FROM page_history WHERE team = ? AND url = ? AND tag = ?"
_KEEP = """
INSERT INTO page_history (team, url, tag, scrape_id, scraped_at, markdown, page, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (team, url, tag) DO UPDATE SET scrape_id = excluded.scrape_id, scraped_at = excluded.scraped_at,
    markdown = excluded.markdown, page = excluded.page, body = excluded.body
WHERE excluded.scraped_at >= page_history.scraped_at
"""
_KNOWN_PROGRAM = "INSERT INTO extraction_programs (program) VALUES (?) ON CONFLICT DO NOTHING"


@dataclass(frozen=True, slots=True)
class EarlierScrape:
    """The scrape with which a page is compared."""

    scrape_id: str
    scraped_at: datetime
    markdown: str
    page: FetchedPage | None
    """The page as it was sent; None if that was not kept."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A scrape as it is kept, with compressed texts."""

    team: str
    url: str
    tag: str
    """The branch of the history: see `branch_of`."""
    scrape_id: str
    scraped_at: datetime
    markdown: bytes
    page: str | None
    """URL, status and content type of the page, as JSON; None without a body."""
    body: bytes | None
    """None for a scrape that compared nothing, and for a page that is too large."""


class PageHistory:
    """Keeps one scrape for each team, URL and tag: the newest."""

    def __init__(self, database: StateDatabase) -> None:
        self._database = database

    async def earlier(self, team: str, plan: ScrapePlan) -> EarlierScrape | None:
        """Return the scrape with which this one is compared; None for the first."""
        key = (team, plan.url, branch_of(plan))
        row = await self._database.run(lambda connection: connection.execute(_FIND, key).fetchone())
        if row is None:
            return None
        markdown = unpack(row["markdown"]).decode("utf-8", "surrogatepass")
        return EarlierScrape(row["scrape_id"], from_micros(row["scraped_at"]), markdown, _page_of(row))

    async def is_new_program(self, program: str) -> bool:
        """Keep an extraction program, and return whether it was unknown."""
        return await self._database.run(
            lambda connection: connection.execute(_KNOWN_PROGRAM, (program,)).rowcount == 1
        )


def insert_entry(connection: sqlite3.Connection, entry: HistoryEntry) -> None:
    """Keep a scrape, in the caller's transaction, unless a newer one is kept."""
    values = (entry.team, entry.url, entry.tag, entry.scrape_id, to_micros(entry.scraped_at))
    connection.execute(_KEEP, (*values, entry.markdown, entry.page, entry.body))


def entry_of(
    team: str, plan: ScrapePlan, scrape_id: str, at: datetime, markdown: str, page: FetchedPage
) -> HistoryEntry:
    """Return a scrape as it is kept. Compressing its texts takes a while."""
    head: dict[str, Any] = {"url": page.url, "status": page.status, "contentType": page.content_type}
    # Most pages are never compared by values, and their Markdown is enough for all other comparisons.
    is_kept = plan.format("changeTracking") is not None and len(page.body) <= MAX_BODY
    return HistoryEntry(
        team=team,
        url=plan.url,
        tag=branch_of(plan),
        scrape_id=scrape_id,
        scraped_at=at,
        markdown=pack(markdown.encode("utf-8", "surrogatepass")),
        page=json.dumps(head),
        body=pack(page.body) if is_kept else None,
    )


def end_future(connection: sqlite3.Connection, now: datetime) -> None:
    """Give scrapes of the future the current time: the clock may have been ahead when the state was written."""
    connection.execute("UPDATE page_history SET scraped_at = ?1 WHERE scraped_at > ?1", (to_micros(now),))


def branch_of(plan: ScrapePlan) -> str:
    """Return the branch of the history for a scrape: `#` and its tag, or empty without a tag."""
    tag = (plan.format("changeTracking") or {}).get("tag")
    return "" if tag is None else f"#{tag}"


def _page_of(row: sqlite3.Row) -> FetchedPage | None:
    if row["page"] is None or row["body"] is None:
        return None
    head = json.loads(row["page"])
    return FetchedPage(
        source_url=row["url"],
        url=head["url"],
        status=head["status"],
        content_type=head["contentType"],
        body=unpack(row["body"]),
        fetched_at=from_micros(row["scraped_at"]),
    )


_MOST_URLS = 10_000
_FIND_URLS = """
SELECT DISTINCT url FROM page_history
WHERE team = ? AND instr(url, ?) > 0 AND coalesce(json_extract(page, '$.status'), 200) < 400
ORDER BY url LIMIT ?
"""


class KnownUrls:
    """Finds the URLs that a team has scraped before."""

    def __init__(self, database: StateDatabase) -> None:
        self._database = database

    async def of_site(self, team: str, url: str) -> list[str]:
        """Return up to 10,000 URLs with the domain of this one, without those of missing pages."""
        parts = split_web_url(url)
        if parts is None:
            return []
        domain = registrable_domain(host_of(parts))

        def find(connection: sqlite3.Connection) -> list[str]:
            return [str(row[0]) for row in connection.execute(_FIND_URLS, (team, domain, _MOST_URLS))]

        return await self._database.run(find)


_GONE = 404


@dataclass(frozen=True, slots=True)
class Tracked:
    """The result of change tracking, and its faults."""

    value: Json
    warnings: tuple[str, ...] = ()


class ChangeTracker:
    """Compares a page with the earlier scrape of the same team and tag. A fault is only a warning."""

    def __init__(self, history: PageHistory, extractor: Extractor, read: ReadPage, work: HeavyWork) -> None:
        self._history = history
        self._extractor = extractor
        self._read = read
        self._work = work

    async def track(
        self, plan: ScrapePlan, team: str, page: FetchedPage, content: PageContent, *, seconds: float
    ) -> Tracked:
        """Return the comparison. `plan` has the format changeTracking; the content has Markdown and raw HTML."""
        earlier = await self._history.earlier(team, plan)
        options = plan.format("changeTracking") or {}
        warnings: tuple[str, ...] = ()
        try:
            status, text, tree = await self._comparison(page.status, earlier, content.markdown, options)
        except WorkLost as exc:
            # The texts differ: equal ones are not compared.
            status, text, tree = "changed", None, None
            warnings = (f"changeTracking: the page cannot be compared with the earlier one: {exc}",)
        value: Json = {
            "previousScrapeAt": None if earlier is None else wire_time(earlier.scraped_at),
            "changeStatus": status,
            "visibility": "visible",
        }
        if earlier is None or status != "changed":
            return Tracked(value)
        if text is not None:
            value["diff"] = text if plan.diff_as_text else {"text": text, "json": tree}
        if "json" in options.get("modes", ()):
            value["json"], found = await self._values(plan, earlier, page, content, options, seconds)
            warnings += found
        return Tracked(value, warnings)

    async def _comparison(
        self, status: int, earlier: EarlierScrape | None, markdown: str, options: Json
    ) -> tuple[str, str | None, Json | None]:
        """Return the status of the page, with the difference if it changed and that was asked for."""
        if status == _GONE:
            return "removed", None, None
        if earlier is None:
            return "new", None, None
        if earlier.markdown == markdown:
            return "same", None, None
        with_diff = "git-diff" in options.get("modes", ())
        size = len(earlier.markdown) + len(markdown)
        found = await self._work.run(compare_texts, earlier.markdown, markdown, with_diff, size=size)
        return ("same", None, None) if found is None else ("changed", found["text"], found["tree"])

    async def _values(
        self,
        plan: ScrapePlan,
        earlier: EarlierScrape,
        page: FetchedPage,
        content: PageContent,
        options: Json,
        seconds: float,
    ) -> tuple[Any, tuple[str, ...]]:
        """Return the values that differ, each with the earlier and the current one.

        If only the Markdown of the earlier page is kept, it is compared with the Markdown of this one.
        """
        wish = wish_of(options)
        if earlier.page is None:
            texts = (earlier.markdown, content.markdown)
            sources = [ExtractionSource(url=page.url, markdown=text) for text in texts]
        else:
            try:
                before_content = await self._read(earlier.page, plan)
            except ScrapeFailed as exc:
                return None, (f"changeTracking: the earlier page cannot be read: {exc}",)
            sources = [source_of(earlier.page, before_content), source_of(page, content)]
        before, after = [await self._extractor.extract(source, wish, seconds=seconds) for source in sources]
        if before.data is None and after.data is None:
            return None, after.warnings
        return changed_keys(before.data, after.data), after.warnings
