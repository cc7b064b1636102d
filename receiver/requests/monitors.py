"""Requests that make or change monitors: recurring checks of targets, and who hears of them."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, StrictInt, model_validator

from receiver.requests.base import Many, Request, Tagged, Uuid, WebAddress
from receiver.requests.fields import (
    EmailFields,
    MonitorFields,
    PagesTargetFields,
    SearchTargetFields,
    SiteTargetFields,
)
from receiver.requests.options import HostNames
from receiver.requests.pages import ScrapeOptions
from receiver.requests.schedules import Schedule
from receiver.requests.webhooks import MonitorWebhook

Query = Annotated[str, Field(min_length=1, max_length=256)]


class ScrapeTarget(Tagged, PagesTargetFields):
    """Pages that are scraped at each check."""

    type: Literal["scrape"] = "scrape"
    id: Uuid | None = None
    urls: Annotated[Many[WebAddress], Field(min_length=1)]
    scrape_options: ScrapeOptions | None = None


class CrawlTarget(Tagged, SiteTargetFields):
    """A site that is crawled at each check."""

    type: Literal["crawl"] = "crawl"
    id: Uuid | None = None
    url: WebAddress
    crawl_options: dict[str, JsonValue] | None = None
    scrape_options: ScrapeOptions | None = None


class SearchTarget(Tagged, SearchTargetFields):
    """Searches at each check. A judge compares new hits with the monitor's goal."""

    type: Literal["search"] = "search"
    id: Uuid | None = None
    queries: Annotated[
        Many[Annotated[str, Field(min_length=1, max_length=256)]], Field(min_length=1, max_length=12)
    ]
    search_window: Literal["5m", "15m", "1h", "6h", "24h", "7d"] | None = None
    max_results: Annotated[StrictInt, Field(ge=1, le=50)] | None = None
    include_domains: Annotated[HostNames, Field(max_length=50)] | None = None
    exclude_domains: Annotated[HostNames, Field(max_length=50)] | None = None

    @model_validator(mode="after")
    def _one_list_of_domains(self) -> Self:
        if self.include_domains and self.exclude_domains:
            raise ValueError("give one of includeDomains and excludeDomains")
        return self


Target = Annotated[ScrapeTarget | CrawlTarget | SearchTarget, Field(discriminator="type")]


def _check_address(value: str) -> str:
    if value.split() != [value] or [bool(part) for part in value.split("@")] != [True, True]:
        raise ValueError("an e-mail address is NAME@DOMAIN")
    return value


class EmailNotification(Request, EmailFields):
    """Mails about checks."""

    recipients: Annotated[Many[Annotated[str, AfterValidator(_check_address)]], Field(max_length=25)] | None = None


class Notification(Request):
    """Who hears of checks, beside the webhook."""

    email: EmailNotification | None = None
    """Mails about checks."""


Name = Annotated[str, Field(min_length=1, max_length=256)]
Targets = Annotated[Many[Target], Field(min_length=1, max_length=50)]


class _MonitorOptions(Request, MonitorFields):
    """The fields of a monitor that both requests have."""

    webhook: MonitorWebhook | None = None
    notification: Notification | None = None
    goal: Annotated[str, Field(max_length=2000)] | None = None
    retention_days: Annotated[StrictInt, Field(ge=1, le=365)] | None = None


def _require_goal(targets: Sequence[Target], goal: str | None, judge_enabled: bool | None) -> None:
    searches = any(isinstance(target, SearchTarget) for target in targets)
    if searches and not (goal or "").strip() and judge_enabled is not False:
        raise ValueError("goal: a search target needs one, unless judgeEnabled is false")


class MonitorRequest(_MonitorOptions):
    """A new monitor."""

    name: Name
    schedule: Schedule
    targets: Targets

    @model_validator(mode="after")
    def _search_needs_a_goal(self) -> Self:
        _require_goal(self.targets, self.goal, self.judge_enabled)
        return self


_CLEARABLE = ("goal", "webhook", "notification")
"""The fields that are null in a monitor without them (service documentation, monitor record)."""


class MonitorChanges(_MonitorOptions):
    """The fields of a monitor to change, at least one; the others stay as they are.

    A `goal`, `webhook` or `notification` that is None is sent as null, which removes it. By its public behaviour of
    August 2026 the service takes null only for `goal`; for the others it answers BadRequest. A list replaces the
    whole list, also an empty one.
    """

    name: Name | None = None
    """A new name."""
    status: Literal["active", "paused"] | None = None
    """`paused` stops the checks, `active` resumes them."""
    schedule: Schedule | None = None
    targets: Targets | None = None

    def wire(self) -> dict[str, Any]:
        """Return the JSON object to send: what was set, and null for what is to be removed."""
        return {**super().wire(), **dict.fromkeys(self._cleared)}

    @property
    def _cleared(self) -> list[str]:
        return [name for name in _CLEARABLE if name in self.model_fields_set and getattr(self, name) is None]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.wire():
            raise ValueError("give at least one field: the service refuses a change that changes nothing")
        if "goal" in self.model_fields_set:
            _require_goal(self.targets or (), self.goal, self.judge_enabled)
        return self
