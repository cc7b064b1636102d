"""Single pages and files, maps and searches: answered at once, without a job. And how busy the account is."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, Unpack

from receiver.events.documents.pages import Document
from receiver.requests.map import MapRequest
from receiver.requests.pages import ContentRequest, FileOptions, PageRequest
from receiver.requests.parse import ParseRequest
from receiver.requests.scrape import ScrapeRequest, ScrapeRequestV2
from receiver.requests.search import SearchRequest
from receiver.service.client.building import made_of
from receiver.service.client.calls import ANSWERED_WITHIN, ServiceCall
from receiver.service.client.keywords import MapKeywords, ParseKeywords, ScrapeKeywords, SearchKeywords
from receiver.service.client.reading import UndocumentedPart, whole
from receiver.service.responses.jobs import QueueStatus, ScrapeResponse
from receiver.service.responses.searches import MapResponse, SearchResponse

_MARGIN = timedelta(seconds=30)
"""How much longer than the request's time-out the service may take to answer."""
_TIMEOUT = 30_000
_LONGER = {"json": 60_000, "deterministicJson": 60_000, "changeTracking": 60_000}
_LONGER_BY_PROXY = {"stealth": 120_000, "enhanced": 120_000, "auto": 120_000}
"""Milliseconds that the service takes instead of its default time-out of 30,000, by format and proxy (its public
behaviour). Version 2 chooses the proxy `auto` by itself."""
_UPLOAD = timedelta(seconds=1)
"""How long a mebibyte of a file may take on its way."""
_MEBIBYTE = 1024 * 1024


def scrape(
    target: str | ScrapeRequest | ScrapeRequestV2,
    *,
    version: Literal[1, 2] | None = None,
    **options: Unpack[ScrapeKeywords],
) -> ServiceCall[Document]:
    """Scrape one page now, by its URL and options or a whole request, and return its document.

    Options are the fields of ScrapeRequest for version 1, which is the default, or ScrapeRequestV2 for version 2. A
    page that answered 404 is a document too: see `metadata.status_code`.
    """
    request: ScrapeRequest | ScrapeRequestV2
    if isinstance(target, ScrapeRequestV2) or (version == 2 and isinstance(target, str)):
        request, used = made_of(ScrapeRequestV2, "url", target, options), 2
    else:
        request, used = made_of(ScrapeRequest, "url", target, options), 1
    if version not in (None, used):
        raise ValueError(f"version: a {type(request).__name__} is one of version {used}, not {version}")
    return ServiceCall(
        "POST", f"/v{used}/scrape", _document, body=request.wire(), answered_within=_time_for(request) + _MARGIN
    )


def parse(
    file: bytes | ParseRequest, filename: str | None = None, **options: Unpack[ParseKeywords]
) -> ServiceCall[Document]:
    """Read a file, by its bytes, name and options or a whole request, and return its document.

    Options are the fields of ParseRequest. The service goes by the extension of the name.
    """
    named: Mapping[str, Any] = {**options} if filename is None else {"filename": filename, **options}
    request = made_of(ParseRequest, "file", file, named)
    parts = {
        "file": (request.filename, request.file, request.content_type),
        "options": (None, json.dumps(request.wire())),
    }
    allowed = _time_for(request) + len(request.file) / _MEBIBYTE * _UPLOAD
    return ServiceCall("POST", "/v2/parse", _document, parts=parts, answered_within=allowed + _MARGIN)


def map(  # noqa: A001 - the service's own word
    target: str | MapRequest, **options: Unpack[MapKeywords]
) -> ServiceCall[MapResponse]:
    """Return the URLs of a site, by its URL and options or a whole request.

    Options are the fields of MapRequest.
    """
    request = made_of(MapRequest, "url", target, options)
    return ServiceCall(
        "POST", "/v2/map", whole(MapResponse, needs="links"), body=request.wire(), answered_within=_limit(request)
    )


def search(target: str | SearchRequest, **options: Unpack[SearchKeywords]) -> ServiceCall[SearchResponse]:
    """Search the web, by a query and options or a whole request. Options are the fields of SearchRequest.

    With `scrape_options` the service also scrapes each hit; see the hits' `document`.
    """
    request = made_of(SearchRequest, "query", target, options)
    scraped = timedelta(0) if request.scrape_options is None else _time_for(request.scrape_options)
    return ServiceCall(
        "POST",
        "/v2/search",
        _hits,
        body=request.wire(),
        answered_within=_limit(request) + scraped,
    )


def queue_status() -> ServiceCall[QueueStatus]:
    """Return how many jobs of the account run and wait."""
    return ServiceCall("GET", "/v2/team/queue-status", whole(QueueStatus, needs="jobs_in_queue"), repeatable=True)


def _limit(request: MapRequest | SearchRequest) -> timedelta:
    """Return how long a map or a search may take: the service's default for searches is 60 s."""
    asked = ANSWERED_WITHIN if request.timeout is None else timedelta(milliseconds=request.timeout)
    return asked + _MARGIN


def _time_for(request: ContentRequest) -> timedelta:
    """Return how long the service works on a page or a file at most."""
    limit = request.timeout or _TIMEOUT
    if limit == _TIMEOUT:
        limit = max(limit, *(_LONGER.get(name, 0) for name in _formats(request)), 0)
        if isinstance(request, PageRequest):
            limit = max(limit, _LONGER_BY_PROXY.get(request.proxy or "auto", 0))
    waits = request.waits_in_all if isinstance(request, PageRequest) else 0
    return timedelta(milliseconds=limit + waits)


def _formats(request: ContentRequest) -> tuple[str, ...]:
    match request:
        case FileOptions():
            return request.format_names
        case ScrapeRequest():
            return tuple(request.formats)
    return ()


def _hits(body: Mapping[str, Any]) -> SearchResponse:
    if not isinstance(body.get("data"), Mapping):
        raise UndocumentedPart("a search has its hits in `data`")
    return SearchResponse.read(body)


def _document(body: Mapping[str, Any]) -> Document:
    document = ScrapeResponse.read(body).data
    if document is None:
        raise UndocumentedPart("a scrape has a document in `data`")
    return document
