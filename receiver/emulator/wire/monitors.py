"""Monitors: from the bodies that make and change them to plans with every default."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from receiver.core.cron import Cron
from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.failures import CallRefused
from receiver.emulator.scrapes import ScrapePlan
from receiver.emulator.wire.bodies import DEFAULT_POLICY, RequestPolicy, custom_issue, read_body, refusal
from receiver.emulator.wire.jobs import CrawlBody, CrawlPlan, crawl_plan_of
from receiver.emulator.wire.scrape import PageOptionsBody, SenderFields, plan_of
from receiver.emulator.wire.urls import WebhookBody, WebUrl, target_of
from receiver.requests.base import Many
from receiver.requests.monitors import CrawlTarget, MonitorRequest, ScrapeTarget, SearchTarget
from receiver.requests.schedules import Schedule, cron_of
from receiver.requests.webhooks import Operation

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesTarget:
    """Pages that each check of a monitor scrapes. Targets have UUIDs."""

    id: str
    urls: tuple[str, ...]
    scrape: ScrapePlan
    """Without a URL. It has Markdown among its formats, and no cached page answers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteTarget:
    """A site that each check of a monitor crawls."""

    id: str
    crawl: CrawlPlan
    """Its `scrape` has Markdown among its formats, and no cached page answers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriesTarget:
    """Searches that each check of a monitor makes."""

    id: str
    queries: tuple[str, ...]
    search_window: str | None = None
    """`5m`, `15m`, `1h`, `6h`, `24h` or `7d`."""
    max_results: int = 10
    include_domains: tuple[str, ...] = ()
    """Only hits of these hosts count; empty for all."""
    exclude_domains: tuple[str, ...] = ()


PlannedTarget = PagesTarget | SiteTarget | QueriesTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorPlan:
    """A monitor: what it checks, when, and who is notified."""

    name: str
    cron: str
    """Five fields; a schedule in words was translated."""
    timezone: str = "UTC"
    """An IANA name."""
    targets: tuple[PlannedTarget, ...]
    webhook: WebhookTarget | None = None
    goal: str | None = None
    """The changes that matter, in plain words."""
    judge_enabled: bool = False
    """By default true if there is a goal."""
    retention_days: int = 30
    notification: Mapping[str, Any] = field(default_factory=dict)
    """Further recipients of news about checks. They are kept, and get nothing here."""
    status: Literal["active", "paused"] = "active"
    """Only a change can pause a monitor."""
    body: Json = field(default_factory=dict, repr=False)
    """The fields of its record as the answer shows them: name, schedule with cron and timezone, targets with ids,
    webhook, goal, judgeEnabled, retentionDays, notification, status. `read_monitor_changes` applies changes to it.
    """


_MARKDOWN = "markdown"


def _with_markdown(value: Any) -> Any:
    """Add the format by which pages are compared, as the service does."""
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
    """The body of POST /v2/monitor."""

    targets: Annotated[Many[TargetBody], Field(min_length=1, max_length=50)]
    webhook: WebhookBody | None = None
    goal: Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000)] | None = None


class ChangedMonitorBody(MonitorBody):
    """A monitor's own record with the changes of a PATCH."""

    status: Literal["active", "paused"] = "active"


_REMOVABLE = frozenset({"goal", "webhook", "notification"})
"""Keys that null removes, by the types of the service's JavaScript SDK."""
_RETENTION_DAYS, _MAX_RESULTS = 30, 10
_NOT_CRAWL_OPTIONS = frozenset({"url", "webhook", "scrapeOptions"})
"""Keys of a crawl that a monitor's target has elsewhere."""
_YEAR, _DAY = 366, timedelta(days=1)


def read_monitor(
    body: Json, *, new_id: Callable[[], str], now: datetime, policy: RequestPolicy = DEFAULT_POLICY
) -> MonitorPlan:
    """Return the plan of POST /v2/monitor. CallRefused is the service's 400, or 403.

    Targets without an id get a `new_id`. The schedule has a run within a year from `now`.
    """
    read = read_body(MonitorBody, body, policy)
    return _plan_of(read, body, new_id=new_id, now=now, policy=policy)


