"""Monitors and their checks."""

from collections.abc import Mapping
from typing import Any, Literal, Unpack, get_args

from receiver.events.documents.monitors import MonitorCheck
from receiver.requests.monitors import MonitorChanges, MonitorRequest
from receiver.service.client.building import made_of
from receiver.service.client.calls import ServiceCall, limits, part
from receiver.service.client.keywords import MonitorChangeKeywords, MonitorKeywords
from receiver.service.client.reading import UndocumentedPart, data_of, items_of, nothing
from receiver.service.responses.monitors import Monitor

PageStatus = Literal["same", "new", "changed", "removed", "error"]
CheckStatus = Literal[
    "queued", "running", "completed", "partial", "failed", "skipped_overlap", "skipped_no_credits"
]


def monitor(monitor_id: str) -> ServiceCall[Monitor]:
    """Return one monitor."""
    return ServiceCall("GET", _path(monitor_id), data_of(Monitor), repeatable=True)


def monitors(*, limit: int | None = None, offset: int | None = None) -> ServiceCall[list[Monitor]]:
    """Return monitors, the newest first: 25 of them, or `limit` (1 to 100)."""
    query = limits(limit=(limit, 1, 100), offset=(offset, 0, None))
    return ServiceCall("GET", "/v2/monitor", items_of(Monitor, "data"), query=query, repeatable=True)


def create_monitor(request: str | MonitorRequest, **options: Unpack[MonitorKeywords]) -> ServiceCall[Monitor]:
    """Make a monitor, by its name and options or a whole request. Options are the fields of MonitorRequest."""
    made = made_of(MonitorRequest, "name", request, options)
    return ServiceCall("POST", "/v2/monitor", data_of(Monitor), body=made.wire())


def update_monitor(
    monitor_id: str, changes: MonitorChanges | None = None, **options: Unpack[MonitorChangeKeywords]
) -> ServiceCall[Monitor]:
    """Change a monitor, also to pause or resume it, by options or a whole request.

    Options are the fields of MonitorChanges. What is left out stays as it is.
    """
    made = made_of(MonitorChanges, "changes", changes, options)
    return ServiceCall("PATCH", _path(monitor_id), data_of(Monitor), body=made.wire())


def delete_monitor(monitor_id: str) -> ServiceCall[None]:
    """Delete a monitor."""
    return ServiceCall("DELETE", _path(monitor_id), nothing)


def run_monitor(monitor_id: str) -> ServiceCall[MonitorCheck]:
    """Run a monitor now and return its check, which is only queued at first.

    A paused or running monitor is a Conflict. For a running one, the error's `answer` has the `checkId`.
    """
    return ServiceCall("POST", f"{_path(monitor_id)}/run", _queued_check)


def checks(
    monitor_id: str, *, limit: int | None = None, offset: int | None = None, status: CheckStatus | None = None
) -> ServiceCall[list[MonitorCheck]]:
    """Return the checks of a monitor, without their pages: 25 of them, or `limit` (1 to 100)."""
    query = {**limits(limit=(limit, 1, 100), offset=(offset, 0, None)), **_status(status, CheckStatus)}
    return ServiceCall(
        "GET", f"{_path(monitor_id)}/checks", items_of(MonitorCheck, "data"), query=query, repeatable=True
    )


def check(
    monitor_id: str,
    check_id: str,
    *,
    limit: int | None = None,
    skip: int | None = None,
    status: PageStatus | None = None,
) -> ServiceCall[MonitorCheck]:
    """Return a check with one page of its results: 25, or `limit` (1 to 100), all with the given `status`."""
    return ServiceCall(
        "GET",
        f"{_path(monitor_id)}/checks/{part('check_id', check_id)}",
        _check,
        query={**limits(limit=(limit, 1, 100), skip=(skip, 0, None)), **_status(status, PageStatus)},
        repeatable=True,
        next=lambda found: found.next,
        items=lambda found: found.pages,
    )


def check_pages(
    monitor_id: str, check_id: str, *, limit: int | None = None, status: PageStatus | None = None
) -> ServiceCall[MonitorCheck]:
    """Yield all results of a check, 25 or `limit` at a time, all with the given `status`."""
    return check(monitor_id, check_id, limit=limit, status=status)


def _path(monitor_id: str) -> str:
    return f"/v2/monitor/{part('monitor_id', monitor_id)}"


def _status(status: str | None, allowed: Any) -> dict[str, str | int]:
    if status is None:
        return {}
    if status not in get_args(allowed):
        raise ValueError(f"status: one of {', '.join(get_args(allowed))}, not {status!r}")
    return {"status": status}


def _queued_check(body: Mapping[str, Any]) -> MonitorCheck:
    """Read a check that was just queued. Its id stands in the check, or beside it."""
    check, beside = data_of(MonitorCheck, needs=None)(body), body.get("id")
    if check.id is None and not isinstance(beside, str):
        raise UndocumentedPart("a check has an id")
    return check if check.id is not None else check.model_copy(update={"id": beside})


def _check(body: Mapping[str, Any]) -> MonitorCheck:
    """Read a check. The address of the next page is a field of the check, or stands beside it."""
    found = data_of(MonitorCheck)(body)
    beside = body.get("next")
    return found.model_copy(update={"next": beside}) if isinstance(beside, str) and not found.next else found
