"""Crawls, batch scrapes, extractions and agents: start, follow, cancel.

Only the start of a crawl takes an idempotency key (service API, x-idempotency-key). The service answers its second
use with 409, not with the first answer.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from receiver.requests.jobs import AgentRequest, BatchScrapeRequest, CrawlRequest, ExtractRequest
from receiver.requests.webhooks import WebhookConfig
from receiver.service.client.building import made_of
from receiver.service.client.calls import ServiceCall, limits, part
from receiver.service.client.keywords import AgentKeywords, BatchScrapeKeywords, CrawlKeywords, ExtractKeywords
from receiver.service.client.reading import UndocumentedPart, items_of, nothing, whole
from receiver.service.responses.jobs import (
    ActiveCrawl,
    AgentStatus,
    ExtractStatus,
    JobErrors,
    JobStarted,
    JobStatus,
)

_KEYS = uuid.UUID("5b0f4a0e-6f0f-5d0a-9d2c-0a5be5a3b9c1")
T = TypeVar("T")


def crawl(
    target: str | CrawlRequest,
    *,
    webhook: WebhookConfig | str | None = None,
    idempotency_key: str | None = None,
    **options: Unpack[CrawlKeywords],
) -> ServiceCall[JobStarted]:
    """Start a crawl of a site, by its URL and options or a whole request, and return its id.

    Options are the fields of CrawlRequest.
    An idempotency key is any text. With it the crawl is started at most once: every further call is a Conflict,
    also when the answer to the first was lost. Handlers take `ctx.delivery.id`, which is the same in every attempt.
    """
    request = made_of(CrawlRequest, "url", target, options, webhook=webhook)
    return ServiceCall(
        "POST",
        "/v2/crawl",
        _started,
        body=request.wire(),
        repeatable=idempotency_key is not None,
        idempotency_key=None if idempotency_key is None else _as_uuid(idempotency_key),
    )


def crawl_status(job_id: str, *, skip: int | None = None, limit: int | None = None) -> ServiceCall[JobStatus]:
    """Return the status of a crawl with one page of its results: at most 100 documents, or `limit` (1 to 1000)."""
    return _status(f"/v2/crawl/{part('job_id', job_id)}", skip, limit)


def crawl_pages(job_id: str, *, limit: int | None = None) -> ServiceCall[JobStatus]:
    """Yield all that a crawl has found so far, in pages of at most 100 documents or `limit`."""
    return crawl_status(job_id, limit=limit)


def crawl_errors(job_id: str) -> ServiceCall[JobErrors]:
    """Return the pages that a crawl failed on."""
    return _get(f"/v2/crawl/{part('job_id', job_id)}/errors", _errors)


def cancel_crawl(job_id: str) -> ServiceCall[None]:
    """Cancel a crawl. A crawl that is over is a Conflict."""
    return ServiceCall("DELETE", f"/v2/crawl/{part('job_id', job_id)}", nothing)


def active_crawls() -> ServiceCall[list[ActiveCrawl]]:
    """Return the crawls that are under way."""
    return _get("/v2/crawl/active", items_of(ActiveCrawl, "crawls"))


def batch_scrape(
    target: Sequence[str] | BatchScrapeRequest,
    *,
    webhook: WebhookConfig | str | None = None,
    **options: Unpack[BatchScrapeKeywords],
) -> ServiceCall[JobStarted]:
    """Start a batch scrape, by its URLs and options or a whole request, and return its id.

    Options are the fields of BatchScrapeRequest.
    """
    request = made_of(BatchScrapeRequest, "urls", target, options, webhook=webhook)
    return ServiceCall("POST", "/v2/batch/scrape", _started, body=request.wire())


def batch_status(job_id: str, *, skip: int | None = None, limit: int | None = None) -> ServiceCall[JobStatus]:
    """Return the status of a batch with one page of its results: at most 100 documents, or `limit` (1 to 1000)."""
    return _status(f"/v2/batch/scrape/{part('job_id', job_id)}", skip, limit)


def batch_pages(job_id: str, *, limit: int | None = None) -> ServiceCall[JobStatus]:
    """Yield all that a batch has found so far, in pages of at most 100 documents or `limit`."""
    return batch_status(job_id, limit=limit)


def batch_errors(job_id: str) -> ServiceCall[JobErrors]:
    """Return the pages that a batch failed on."""
    return _get(f"/v2/batch/scrape/{part('job_id', job_id)}/errors", _errors)


def cancel_batch(job_id: str) -> ServiceCall[None]:
    """Cancel a batch scrape. A batch that is over is a Conflict."""
    return ServiceCall("DELETE", f"/v2/batch/scrape/{part('job_id', job_id)}", nothing)


def extract(
    request: Sequence[str] | ExtractRequest | None = None,
    *,
    webhook: WebhookConfig | str | None = None,
    **options: Unpack[ExtractKeywords],
) -> ServiceCall[JobStarted]:
    """Start an extraction, by its URLs and options or a whole request, and return its id.

    Options are the fields of ExtractRequest. A prompt needs no URLs.
    """
    made = made_of(ExtractRequest, "urls", request, options, webhook=webhook)
    return ServiceCall("POST", "/v2/extract", _started, body=made.wire())


def extract_status(job_id: str) -> ServiceCall[ExtractStatus]:
    """Return the status of an extraction with its result. If it failed, `status` and `error` say so."""
    return _get(f"/v2/extract/{part('job_id', job_id)}", whole(ExtractStatus, needs="status"), about_job=True)


def agent(
    target: str | AgentRequest, *, webhook: WebhookConfig | str | None = None, **options: Unpack[AgentKeywords]
) -> ServiceCall[JobStarted]:
    """Start an agent, by its prompt and options or a whole request, and return its id.

    Options are the fields of AgentRequest.
    """
    request = made_of(AgentRequest, "prompt", target, options, webhook=webhook)
    return ServiceCall("POST", "/v2/agent", _started, body=request.wire())


def agent_status(job_id: str) -> ServiceCall[AgentStatus]:
    """Return the status of an agent with its result. If it failed, `status` and `error` say so."""
    return _get(f"/v2/agent/{part('job_id', job_id)}", whole(AgentStatus, needs="status"), about_job=True)


def cancel_agent(job_id: str) -> ServiceCall[None]:
    """Cancel an agent."""
    return ServiceCall("DELETE", f"/v2/agent/{part('job_id', job_id)}", nothing)


def _get(path: str, read: Callable[[Mapping[str, Any]], T], *, about_job: bool = False) -> ServiceCall[T]:
    return ServiceCall("GET", path, read, repeatable=True, about_job=about_job)


def _status(path: str, skip: int | None, limit: int | None) -> ServiceCall[JobStatus]:
    return ServiceCall(
        "GET",
        path,
        whole(JobStatus, needs="status"),
        query=limits(skip=(skip, 0, None), limit=(limit, 1, 1000)),
        repeatable=True,
        about_job=True,
        next=lambda status: status.next,
        items=lambda status: status.data,
    )


def _started(body: Mapping[str, Any]) -> JobStarted:
    started = JobStarted.read(body)
    if not started.id:
        raise UndocumentedPart("a job that was started has an id")
    return started


def _errors(body: Mapping[str, Any]) -> JobErrors:
    """Read the failed pages, which stand at the top, or below `data` (the service's SDK reads both)."""
    inside = body.get("data")
    found = JobErrors.read(inside if isinstance(inside, Mapping) and "errors" not in body else body)
    if not (found.errors or found.robots_blocked or found.model_fields_set & {"errors", "robots_blocked"}):
        raise UndocumentedPart("a list of errors has `errors`")
    return found


def _as_uuid(key: str) -> str:
    """Return the key as a UUID: the service answers any other key as if it had been used before."""
    try:
        return str(uuid.UUID(key))
    except ValueError:
        return str(uuid.uuid5(_KEYS, key))
