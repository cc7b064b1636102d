"""What crawls and batch scrapes have in common: their status, errors, and cancel."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import msgspec

from receiver.service.emulator.api.calls import Answer, ApiCall, CallRefused, Json
from receiver.service.emulator.jobs.engine import JobEngine
from receiver.service.emulator.jobs.records import (
    EmulatedJobState,
    JobEnded,
    JobKind,
    JobNotFound,
    JobRecord,
    PageError,
)
from receiver.service.emulator.jobs.results import MAX_DOCUMENTS, ResultsPage
from receiver.service.emulator.times import wire_time
from receiver.service.emulator.wire.plans import CrawlPlan

MAX_LIMIT = 1_000
"""The most documents that a call can ask for."""
_MAX_SKIP = 1 << 53
PATHS = {JobKind.CRAWL: "crawl", JobKind.BATCH: "batch/scrape"}
"""The path of each kind of job, below the version."""


class JobOperations:
    """The operations on jobs that were started. They find a job by its id, whatever its kind."""

    def __init__(self, engine: JobEngine) -> None:
        self._engine = engine

    async def status(self, call: ApiCall) -> Answer:
        """Return the job's status and one page of its results."""
        skip = _count(call, "skip", 0, 0, _MAX_SKIP)
        limit = _count(call, "limit", MAX_DOCUMENTS, 1, MAX_LIMIT)
        with translated_failures():
            job = await self._engine.get(job_id(call), call.team)
        page = await self._engine.documents(job, skip=skip, limit=limit)
        return Answer(status_body(job, page, base_url=call.base_url, version=call.version, skip=skip, limit=limit))

    async def cancel(self, call: ApiCall) -> Answer:
        """Cancel the job."""
        with translated_failures():
            await self._engine.cancel(job_id(call), call.team)
        return Answer({"success": True, "status": EmulatedJobState.CANCELLED})

    async def errors(self, call: ApiCall) -> Answer:
        """Return the pages that the job could not scrape."""
        with translated_failures():
            job = await self._engine.get(job_id(call), call.team)
        errors, blocked = await self._engine.errors(job)
        return Answer({"success": True, "errors": [_error(one) for one in errors], "robotsBlocked": blocked})


def job_id(call: ApiCall) -> str:
    """Return the id in the call's path. CallRefused with status 400 if it is no UUID."""
    text = call.path["id"]
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise CallRefused(400, "Invalid job ID format. Job ID must be a valid UUID.", code="BAD_REQUEST") from None


def start_body(job: JobRecord, call: ApiCall) -> Json:
    """Return the answer to the start of a job."""
    return {"success": True, "id": job.id, "url": f"{call.base_url}/v{call.version}/{PATHS[job.kind]}/{job.id}"}


def status_body(
    job: JobRecord, page: ResultsPage, *, base_url: str, version: int, skip: int = 0, limit: int = MAX_DOCUMENTS
) -> Json:
    """Return the status of a job with some of its documents."""
    body: Json = {
        "success": job.state is not EmulatedJobState.FAILED,
        "status": job.state,
        "completed": job.completed,
        "total": job.total,
        "creditsUsed": job.credits,
        "expiresAt": wire_time(job.expires_at),
        "createdAt": wire_time(job.created_at),
    }
    if job.error is not None:
        body["error"] = job.error
    if job.ended_at is not None:
        body["completedAt"] = wire_time(job.ended_at)
        body["duration"] = round((job.ended_at - job.created_at).total_seconds(), 3)
    position = max(skip, page.last)
    if job.ended_at is None or position < job.completed:
        body["next"] = f"{base_url}/v{version}/{PATHS[job.kind]}/{job.id}?skip={position}&limit={limit}"
    if (warning := _warning(job)) is not None:
        body["warning"] = warning
    return body | {"data": [msgspec.Raw(text) for text in page.texts]}


@contextmanager
def translated_failures() -> Iterator[None]:
    """Turn the failures of the jobs into the answers of the service."""
    try:
        yield
    except JobNotFound as exc:
        raise CallRefused(404, str(exc)) from None
    except JobEnded as exc:
        raise CallRefused(409, str(exc)) from None


def _warning(job: JobRecord) -> str | None:
    if job.blocked:
        return (
            f"robots.txt of the site forbids {job.blocked} of the URLs that were found. They were not scraped; the "
            "errors of this crawl list them under robotsBlocked"
        )
    if job.state is EmulatedJobState.COMPLETED and isinstance(job.plan, CrawlPlan) and job.completed <= 1:
        is_bare = urlsplit(job.plan.url).path in ("", "/")
        if not is_bare and not job.plan.crawl_entire_domain:
            return (
                "Only pages below the path of the URL were looked for, and there was at most one. To follow links "
                "to the whole site, set crawlEntireDomain to true or begin at a higher URL"
            )
    return None


def _error(one: PageError) -> Json:
    code = {"code": one.code} if one.code else {}
    return {"id": one.id, "timestamp": wire_time(one.at), "url": one.url, **code, "error": one.text}


def _count(call: ApiCall, name: str, default: int, least: int, most: int) -> int:
    text = call.query.get(name)
    if text is None:
        return default
    if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
        return int(text)
    issue = {"code": "custom", "path": [name], "message": f"{name} must be an integer from {least} to {most}"}
    raise CallRefused(400, "Bad Request", code="BAD_REQUEST", details=[issue])
