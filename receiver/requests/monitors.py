"""Requests that make or change monitors: recurring checks of targets, and who hears of them."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, StrictInt, model_validator

from receiver.requests.base import Request, Tagged, WebAddress
from receiver.requests.fields import (
    EmailFields,
    MonitorFields,
    PagesTargetFields,
    SearchTargetFields,
    SiteTargetFields,
)
from receiver.requests.options import Domains
from receiver.requests.pages import ScrapeOptions
from receiver.requests.schedules import Schedule
from receiver.requests.webhooks import MonitorWebhook


class ScrapeTarget(Tagged, PagesTargetFields):
    """Pages that are scraped at each check."""

    type: Literal["scrape"] = "scrape"
    urls: Annotated[tuple[WebAddress, ...], Field(min_length=1)]
    scrape_options: ScrapeOptions | None = None


class CrawlTarget(Tagged, SiteTargetFields):
    """A site that is crawled at each check."""

    type: Literal["crawl"] = "crawl"
    url: WebAddress
    crawl_options: dict[str, JsonValue] | None = None
    scrape_options: ScrapeOptions | None = None


class SearchTarget(Tagged, SearchTargetFields):
    """Searches at each check. A judge compares new hits with the monitor's goal."""

    type: Literal["search"] = "search"
    queries: Annotated[tuple[str, ...], Field(min_length=1, max_length=12)]
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


class EmailNotification(Request, EmailFields):
    """Mails about checks."""

    recipients: (
        Annotated[tuple[Annotated[str, AfterValidator(_check_address)], ...], Field(max_length=25)] | None
    ) = None


class Notification(Request):
    """Who hears of checks, beside the webhook."""

    email: EmailNotification | None = None
    """Mails about checks."""


Name = Annotated[str, Field(min_length=1, max_length=256)]
Targets = Annotated[tuple[Target, ...], Field(min_length=1, max_length=50)]


class _MonitorOptions(Request, MonitorFields):
    """The fields of a monitor that both requests have."""

    webhook: MonitorWebhook | None = None
    notification: Notification | None = None
    goal: Annotated[str, Field(max_length=2000)] | None = None
    retention_days: Annotated[StrictInt, Field(ge=1, le=365)] | None = None


class MonitorRequest(_MonitorOptions):
    """A new monitor."""

    name: Name
    schedule: Schedule
    targets: Targets

    @model_validator(mode="after")
    def _search_needs_a_goal(self) -> Self:
        searches = any(isinstance(target, SearchTarget) for target in self.targets)
        if searches and not self.goal and self.judge_enabled is not False:
            raise ValueError("goal: a search target needs one, unless judgeEnabled is false")
        return self


class MonitorChanges(_MonitorOptions):
    """The fields of a monitor to change, at least one; the others stay as they are."""

    name: Name | None = None
    """A new name."""
    status: Literal["active", "paused"] | None = None
    """`paused` stops the checks, `active` resumes them."""
    schedule: Schedule | None = None
    targets: Targets | None = None

    @model_validator(mode="after")
    def _something_changes(self) -> Self:
        if all(value is None for _, value in self):
            raise ValueError("give at least one field: the service refuses a change that changes nothing")
        return self
