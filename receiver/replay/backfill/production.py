"""The events that a job produced, as the service reports them now. Importing this loads httpx."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from receiver.errors import NotComparable, NotOver
from receiver.replay.backfill import payloads
from receiver.replay.backfill.payloads import Answer, Payload
from receiver.service.client import AsyncClient, jobs, monitors
from receiver.service.client.calls import ServiceCall

_OVER = frozenset({"completed", "failed", "cancelled"})
_CHECK_OVER = ("completed", "partial", "failed")
_NEVER_SENT = ("skipped_overlap", "skipped_no_credits")


@dataclass(frozen=True, slots=True)
class Asked:
    """A job to ask the service about. For a check of a monitor `job_id` is the check's id.

    `at_once` is how many pages one answer may have (1 to 100); None lets the service decide.
    """

    job_id: str
    family: str
    monitor_id: str | None = None
    at_once: int | None = None


def produced(client: AsyncClient, job: Asked) -> AsyncIterator[Payload]:
    """Yield the events that the service has or should have sent about a job: its pages, then its end.

    Other events, such as `crawl.started` and `agent.action`, cannot be made, because the service does not keep
    their content. The same is true for URLs that robots.txt forbids. Raises NotOver for a job that still runs,
    NotComparable for a job that cannot be asked about, and ServiceError. An unknown status counts as running.
    """
    match job.family:
        case "crawl":
            return _with_pages(client, job, jobs.crawl_pages(job.job_id, limit=job.at_once), jobs.crawl_errors)
        case "batch_scrape":
            return _with_pages(client, job, jobs.batch_pages(job.job_id, limit=job.at_once), jobs.batch_errors)
        case "extract":
            return _only_end(client, job, jobs.extract_status(job.job_id), payloads.extract_end)
        case "agent":
            return _only_end(client, job, jobs.agent_status(job.job_id), payloads.agent_end)
        case "monitor":
            return _check(client, job)
    raise NotComparable(f"the service has no results of the family {job.family!r} to compare with")


async def _with_pages(
    client: AsyncClient, job: Asked, first: ServiceCall[Any], failures: Callable[[str], ServiceCall[Any]]
) -> AsyncIterator[Payload]:
    status = ""
    async for answer in client.pages(_as_it_came(first)):
        status = _ended(answer)
        for document in _results(answer):
            yield payloads.page(job.family, job.job_id, document)
    for failure in _failures(await client.send(_as_it_came(failures(job.job_id)))):
        yield payloads.failed_page(job.family, job.job_id, _object(failure))
    yield payloads.job_end(job.family, job.job_id, status)


async def _only_end(
    client: AsyncClient, job: Asked, call: ServiceCall[Any], end: Callable[[str, Answer], Payload]
) -> AsyncIterator[Payload]:
    answer = await client.send(_as_it_came(call))
    if _ended(answer) == "cancelled" and job.family == "extract":
        raise NotComparable("it was cancelled, of which the service sends no event")
    yield end(job.job_id, answer)


async def _check(client: AsyncClient, job: Asked) -> AsyncIterator[Payload]:
    if job.monitor_id is None:
        raise NotComparable("none of its deliveries names its monitor, without which a check cannot be asked for")
    check: Answer = {}
    first = monitors.check_pages(job.monitor_id, job.job_id, limit=job.at_once or 100)
    async for answer in client.pages(_as_it_came(first)):
        check = check or answer["data"]
        status = check.get("status")
        if status in _NEVER_SENT:
            raise NotComparable("it was skipped, of which the service sends no event")
        if status not in _CHECK_OVER:
            raise NotOver(status)
        for found in _results(answer):
            if (sent := payloads.check_page(job.monitor_id, job.job_id, _object(found))) is not None:
                yield sent
    yield payloads.check_end(job.monitor_id, job.job_id, check)


def _as_it_came(call: ServiceCall[Any]) -> ServiceCall[Answer]:
    """Return the call without our models: a body is made from all fields, known or not.

    An answer that our models refuse is refused here too.
    """

    def read(answer: Answer) -> Answer:
        call.read(answer)
        return answer

    return replace(call, read=read, next=call.next and _next, items=call.items and _results)


def _ended(answer: Answer) -> str:
    status = answer.get("status")
    if not isinstance(status, str) or status not in _OVER:
        raise NotOver(status)
    return status


def _next(answer: Answer) -> str | None:
    address = _object(answer.get("data")).get("next") or answer.get("next")
    return address if isinstance(address, str) else None


def _results(answer: Answer) -> list[object]:
    """Return the documents of a job, or the pages of a check. What is no object is counted as unclear later."""
    data = answer.get("data")
    return _list(data.get("pages") if isinstance(data, Mapping) else data)


def _failures(answer: Answer) -> list[object]:
    """Return the failed pages, which stand at the top, or below `data`."""
    return _list(answer.get("errors", _object(answer.get("data")).get("errors")))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _object(value: object) -> Answer:
    return value if isinstance(value, Mapping) else {}
