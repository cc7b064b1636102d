"""What a check is expected to cost, and a month of checks."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from receiver.emulator.monitors.records import interval_of
from receiver.emulator.scrapes import ScrapePlan
from receiver.emulator.scraping.document import credits_of
from receiver.emulator.wire.monitors import MonitorPlan, PagesTarget, PlannedTarget, SiteTarget
from receiver.requests.prices import SEARCH

_MONTH = timedelta(days=30)
JUDGED = 1
"""Credits for judging a page."""


def credits_of_check(plan: MonitorPlan) -> int:
    """Return the most that a check costs if every page changes: a site counts with its limit."""
    return sum(_credits_of_target(target, judged=plan.judge_enabled) for target in plan.targets)


def credits_per_month(plan: MonitorPlan, now: datetime) -> int:
    """Return what the checks of 30 days cost at most, by the time between the next two; at least one counts."""
    interval = interval_of(plan.cron, plan.timezone, now)
    return credits_of_check(plan) * (-(-_MONTH // interval) if interval else 1)


def _credits_of_target(target: PlannedTarget, *, judged: bool) -> int:
    match target:
        case PagesTarget():
            return len(target.urls) * (credits_of(scrape_plan(target.scrape)) + JUDGED * judged)
        case SiteTarget():
            return target.crawl.limit * (credits_of(scrape_plan(target.crawl.scrape)) + JUDGED * judged)
        case _:
            hits = len(target.queries) * target.max_results
            return SEARCH * -(-hits // 10) + JUDGED * judged * hits


def comparison_mode(plan: ScrapePlan) -> str:
    """Return what a target compares: `markdown`, extracted values (`json`), or both (`mixed`)."""
    modes: Any = (plan.format("changeTracking") or {}).get("modes", ())
    if "json" not in modes:
        return "markdown"
    return "mixed" if "git-diff" in modes else "json"


def scrape_plan(plan: ScrapePlan) -> ScrapePlan:
    """Return how a check scrapes: the check compares by itself, so it asks for values in place of a comparison."""
    tracking = plan.format("changeTracking")
    formats = [one for one in plan.formats if one["type"] != "changeTracking"]
    if plan.format("markdown") is None:
        formats.insert(0, {"type": "markdown"})
    if tracking is not None and "json" in tracking.get("modes", ()) and plan.format("json") is None:
        asked = {key: tracking[key] for key in ("schema", "prompt") if tracking.get(key) is not None}
        formats.append({"type": "json", **(asked or {"prompt": "Extract the title and the main values."})})
    return replace(plan, formats=tuple(formats))
