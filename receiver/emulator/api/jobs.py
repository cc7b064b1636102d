"""What crawls and batch scrapes have in common: their status, errors, and cancel."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import msgspec

from receiver.emulator.api.calls import Answer, ApiCall, ApiOperation, CallRefused, Json
from receiver.emulator.clock import wire_time
from receiver.emulator.jobs.crawls import CrawlEngine
from receiver.emulator.jobs.prompts import options_of_prompt
from receiver.emulator.jobs.records import EmulatedJobState, JobEnded, JobKind, JobNotFound, JobRecord, PageError
from receiver.emulator.jobs.table import MAX_DOCUMENTS, ResultsPage
from receiver.emulator.wire.bodies import RequestPolicy, custom_issue, refusal
from receiver.emulator.wire.jobs import CrawlPlan, read_batch, read_crawl

MAX_LIMIT = 1_000
"""The most documents that a call can ask for."""
_MAX_SKIP = 1 << 53
PATHS = {JobKind.CRAWL: "crawl", JobKind.BATCH: "batch/scrape"}
"""The path of each kind of job, below the version."""


class JobOperations:
    """The operations on jobs that were started. They find a job by its id, whatever its kind."""

    def __init__(self, engine: CrawlEngine) -> None:
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


# FOLDED: The operations on batch scrapes, in both versions.
class BatchOperations:
    """Starts batch scrapes, and lets them grow."""

    def __init__(self, engine: CrawlEngine, policy: RequestPolicy) -> None:
        self._engine = engine
        self._policy = policy

    async def start(self, call: ApiCall) -> Answer:
        """Start a batch scrape, or add its URLs to another one."""
        plan = read_batch(call.body, call.version, self._policy)
        with translated_failures():
            grows = plan.append_to_id is not None
            job = await (self._engine.append if grows else self._engine.start)(plan, call.team)
        answer = start_body(job, call)
        if plan.invalid_urls is not None:
            answer["invalidURLs"] = list(plan.invalid_urls)
        return Answer(answer)


def batch_operations(engine: CrawlEngine, policy: RequestPolicy) -> list[ApiOperation]:
    """Return the operations on batch scrapes."""
    batches, jobs = BatchOperations(engine, policy), JobOperations(engine)
    operations = []
    for version in ("/v1", "/v2"):
        operations += [
            ApiOperation("POST", f"{version}/batch/scrape", batches.start, "scrape"),
            ApiOperation("GET", f"{version}/batch/scrape/{{id}}", jobs.status, "crawlStatus"),
            ApiOperation("DELETE", f"{version}/batch/scrape/{{id}}", jobs.cancel, "crawlStatus"),
            ApiOperation("GET", f"{version}/batch/scrape/{{id}}/errors", jobs.errors, "crawlStatus"),
        ]
    return operations


# FOLDED: The operations on crawls, in both versions.
_NOT_OPTIONS = frozenset({"url", "webhook", "origin", "integration", "prompt"})
_NO_RULE = (
    "The prompt names nothing that the rules of the emulator know: parts of the site such as docs or blog, paths, "
    "a number of pages, a depth. The options are those of a crawl without prompt"
)


class CrawlOperations:
    """Starts crawls, lists those that run, and shows what a prompt stands for."""

    def __init__(self, engine: CrawlEngine, policy: RequestPolicy) -> None:
        self._engine = engine
        self._policy = policy

    async def start(self, call: ApiCall) -> Answer:
        """Start a crawl. What the body says goes before what its prompt stands for, but for a lower limit."""
        read_crawl(call.body, call.version, self._policy)  # the body is refused as it was sent
        generated = _generated(call.body) if call.version == 2 else {}
        body = {**generated, **call.body}
        if {"limit"} <= generated.keys() & call.body.keys():
            body["limit"] = min(generated["limit"], call.body["limit"])
        plan = read_crawl(body, call.version, self._policy)
        answer = start_body(await self._engine.start(plan, call.team), call)
        if plan.prompt is not None:
            answer |= {"promptGeneratedOptions": generated, "finalCrawlerOptions": crawler_options(plan)}
        return Answer(answer)

    async def active(self, call: ApiCall) -> Answer:
        """Return the crawls of the team that run."""
        crawls = [
            {
                "id": job.id,
                "teamId": job.team,
                "url": job.plan.url,
                "created_at": wire_time(job.created_at),
                "options": {name: value for name, value in job.plan.body.items() if name not in _NOT_OPTIONS},
            }
            for job in await self._engine.running_crawls(call.team)
            if isinstance(job.plan, CrawlPlan)
        ]
        return Answer({"success": True, "crawls": crawls})

    async def preview(self, call: ApiCall) -> Answer:
        """Return the options that a prompt stands for."""
        prompt, url = call.body.get("prompt"), call.body.get("url")
        issues = [
            custom_issue(f"{name} is required and must be a string", name)
            for name, value in (("url", url), ("prompt", prompt))
            if not isinstance(value, str) or not value
        ]
        if issues:
            raise refusal(issues)
        sent = {
            name: value for name, value in call.body.items() if name in ("url", "prompt", "origin", "integration")
        }
        if len(sent) < len(call.body):
            unknown = sorted(set(call.body) - set(sent))
            issue = {"code": "unrecognized_keys", "keys": unknown, "path": [], "message": "Unrecognized key"}
            raise refusal([issue])
        plan = read_crawl(sent, 2, self._policy)
        generated = _generated(sent)
        answer: Json = {"success": True, "data": {"url": plan.url, **generated}}
        if not generated:
            answer["warning"] = _NO_RULE
        return Answer(answer)


def crawl_operations(engine: CrawlEngine, policy: RequestPolicy) -> list[ApiOperation]:
    """Return the operations on crawls. Fixed paths stand before those with an id."""
    crawls, jobs = CrawlOperations(engine, policy), JobOperations(engine)
    operations = [ApiOperation("POST", "/v2/crawl/params-preview", crawls.preview, "crawl", "rules")]
    for version in ("/v1", "/v2"):
        operations += [
            ApiOperation("POST", f"{version}/crawl", crawls.start, "crawl"),
            ApiOperation("GET", f"{version}/crawl/active", crawls.active, "crawlStatus"),
            ApiOperation("GET", f"{version}/crawl/ongoing", crawls.active, "crawlStatus"),
            ApiOperation("GET", f"{version}/crawl/{{id}}", jobs.status, "crawlStatus"),
            ApiOperation("DELETE", f"{version}/crawl/{{id}}", jobs.cancel, "crawlStatus"),
            ApiOperation("GET", f"{version}/crawl/{{id}}/errors", jobs.errors, "crawlStatus"),
        ]
    return operations


def crawler_options(plan: CrawlPlan) -> Json:
    """Return the options of a crawl as they are in the end, under their wire names."""
    options: Json = {
        "includePaths": list(plan.include_paths),
        "excludePaths": list(plan.exclude_paths),
        "maxDiscoveryDepth": plan.max_discovery_depth,
        "limit": plan.limit,
        "sitemap": plan.sitemap,
        "crawlEntireDomain": plan.crawl_entire_domain,
        "allowExternalLinks": plan.allow_external_links,
        "allowSubdomains": plan.allow_subdomains,
        "ignoreQueryParameters": plan.ignore_query_parameters,
        "deduplicateSimilarURLs": plan.deduplicate_similar_urls,
        "ignoreRobotsTxt": plan.ignore_robots_txt,
        "regexOnFullURL": plan.regex_on_full_url,
        "delay": plan.delay,
    }
    return {name: value for name, value in options.items() if value is not None}


def _generated(body: Json) -> Json:
    prompt = body.get("prompt")
    return options_of_prompt(prompt) if isinstance(prompt, str) else {}
