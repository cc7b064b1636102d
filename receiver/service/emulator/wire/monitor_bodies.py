"""The bodies that make and change monitors: the lenient face of the requests."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from receiver.requests.base import Many
from receiver.requests.monitors import CrawlTarget, MonitorRequest, ScrapeTarget, SearchTarget
from receiver.service.emulator.wire.scrape_bodies import PageOptionsBody, SenderFields
from receiver.service.emulator.wire.urls import WebUrl
from receiver.service.emulator.wire.webhooks import WebhookBody

_MARKDOWN = "markdown"


def _with_markdown(value: Any) -> Any:
    """Add the format that pages are compared by, as the service does."""
    if not isinstance(value, dict) or not isinstance(value.get("formats"), list):
        return value
    formats = value["formats"]
    names = [one.get("type") if isinstance(one, dict) else one for one in formats]
    return value if _MARKDOWN in names else {**value, "formats": [*formats, _MARKDOWN]}


_PageOptions = Annotated[PageOptionsBody | None, BeforeValidator(_with_markdown)]


class ScrapeTargetBody(ScrapeTarget):
    """Pages that are scraped at each check."""

    urls: Annotated[Many[WebUrl], Field(min_length=1)]
    scrape_options: _PageOptions = None


class CrawlTargetBody(CrawlTarget):
    """A site that is crawled at each check."""

    url: WebUrl
    scrape_options: _PageOptions = None


TargetBody = Annotated[ScrapeTargetBody | CrawlTargetBody | SearchTarget, Field(discriminator="type")]


class MonitorBody(MonitorRequest, SenderFields):
    """The body of POST /v2/monitor, and a monitor's own record with the body of a PATCH laid over it."""

    targets: Annotated[Many[TargetBody], Field(min_length=1, max_length=50)]
    webhook: WebhookBody | None = None
    goal: Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000)] | None = None


class ChangedMonitorBody(MonitorBody):
    """A monitor's own record with the body of a PATCH laid over it."""

    status: Literal["active", "paused"] = "active"
    """Whether checks run."""
