"""Single pages, and how busy the account is."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from receiver.events.documents.pages import Document
from receiver.requests.actions import WaitAction
from receiver.requests.scrape import ScrapeRequest
from receiver.service.client.calls import ServiceCall
from receiver.service.client.reading import whole
from receiver.service.responses.jobs import QueueStatus, ScrapeResponse

_MARGIN = timedelta(seconds=30)
"""How much longer than the request's time-out the service may take to answer."""


def scrape(target: str | ScrapeRequest) -> ServiceCall[Document]:
    """Scrape one page now, by its URL or a whole request (version 1), and return its document.

    A page that answered 404 is a document too: see `metadata.status_code`.
    """
    request = ScrapeRequest(url=target) if isinstance(target, str) else target
    waits = (action.milliseconds or 0 for action in request.actions or () if isinstance(action, WaitAction))
    allowed = timedelta(milliseconds=request.timeout + request.wait_for + sum(waits))
    return ServiceCall("POST", "/v1/scrape", _document, body=request.wire(), answered_within=allowed + _MARGIN)


def queue_status() -> ServiceCall[QueueStatus]:
    """Return how many jobs of the account run and wait."""
    return ServiceCall("GET", "/v2/team/queue-status", whole(QueueStatus), repeatable=True)


def _document(body: Mapping[str, Any]) -> Document:
    document = ScrapeResponse.read(body).data
    if document is None:
        raise ValueError("a scrape has a document in `data`")
    return document
