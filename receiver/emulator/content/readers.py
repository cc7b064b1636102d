"""Reads pages beside the event loop: small ones in a thread, all others in processes that can be ended."""

import asyncio
import base64
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from types import TracebackType
from typing import Any, Self

from receiver.emulator.content.kinds import ContentKind, kind_of
from receiver.emulator.content.page import (
    PageContent,
    is_document,
    read_content,
    read_document_content,
    read_document_text,
)
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.scrapes import FetchedPage, ScrapePlan
from receiver.emulator.working.processes import SMALL, HeavyWork, WorkLost

_DOCUMENTS_AT_ONCE = 4
_ZIP = b"PK\x03\x04"
_TOO_MUCH = "The page could not be read: it needs too much time or memory."


class PageReaders:
    """Reads pages by `work`, and documents in processes of their own, some at a time.

    Its block ends its threads.
    """

    def __init__(self, work: HeavyWork) -> None:
        self._work = work
        # Threads of its own: they wait for documents that take long, and must not stop what else needs a thread.
        self._threads = ThreadPoolExecutor(_DOCUMENTS_AT_ONCE, thread_name_prefix="emulator-document")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def read(self, page: FetchedPage, plan: ScrapePlan) -> PageContent:
        """Return the content of a page. Raises ScrapeFailed, and nothing else, for a page that cannot be read."""
        kind = await _kind(page)
        try:
            if is_document(kind, plan):
                loop = asyncio.get_running_loop()
                document = await loop.run_in_executor(
                    self._threads, read_document_text, kind, page.body, page.content_type, plan
                )
                size = _size(len(document.html), plan)
                found = await self._work.run(_document, kind, page.url, plan, document, size=size)
                found["raw_base64"] = await asyncio.to_thread(_raw, page, plan)
            else:
                size = _size(len(page.body), plan) if kind is ContentKind.HTML else len(page.body)
                found = await self._work.run(_page, kind, page, plan, size=size)
        except WorkLost:
            raise ScrapeFailed("SCRAPE_ALL_ENGINES_FAILED", _TOO_MUCH) from None
        return _content(kind, found)


async def _kind(page: FetchedPage) -> ContentKind:
    if page.body.startswith(_ZIP):  # the list of its files may be long
        return await asyncio.to_thread(kind_of, page.body, page.content_type, page.url)
    return kind_of(page.body, page.content_type, page.url)


def _size(size: int, plan: ScrapePlan) -> int:
    """Return the bytes that count: a selector may look for hours through the smallest page."""
    has_selectors = bool(plan.include_tags or plan.exclude_tags or plan.format("attributes"))
    return max(size, SMALL + 1) if has_selectors else size


def _page(kind: ContentKind, page: FetchedPage, plan: ScrapePlan) -> dict[str, Any]:
    return _fields(read_content(kind, page.body, page.content_type, page.url, plan))


def _document(kind: ContentKind, url: str, plan: ScrapePlan, document: Any) -> dict[str, Any]:
    return _fields(read_document_content(kind, url, plan, document))


def _fields(content: PageContent) -> dict[str, Any]:
    return {one.name: getattr(content, one.name) for one in fields(content)}


def _raw(page: FetchedPage, plan: ScrapePlan) -> str:
    return "" if plan.format("rawBase64") is None else base64.b64encode(page.body).decode()


def _content(kind: ContentKind, found: dict[str, Any]) -> PageContent:
    tuples = {name: tuple(found[name]) for name in ("links", "images", "warnings")}
    return PageContent(**found | tuples | {"kind": kind})
