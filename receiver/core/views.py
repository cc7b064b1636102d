"""The rows of a store as JSON objects for users, the same on the command line and elsewhere.

Moments are ISO 8601 in UTC. Objects of a kind always have the same keys; None stands for an absent value.
"""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from receiver.core.clock import iso, local_time
from receiver.core.deliveries import (
    DeliveryDetail,
    DeliveryFilter,
    DeliverySummary,
    Quarantined,
    QuarantinedSummary,
)
from receiver.core.envelope import NotJson, load_json
from receiver.core.jobs import JobDetail, JobSummary, JobWork, warnings
from receiver.core.ports.reports import DeliveryReader
from receiver.core.recorded_actions import RecordedAction
from receiver.core.subjects import Subject, subject_of
from receiver.core.types import WorkState
from receiver.core.work import Attempt, HandlerReport, WorkDetail, WorkSummary
from receiver.core.work_states import LEASED, OPEN

View = dict[str, Any]

_ROWS_AT_ONCE = 100
_NOT_STARTED = tuple(state for state in OPEN if state not in LEASED)


# --- events


@dataclass(frozen=True, slots=True)
class EventRow:
    """A delivery in a listing of events, and what it is about."""

    summary: DeliverySummary
    subject: Subject


async def event_rows(reports: DeliveryReader, wanted: DeliveryFilter) -> AsyncIterator[EventRow]:
    """Yield the wanted events with what they are about, the newest first, in flat memory."""
    part: list[DeliverySummary] = []
    async for summary in reports.deliveries(wanted):
        part.append(summary)
        if len(part) == _ROWS_AT_ONCE:
            for row in await with_subjects(reports, part):
                yield row
            part = []
    for row in await with_subjects(reports, part):
        yield row


async def with_subjects(reports: DeliveryReader, summaries: Sequence[DeliverySummary]) -> Sequence[EventRow]:
    """Return a few deliveries with what they are about, in their order."""
    subjects = await reports.subjects([one.seq for one in summaries]) if summaries else {}
    return [EventRow(one, subjects.get(one.seq, Subject())) for one in summaries]


def event_summary(row: EventRow) -> View:
    """Return an event for a listing. `url` is that of its page; `subject` names the event for people."""
    summary = row.summary
    return {
        "id": summary.key,
        "type": summary.type,
        "job_id": summary.job_id,
        "webhook_id": summary.webhook_id,
        "success": summary.success,
        "received_at": iso(summary.received_at),
        "size": summary.size,
        "duplicates": summary.duplicates,
        "state": summary.state.value,
        "origin": summary.origin.value,
        "has_body": summary.has_body,
        "url": row.subject.url,
        "subject": row.subject.text,
    }


def event_detail(detail: DeliveryDetail) -> View:
    """Return an event with its headers, its work items, and some fields of its body.

    A field that the body lacks is None; without `data` the number of items is 0. `unreadable` says why the store
    could not read the body.
    """
    body = detail.body or b""
    content = _object_in(body)
    data = content.get("data")
    subject = subject_of(detail.summary.type, detail.summary.job_id, body)
    return event_summary(EventRow(detail.summary, subject)) | {
        "error": _strict_json(content.get("error")),
        "metadata": _strict_json(content.get("metadata")),
        "headers": _by_name(detail),
        "items": len(data) if isinstance(data, list) else int(data is not None),
        "unreadable": detail.unreadable or None,
        "work": [work_progress(work) for work in detail.work],
    }


def _object_in(body: bytes) -> dict[str, Any]:
    try:
        content = load_json(body)
    except NotJson:
        return {}
    return content if isinstance(content, dict) else {}


