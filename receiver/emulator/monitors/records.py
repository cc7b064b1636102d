"""Monitors, checks and pages as the answers show them."""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from receiver.core.cron import next_run
from receiver.emulator.clock import wire_time
from receiver.emulator.monitors.table import MonitorRow

Json = dict[str, Any]

PAGE_STATUSES = ("same", "changed", "new", "removed", "error")
CHECK_STATUSES = ("queued", "running", "completed", "failed", "partial", "skipped_overlap", "skipped_no_credits")
NO_PAGES = {"totalPages": 0, **dict.fromkeys(PAGE_STATUSES, 0)}
"""The summary of a check without pages."""


def written(moment: datetime | None) -> str | None:
    """Return a moment as the service writes it."""
    return None if moment is None else wire_time(moment)


def monitor_record(row: MonitorRow, *, credits_per_month: int, subscriptions: bool = False) -> Json:
    """Return a monitor; with `subscriptions`, also what became of each recipient of mails."""
    record = {
        "id": row.id,
        **row.body,
        "status": row.status,
        "createdAt": written(row.created_at),
        "updatedAt": written(row.updated_at),
        "lastRunAt": written(row.last_run_at),
        "nextRunAt": written(row.next_run_at),
        "currentCheckId": row.current_check_id,
        "estimatedCreditsPerMonth": credits_per_month,
        "lastCheckSummary": row.last_summary,
    }
    if subscriptions and (recipients := _recipients(row.body)):
        record["emailRecipientSubscriptions"] = [
            # The service's SDK takes the sources team, opt_in and legacy, and raises for any other.
            {"email": email, "status": "pending", "source": "opt_in", "confirmationEmailSent": False}
            for email in recipients
        ]
    return record


def _recipients(body: Mapping[str, Any]) -> list[str]:
    email = (body.get("notification") or {}).get("email") or {}
    return list(email.get("recipients") or ())


def new_check(
    check_id: str,
    monitor_id: str,
    *,
    now: datetime,
    trigger: str,
    status: str = "queued",
    scheduled_for: datetime | None = None,
    estimated: int = 0,
) -> Json:
    """Return a check that has not begun. One with another status than `queued` never will."""
    is_over = status != "queued"
    return {
        "id": check_id,
        "monitorId": monitor_id,
        "status": status,
        "trigger": trigger,
        "scheduledFor": written(scheduled_for),
        "startedAt": None,
        "finishedAt": written(now) if is_over else None,
        "estimatedCredits": estimated,
        "reservedCredits": 0,
        "actualCredits": 0,
        "billingStatus": "not_applicable",
        "summary": dict(NO_PAGES),
        "targetResults": [],
        "notificationStatus": {},
        "error": None,
        "createdAt": written(now),
        "updatedAt": written(now),
    }


# FOLDED: The time between the runs of a monitor, and how much later than its minute each comes.
LONGEST_JITTER = timedelta(minutes=5)
"""How much later than its minute a run may come, if the emulator imitates the service in this."""


def interval_of(cron: str, timezone: str, after: datetime) -> timedelta | None:
    """Return the time between the next two runs; None if there are no two within a year."""
    first = next_run(cron, timezone, after)
    second = None if first is None else next_run(cron, timezone, first)
    return None if first is None or second is None else second - first


def jitter_of(monitor_id: str, interval: timedelta | None) -> timedelta:
    """Return how much later than its minute each run of a monitor comes, as the service spreads them."""
    number = int.from_bytes(hashlib.sha256(monitor_id.encode()).digest()[:4], "big")
    bound = min(LONGEST_JITTER, LONGEST_JITTER if interval is None else interval / 2)
    milliseconds = max(1, bound // timedelta(milliseconds=1))
    return timedelta(milliseconds=number % milliseconds)
