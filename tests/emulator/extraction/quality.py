"""How good the rules of extraction are, measured on the made pages: precision and recall of single values."""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from receiver.emulator.extraction.extractor import Extractor
from receiver.emulator.scrapes import FetchedPage, Json, ScrapePlan
from receiver.emulator.scraping.document import extract
from tests.emulator.content.pages import read_page
from tests.emulator.extraction.made import PAGES
from tests.emulator.extraction.made.forms import URL, MadePage
from tests.emulator.extraction.made.unseen import UNSEEN

Leaf = tuple[str, Any]


@dataclass(frozen=True)
class Score:
    """Values that were expected, found, and both."""

    expected: int
    found: int
    right: int

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.expected if self.expected else 1.0


def total(scores: Sequence[Score]) -> Score:
    return Score(sum(s.expected for s in scores), sum(s.found for s in scores), sum(s.right for s in scores))


async def extracted(page: MadePage) -> Any:
    """Return what the rules take out of a page that is read as a scrape reads it."""
    format_: Json = {"type": "json", "schema": page.schema}
    plan = ScrapePlan(url=URL, formats=({"type": "markdown"}, {"type": "rawHtml"}, format_))
    fetched = FetchedPage(
        source_url=URL,
        url=URL,
        status=200,
        content_type="text/html",
        body=page.html.encode(),
        fetched_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    content = read_page(fetched, plan)
    return (await extract(Extractor(), fetched, content, format_, seconds=60)).data


def score(expected: Any, found: Any) -> Score:
    """Compare two results value by value. The members of lists are compared as sets, whatever their order."""
    wanted, got = Counter(leaves(expected)), Counter(leaves(found))
    return Score(wanted.total(), got.total(), (wanted & got).total())


def leaves(value: Any, path: str = "") -> Iterator[Leaf]:
    """Yield the values of a result, except nulls. What stands in a list of objects is told by its first value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for member in value:
            first = next(iter(leaves(member)), ("", ""))[1] if isinstance(member, dict) else ""
            yield from leaves(member, f"{path}[{first}]")
    elif value is not None:
        yield path, " ".join(value.split()).casefold() if isinstance(value, str) else value


async def measured(pages: Sequence[MadePage] = PAGES) -> dict[str, Score]:
    """Return the score of each page."""
    return {page.name: score(page.answer, await extracted(page)) for page in pages}


def told(name: str, pages: Sequence[MadePage]) -> str:
    """Return a line for each page, and one for all of them."""
    scores = asyncio.run(measured(pages))
    lines = [
        f"{name:32} {one.right:3} of {one.expected:3} expected, {one.found:3} found" for name, one in scores.items()
    ]
    every = total(list(scores.values()))
    rates = f"precision {every.precision:.1%}, recall {every.recall:.1%} of {every.expected} values"
    return "\n".join([*lines, f"{name}, {len(pages)} pages: {rates}"])


def main(arguments: Sequence[str]) -> None:
    """Print how many values of each made page the rules find. It takes a second."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs extraction", description=main.__doc__)
    parser.add_argument("--short", action="store_true", help="The same: it takes some seconds.")
    parser.parse_args(arguments)
    sys.stdout.write(f"{told('made pages', PAGES)}\n{told('pages made after the rules', UNSEEN)}\n")