def _strict_json(value: Any) -> Any:
    """Return the value, or None if strict JSON cannot hold it: NaN, or very deep nesting."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return value


def _by_name(detail: DeliveryDetail) -> dict[str, str]:
    """Return headers by name. Values of a repeated header are joined, as RFC 9110, section 5.3, allows."""
    joined: dict[str, str] = {}
    for name, value in detail.headers:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


# --- work items


def work_summary(item: WorkSummary) -> View:
    """Return a work item for a listing."""
    of_event = {
        "id": item.id,
        "delivery_id": item.key,
        "type": item.type,
        "job_id": item.job_id,
        "received_at": iso(item.received_at),
    }
    return of_event | work_progress(item)


def work_progress(item: WorkSummary) -> View:
    """Return a work item without the fields of its event."""
    return {
        "id": item.id,
        "handler": item.handler,
        "state": item.state.value,
        "attempts": item.attempts,
        "lane": item.lane,
        "due_at": None if item.due_at is None else iso(item.due_at),
        "last_error": item.last_error,
        "note": item.note,
        "behind": item.behind
        and {
            "id": item.behind.id,
            "state": item.behind.state.value,
            "ended_at": item.behind.ended_at and iso(item.behind.ended_at),
        },
    }


def work_detail(detail: WorkDetail) -> View:
    """Return a work item with its attempts: `history` has those that have ended."""
    return work_summary(detail.summary) | {
        "holds_lane": detail.summary.holds_lane,
        "history": [_attempt(one) for one in detail.attempts],
    }


def explanation(item: WorkSummary) -> str | None:
    """Return the best explanation of its state: what it waits for, or its last error."""
    if (head := item.behind) is None:
        return item.note if item.state is WorkState.HELD else item.last_error
    since = f" since {local_time(head.ended_at)}" if head.state is WorkState.DEAD and head.ended_at else ""
    return f"waits for #{head.id}, {head.state.value}{since}"


def run_time(attempt: Attempt) -> timedelta | None:
    """Return how long an attempt ran; None if its start is unknown."""
    return None if attempt.started_at is None else max(timedelta(0), attempt.ended_at - attempt.started_at)


def _attempt(attempt: Attempt) -> View:
    ran_for = run_time(attempt)
    return {
        "number": attempt.number,
        "trigger": attempt.trigger.value,
        "started_at": None if attempt.started_at is None else iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
        "duration_seconds": None if ran_for is None else ran_for.total_seconds(),
        "outcome": attempt.outcome.value,
        "error": attempt.error,
        "overdue": attempt.overdue,
        "traceback": attempt.traceback,
    }


# --- jobs


def job_summary(job: JobSummary, now: datetime) -> View:
    """Return a job for a listing; `warnings` are codes."""
    return {
        "job_id": job.job_id,
        "family": job.family,
        "state": job.state.value,
        "started": job.started,
        "pages_succeeded": job.good,
        "pages_failed": job.failed,
        "pages_late": job.late,
        "deliveries": job.deliveries,
        "duplicates": job.duplicates,
        "backfilled": job.backfilled,
        "first_at": iso(job.first_at),
        "last_at": iso(job.last_at),
        "ended_by": job.end and job.end.type,
        "ended_at": job.end and iso(job.end.at),
        "end_success": job.end and job.end.success,
        "warnings": [one.code for one in warnings(job, now=now)],
    }


def job_detail(detail: JobDetail, now: datetime) -> View:
    """Return a job with its deliveries by type, its work by handler, and the sentences of its warnings."""
    return job_summary(detail.summary, now) | {
        "warnings": [{"code": one.code, "text": one.text} for one in warnings(detail.summary, now=now)],
        "arrivals": [
            {
                "type": one.type,
                "success": one.success,
                "count": one.count,
                "duplicates": one.duplicates,
                "backfilled": one.backfilled,
            }
            for one in detail.arrivals
        ],
        "new": detail.new,
        "work": [
            {"handler": one.handler, "status": one.switch.value, "counts": job_work_counts(one)}
            for one in detail.work
        ],
    }


def job_work_counts(work: JobWork) -> dict[str, int]:
    """Return how many work items are in each state; a state without any is absent."""
    return {state.value: work.counts[state] for state in WorkState if work.counts.get(state)}


# --- handlers


def handler_row(report: HandlerReport, *, registered: bool | None) -> View:
    """Return a handler for a listing, with a count for every state.

    `registered` says whether the code has it; None means that the code could not be imported.
    """
    return {
        "name": report.name,
        "status": report.switch.value,
        "registered": registered,
        "counts": {state.value: report.counts.get(state, 0) for state in WorkState},
        "last_error": report.last_error,
        "latency_seconds": None if report.latency is None else report.latency.total_seconds(),
        "schedule": report.schedule,
        "next_run": None if report.next_run is None else iso(report.next_run),
    }


def waiting_items(report: HandlerReport) -> int:
    """Return how many work items of a handler have not started."""
    return sum(report.counts.get(state, 0) for state in _NOT_STARTED)


# --- actions


def action_row(action: RecordedAction) -> View:
    """Return a recorded action for a listing."""
    what = action.what
    return {
        "id": action.id,
        "action": what.verb,
        "about": what.about,
        "by": what.actor,
        "choice": dict(what.choice),
        "planned": what.planned,
        "seen": action.seen,
        "changed": action.changed,
        "began_at": iso(action.began_at),
        "seen_at": iso(action.seen_at),
        "ended_at": None if action.ended_at is None else iso(action.ended_at),
        "error": action.error,
    }


# --- quarantine


def quarantined_summary(summary: QuarantinedSummary) -> View:
    """Return a request in quarantine for a listing; `delivery_id` is that of the delivery it contradicts."""
    return {
        "id": summary.id,
        "received_at": iso(summary.received_at),
        "reason": summary.reason,
        "detail": summary.detail,
        "delivery_id": summary.key,
        "size": summary.size,
    }


def quarantined_detail(request_id: int, request: Quarantined) -> View:
    """Return a request in quarantine with its headers, as pairs in their order."""
    summary = QuarantinedSummary(
        request_id, request.received_at, request.reason, request.detail, request.key, len(request.body)
    )
    return quarantined_summary(summary) | {"headers": [list(header) for header in request.headers]}
