"""Bodies as the webhook would have sent them, made from the service's answers about a job.

A body has only the facts of the answer. The result of an extraction lacks the costs, which only the webhook names.
`metadata` is copied from another delivery of the job, or missing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from receiver.core.types import DeliveryKey
from receiver.service.samples import encode

Payload = dict[str, Any]
Answer = Mapping[str, Any]

_HEAD = ("success", "type", "id")
_CHECK_PAGE = ("url", "status", "previousScrapeId", "currentScrapeId", "error")
_EXTRACT_RESULT = ("warning", "sources")
_SEARCH_SENDS = ("new", "error")
"""The states of a search result for which an event is sent. Pages of other targets are always sent."""


def page(family: str, job_id: str, document: object) -> Payload:
    """Return the event of a page that was scraped."""
    return _event(f"{family}.page", job_id, [document])


def failed_page(family: str, job_id: str, failure: Answer) -> Payload:
    """Return the event of a page that failed in a crawl or a batch."""
    data = [{"metadata": {"sourceURL": failure.get("url")}}]
    return _event(f"{family}.page", job_id, data, success=False, error=failure.get("error"))


def job_end(family: str, job_id: str, status: str) -> Payload:
    """Return the last event of a crawl or a batch; a cancelled one ends as completed."""
    failed = status == "failed"
    return _event(f"{family}.{'failed' if failed else 'completed'}", job_id, [], success=not failed)


def extract_end(job_id: str, answer: Answer) -> Payload:
    """Return the last event of an extraction that completed or failed."""
    if answer["status"] == "failed":
        return _event("extract.failed", job_id, [], success=False, error=answer.get("error"))
    result = {"success": True, "data": answer.get("data"), "extractId": job_id, **_some(answer, _EXTRACT_RESULT)}
    return _event("extract.completed", job_id, [result])


def agent_end(job_id: str, answer: Answer) -> Payload:
    """Return the last event of an agent that completed, failed or was cancelled."""
    status = answer["status"]
    result = _some(answer, ("creditsUsed", "data") if status == "completed" else ("creditsUsed",))
    error = answer.get("error") if status == "failed" else None
    return _event(f"agent.{status}", job_id, [result], success=status == "completed", error=error)


def check_page(monitor_id: str, check_id: str, found: Answer) -> Payload | None:
    """Return the event of a page of a check; None if the service sends no event for it."""
    status, metadata = found.get("status"), found.get("metadata")
    searched = isinstance(metadata, Mapping) and "searchStatus" in metadata
    if status == "removed" or (searched and status not in _SEARCH_SENDS):
        return None
    judgment = found.get("judgment") if status == "changed" else None
    item = {
        "monitorId": monitor_id,
        "checkId": check_id,
        **{name: found.get(name) for name in _CHECK_PAGE},
        "isMeaningful": judgment.get("meaningful") if isinstance(judgment, Mapping) else None,
        "judgment": judgment,
        "diff": _sent_diff(found.get("diff")),
    }
    return _event("monitor.page", check_id, [item], success=status != "error", error=found.get("error"))


def check_end(monitor_id: str, check_id: str, check: Answer) -> Payload:
    """Return the event of a check that is over."""
    status = check.get("status")
    item = {"monitorId": monitor_id, "checkId": check_id, "status": status, "summary": check.get("summary") or {}}
    error = check.get("error") if status == "failed" else None
    return _event("monitor.check.completed", check_id, [item], success=status == "completed", error=error)


def body(payload: Payload, key: DeliveryKey, metadata: Mapping[str, Any] | None) -> bytes:
    """Return the bytes of an event with the id under which it is stored, and with the metadata of its job."""
    head = {name: payload[name] for name in _HEAD}
    return encode({**head, "webhookId": key, **payload, **({} if metadata is None else {"metadata": metadata})})


def _event(
    kind: str, job_id: str, data: Sequence[object], *, success: bool = True, error: object = None
) -> Payload:
    event: Payload = {"success": success, "type": kind, "id": job_id, "data": list(data)}
    return event if error is None else event | {"error": error}


def _some(answer: Answer, names: Sequence[str]) -> Payload:
    return {name: answer[name] for name in names if answer.get(name) is not None}


def _sent_diff(diff: object) -> object:
    """Return a diff without the tree of files, which webhooks do not have."""
    if isinstance(diff, Mapping) and isinstance(diff.get("json"), Mapping) and "files" in diff["json"]:
        return {name: value for name, value in diff.items() if name != "json"}
    return diff
