"""Monitors, checks and pages as the answers show them."""

from datetime import datetime
from typing import Any

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
    email = (row.body.get("notification") or {}).get("email") or {}
    if subscriptions and (recipients := list(email.get("recipients") or ())):
        record["emailRecipientSubscriptions"] = [
            # The service's SDK takes the sources team, opt_in and legacy, and raises for any other.
            {"email": one, "status": "pending", "source": "opt_in", "confirmationEmailSent": False}
            for one in recipients
        ]
    return record


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
