"""The operations of one scrape: POST /v1/scrape, POST /v2/scrape, and GET /v2/scrape/{id}."""

import uuid
from collections.abc import Callable
from typing import Literal

import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from receiver.emulator.api.calls import Answer, ApiCall, ApiOperation
from receiver.emulator.api.dispatch import OPEN_TO_BROWSERS, refusal_body, reply
from receiver.emulator.browser.media import PREFIX, MediaStore
from receiver.emulator.contracts import Account
from receiver.emulator.failures import CallRefused, ScrapeFailed, TooManyAtOnce
from receiver.emulator.scrapes import Json, ScrapePlan, Scraper
from receiver.emulator.scraping.cache import KeptScrapes, ScrapeExpired

ReadScrape = Callable[[Json, Literal[1, 2]], ScrapePlan]
"""Reads the body of a scrape of a version. It raises CallRefused."""

_NO_TOOLS = "The emulator has no tools of Alexandria. A scrape of the page that a tool is for has its content"
"""What `scrape_alexandria` and `find_tools` of the service's SDK are told."""


class ScrapeOperations:
    """Scrapes one page for a call, charges for it, and keeps the document for a day."""

    def __init__(self, *, scraper: Scraper, read: ReadScrape, account: Account, kept: KeptScrapes) -> None:
        self._scraper = scraper
        self._read = read
        self._account = account
        self._kept = kept

    def operations(self) -> list[ApiOperation]:
        """Return the operations."""
        return [
            ApiOperation("POST", "/v1/scrape", self.scrape, "scrape"),
            ApiOperation("POST", "/v2/scrape", self.scrape, "scrape"),
            ApiOperation("GET", "/v2/scrape/{id}", self.find, "crawlStatus"),
        ]

    async def scrape(self, call: ApiCall) -> Answer:
        """Scrape the page of a call. A page that cannot be scraped is an answer too, with its code."""
        if call.version == 2 and "alexandria" in call.body:
            raise CallRefused(501, _NO_TOOLS, code="NOT_IMPLEMENTED")
        plan = self._read(call.body, call.version)
        try:
            page = await self._scraper.scrape(plan, history_team=call.team)
        except TooManyAtOnce:
            raise
        except ScrapeFailed as exc:
            if exc.credits:
                await self._account.charge(call.team, exc.credits)
            return Answer({"success": False, "code": exc.code, "error": str(exc)}, exc.status)
        await self._account.charge(call.team, page.credits)
        if not plan.zero_data_retention:
            await self._kept.put(call.team, page)
        body: Json = {"success": True, "data": page.document}
        if page.warning is not None and call.version == 2:
            body["warning"] = page.warning
        return Answer(body)

    async def find(self, call: ApiCall) -> Answer:
        """Answer with the document of an earlier scrape."""
        scrape_id = call.path.get("id", "")
        try:
            document = await self._kept.find(call.team, str(uuid.UUID(scrape_id)))
        except ScrapeExpired:
            raise CallRefused(404, "Job expired") from None
        except ValueError:
            raise CallRefused(400, "Invalid job ID") from None
        if document is None:
            raise CallRefused(404, "Job not found")
        return Answer({"success": True, "data": msgspec.Raw(document)})


# FOLDED: Pictures and PDFs over HTTP.
_SAFE = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox; default-src 'none'"}
"""Nothing of a page runs with the rights of the emulator's origin."""


class MediaEndpoint:
    """An ASGI app for the files that a browser made. It needs no key: their names are secrets."""

    def __init__(self, store: MediaStore) -> None:
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a file: 404 if there is none, or its time is over."""
        response = await self._respond(HttpRequest(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: HttpRequest) -> Response:
        if request.method not in ("GET", "HEAD"):
            return await reply(refusal_body(CallRefused(405, "Files are only read")), 405, {"Allow": "GET, HEAD"})
        file = await self._store.find(str(request.scope["path"]).removeprefix(f"{PREFIX}/"))
        if file is None:
            return await reply(
                refusal_body(CallRefused(404, "There is no such file, or its 24 hours are over")), 404
            )
        return Response(file.data, headers=_SAFE | OPEN_TO_BROWSERS, media_type=file.content_type)