def read_monitor_changes(
    body: Json,
    current: Json,
    *,
    new_id: Callable[[], str],
    now: datetime,
    nulls: Collection[str] = (),
    policy: RequestPolicy = DEFAULT_POLICY,
) -> MonitorPlan:
    """Return the plan of a monitor after PATCH /v2/monitor/{id}; `current` is the `body` of its plan before.

    `nulls` are the keys that were null in the request: the monitor loses those that it need not have. Lists are
    replaced as a whole.
    """
    if not body and not nulls:
        raise CallRefused(400, "Update body cannot be empty", code="BAD_REQUEST")
    merged = {key: value for key, value in {**current, **body}.items() if value is not None}
    if "goal" in body and current.get("goal") is None and "judgeEnabled" not in body:
        merged.pop("judgeEnabled", None)  # its default follows the goal
    for key in _REMOVABLE.intersection(nulls):
        merged.pop(key, None)
    read = read_body(ChangedMonitorBody, merged, policy)
    return _plan_of(read, merged, new_id=new_id, now=now, policy=policy)


def _plan_of(
    read: MonitorBody, body: Json, *, new_id: Callable[[], str], now: datetime, policy: RequestPolicy
) -> MonitorPlan:
    cron = _cron_within_a_year(read.schedule, now)
    records = [{**raw, "id": raw.get("id") or new_id()} for raw in body["targets"]]
    goal = read.goal or None
    plan = MonitorPlan(
        name=read.name,
        cron=cron,
        timezone=read.schedule.timezone or "UTC",
        targets=tuple(_targets(read, records, policy)),
        webhook=target_of(read.webhook, Operation.MONITOR),
        goal=goal,
        judge_enabled=goal is not None if read.judge_enabled is None else read.judge_enabled,
        retention_days=read.retention_days or _RETENTION_DAYS,
        notification=body.get("notification", {}),
        status=read.status if isinstance(read, ChangedMonitorBody) else "active",
    )
    return replace(plan, body=_record_of(plan, read, records))


def _cron_within_a_year(schedule: Schedule, now: datetime) -> str:
    text = schedule.cron or cron_of(schedule.text or "")
    cron = Cron.parse(text)
    if not any(cron.runs_on((now + number * _DAY).date()) for number in range(_YEAR)):
        raise refusal([custom_issue("schedule: it has no run within a year", "schedule", "cron")])
    return " ".join(text.split())


def _targets(read: MonitorBody, records: list[Json], policy: RequestPolicy) -> Iterator[PlannedTarget]:
    for number, (target, record) in enumerate(zip(read.targets, records, strict=True)):
        identity, path = str(record["id"]), ("targets", number)
        match target:
            case ScrapeTargetBody():
                options = target.scrape_options or PageOptionsBody()
                scrape = plan_of(options, policy, path=(*path, "scrapeOptions"), origin=read.origin)
                yield PagesTarget(id=identity, urls=tuple(target.urls), scrape=_uncached(scrape))
            case CrawlTargetBody():
                crawl = _crawl_of(target, path, policy, read.origin)
                yield SiteTarget(id=identity, crawl=replace(crawl, scrape=_uncached(crawl.scrape)))
            case SearchTarget():
                yield QueriesTarget(
                    id=identity,
                    queries=tuple(target.queries),
                    search_window=target.search_window,
                    max_results=target.max_results or _MAX_RESULTS,
                    include_domains=tuple(target.include_domains or ()),
                    exclude_domains=tuple(target.exclude_domains or ()),
                )


def _crawl_of(
    target: CrawlTargetBody, path: tuple[str | int, ...], policy: RequestPolicy, origin: object
) -> CrawlPlan:
    options = dict(target.crawl_options or {})
    place = (*path, "crawlOptions")
    if strange := _NOT_CRAWL_OPTIONS & options.keys():
        keys = sorted(strange)
        issue = {"code": "unrecognized_keys", "keys": keys, "path": list(place), "message": "Unrecognized key"}
        raise refusal([issue])
    body = {**options, "url": target.url}
    read = read_body(CrawlBody, body, policy, path=place)
    read = read.model_copy(update={"scrape_options": target.scrape_options})
    return crawl_plan_of(read, body, policy, path=path, origin=origin)


def _uncached(plan: ScrapePlan) -> ScrapePlan:
    """Return the plan for fresh pages: a check compares the current page."""
    return replace(plan, max_age=0, min_age=None)


def _record_of(plan: MonitorPlan, read: MonitorBody, targets: list[Json]) -> Json:
    return {
        "name": plan.name,
        "status": plan.status,
        "schedule": {"cron": plan.cron, "timezone": plan.timezone},
        "targets": targets,
        "webhook": None if read.webhook is None else read.webhook.wire(),
        "notification": dict(plan.notification),
        "goal": plan.goal,
        "judgeEnabled": plan.judge_enabled,
        "retentionDays": plan.retention_days,
    }
