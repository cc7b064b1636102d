"""Short ways to read a made page."""

from datetime import UTC, datetime
from typing import Any

from receiver.emulator.content.kinds import kind_of
from receiver.emulator.content.page import PageContent, read_content
from receiver.emulator.scrapes import FetchedPage, ScrapePlan

URL = "https://docs.acme.test/guide/start"


def plan(*formats: str, **options: Any) -> ScrapePlan:
    """Return a plan for some formats; Markdown without any."""
    wanted = tuple({"type": name} for name in formats or ("markdown",))
    return ScrapePlan(**{"url": URL, "formats": wanted, **options})


def read_page(page: FetchedPage, plan: ScrapePlan) -> PageContent:
    """Return the content of a page, read in this thread."""
    kind = kind_of(page.body, page.content_type, page.url)
    return read_content(kind, page.body, page.content_type, page.url, plan)


def read_file(body: bytes, filename: str, content_type: str, wanted: ScrapePlan) -> PageContent:
    """Return the content of an uploaded file; its name counts before its type."""
    return read_content(kind_of(body, content_type, filename, name_first=True), body, content_type, "", wanted)


def read(
    body: str | bytes, *formats: str, content_type: str = "text/html", url: str = URL, **options: Any
) -> PageContent:
    """Return the content of a page with this body."""
    fetched = FetchedPage(
        source_url=url,
        url=url,
        status=200,
        content_type=content_type,
        body=body.encode() if isinstance(body, str) else body,
        fetched_at=datetime(2026, 8, 21, tzinfo=UTC),
    )
    return read_page(fetched, plan(*formats, **options))


def markdown(body: str, **options: Any) -> str:
    """Return the Markdown of the whole of a page."""
    return read(body, only_main_content=options.pop("only_main_content", False), **options).markdown
