"""The identity of an event: equal for a page from a webhook and the same page from a job's status.

A status answer does not contain the `webhookId` of a page. The identity uses what both contain: `metadata.scrapeId`
of a scraped page, else its `sourceURL`; the URL of a failed page and of a monitor's page; the job for the end of a
job.
"""

import hashlib

from receiver.core.jobs import family_of
from receiver.core.types import DeliveryKey
from receiver.events import Event, MonitorPage, TerminalEvent
from receiver.events.pages import PageEvent

PREFIX = "backfill:"


def subject_key(event: Event) -> DeliveryKey | None:
    """Return the key of a delivery that backfill makes for this event.

    None for events that cannot be told apart, such as `agent.action`, and for pages without any id and URL.
    """
    subject = _subject(event)
    if event.job_id is None or subject is None:
        return None
    written = "\n".join((family_of(event.type), event.job_id, *subject)).encode("utf-8", "backslashreplace")
    return DeliveryKey(PREFIX + hashlib.sha256(written).hexdigest())


def _subject(event: Event) -> tuple[str, ...] | None:
    match event:
        case PageEvent():
            return _page(event)
        case MonitorPage():
            # A check sends at most one error and one other event about a URL.
            kind = "failed" if event.page.status == "error" else "url"
            return (kind, event.page.url) if event.page.url else None
        case TerminalEvent():
            return ("end",)
    return None


def _page(event: PageEvent) -> tuple[str, ...] | None:
    scrape_id = event.page.metadata.scrape_id if event.page else None
    if event.success is not False and scrape_id:
        return "scrape", scrape_id
    if event.url is None:
        return None
    return "failed" if event.success is False else "url", event.url
