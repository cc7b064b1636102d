"""Monitors to be made or changed: recurring checks of targets, and who is told."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, StrictBool, StrictInt, model_validator

from receiver.requests.base import Request, Tagged, WebAddress
from receiver.requests.options import Domains
from receiver.requests.pages import ScrapeOptions
from receiver.requests.schedules import Schedule
from receiver.requests.webhooks import MonitorWebhook


class ScrapeTarget(Tagged):
    """Pages that are scraped at each check."""

    type: Literal["scrape"] = "scrape"
    urls: Annotated[tuple[WebAddress, ...], Field(min_length=1)]
    id: str | None = None
    """Of a target that is there already."""
    scrape_options: ScrapeOptions | None = None


class CrawlTarget(Tagged):
    """A site that is crawled at each check."""

    type: Literal["crawl"] = "crawl"
    url: WebAddress
    id: str | None = None
    crawl_options: dict[str, JsonValue] | None = None
    """In wire names; the service does not document which of a crawl's fields it takes here."""
    scrape_options: ScrapeOptions | None = None


class SearchTarget(Tagged):
    """Searches whose new hits are judged by the monitor's goal."""

    type: Literal["search"] = "search"
    queries: Annotated[tuple[str, ...], Field(min_length=1, max_length=12)]
    id: str | None = None
    search_window: Literal["5m", "15m", "1h", "6h", "24h", "7d"] | None = None
    max_results: Annotated[StrictInt, Field(ge=1, le=50)] | None = None
    include_domains: Domains | None = None
    exclude_domains: Domains | None = None

    @model_validator(mode="after")
    def _one_list_of_domains(self) -> Self:
        if self.include_domains is not None and self.exclude_domains is not None:
            raise ValueError("give one of includeDomains and excludeDomains")
        return self


Target = Annotated[ScrapeTarget | CrawlTarget | SearchTarget, Field(discriminator="type")]


def _check_address(value: str) -> str:
    if not re.fullmatch(r"[^@\s]+@[^@\s]+", value):
        raise ValueError("an e-mail address is NAME@DOMAIN")
    return value


class EmailNotification(Request):
    """Mails about checks. Who is not in the team has to agree first."""

    enabled: StrictBool | None = None
    include_diffs: StrictBool | None = None
    recipients: (
        Annotated[tuple[Annotated[str, AfterValidator(_check_address)], ...], Field(max_length=25)] | None
    ) = None


class Notification(Request):
    """Who is told about checks, beside the webhook."""

    email: EmailNotification | None = None


class _MonitorFields(Request):
    """What can be said of a monitor when it is made and later."""

    webhook: MonitorWebhook | None = None
    notification: Notification | None = None
    goal: Annotated[str, Field(max_length=2000)] | None = None
    """What matters, in words: changes are judged by it."""
    judge_enabled: StrictBool | None = None
    retention_days: Annotated[StrictInt, Field(ge=1, le=365)] | None = None
    """30 unless it is given."""


Name = Annotated[str, Field(min_length=1, max_length=256)]
Targets = Annotated[tuple[Target, ...], Field(min_length=1, max_length=50)]


class MonitorRequest(_MonitorFields):
    """A monitor to be made."""

    name: Name
    schedule: Schedule
    targets: Targets

    @model_validator(mode="after")
    def _search_needs_a_goal(self) -> Self:
        searches = any(isinstance(target, SearchTarget) for target in self.targets)
        if searches and not self.goal and self.judge_enabled is not False:
            raise ValueError("goal: a search target needs one, unless judgeEnabled is false")
        return self


class MonitorChanges(_MonitorFields):
    """What shall be different about a monitor; the rest stays. At least one thing has to be."""

    name: Name | None = None
    status: Literal["active", "paused"] | None = None
    schedule: Schedule | None = None
    targets: Targets | None = None

    @model_validator(mode="after")
    def _something_changes(self) -> Self:
        if all(value is None for _, value in self):
            raise ValueError("give at least one field: the service refuses a change that changes nothing")
        return self
