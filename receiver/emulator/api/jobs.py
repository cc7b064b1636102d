"""The operations on crawls and batch scrapes in both versions, and the WebSockets of those who watch them."""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import msgspec
from starlette.routing import Router, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState
from typing_extensions import override

from receiver.emulator.account.keys import ApiKeys
from receiver.emulator.api.calls import Answer, ApiCall, ApiOperation, Json, OperationFamily, is_foreign_page
from receiver.emulator.clock import wire_time
from receiver.emulator.failures import CallRefused
from receiver.emulator.jobs.crawls import CrawlEngine
from receiver.emulator.jobs.engine import JobWatch
from receiver.emulator.jobs.prompts import options_of_prompt
from receiver.emulator.jobs.records import (
    EmulatedJobState,
    JobEnded,
    JobKind,
    JobNotFound,
    JobOfOtherTeam,
    JobRecord,
    PageError,
)
from receiver.emulator.jobs.table import MAX_DOCUMENTS, ResultsPage
from receiver.emulator.json_text import to_json
from receiver.emulator.wire.bodies import RequestPolicy, custom_issue, refusal
from receiver.emulator.wire.jobs import CrawlPlan, read_batch, read_crawl
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

MAX_LIMIT = 1_000
"""The most documents that a call can ask for."""
_MAX_SKIP = 1 << 53
_PATHS = {JobKind.CRAWL: "crawl", JobKind.BATCH: "batch/scrape"}
"""The path of each kind of job, below the version."""
_NOT_OPTIONS = frozenset({"url", "webhook", "origin", "integration", "prompt"})
_NO_RULE = (
    "The prompt names nothing that the rules of the emulator know: parts of the site such as docs or blog, paths, "
    "a number of pages, a depth. The options are those of a crawl without prompt"
)


class JobOperations(OperationFamily):
    """Starts crawls and batch scrapes, and answers for them by their ids, whatever their kind."""

    def __init__(self, engine: CrawlEngine, policy: RequestPolicy) -> None:
        self._engine = engine
        self._policy = policy

    @override
    def operations(self) -> list[ApiOperation]:
        found = [ApiOperation("POST", "/v2/crawl/params-preview", self.preview, "crawl", "rules")]
        for version in ("/v1", "/v2"):
            crawl, batch = f"{version}/crawl", f"{version}/batch/scrape"
            found += [
                ApiOperation("POST", crawl, self.start_crawl, "crawl"),
                ApiOperation("GET", f"{crawl}/active", self.active, "crawlStatus"),
                ApiOperation("GET", f"{crawl}/ongoing", self.active, "crawlStatus"),
                ApiOperation("POST", batch, self.start_batch, "scrape"),
            ]
            for path in (crawl, batch):
                found += [
                    ApiOperation("GET", f"{path}/{{id}}", self.status, "crawlStatus"),
                    ApiOperation("DELETE", f"{path}/{{id}}", self.cancel, "crawlStatus"),
                    ApiOperation("GET", f"{path}/{{id}}/errors", self.errors, "crawlStatus"),
                ]
        return found

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

    async def start_crawl(self, call: ApiCall) -> Answer:
        """Start a crawl. The body outranks what its prompt stands for, except that the lower limit counts."""
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

    async def start_batch(self, call: ApiCall) -> Answer:
        """Start a batch scrape, or add its URLs to another one."""
        plan = read_batch(call.body, call.version, self._policy)
        with translated_failures():
            grows = plan.append_to_id is not None
            job = await (self._engine.append if grows else self._engine.start)(plan, call.team)
        answer = start_body(job, call)
        if plan.invalid_urls is not None:
            answer["invalidURLs"] = list(plan.invalid_urls)
        return Answer(answer)


def job_id(call: ApiCall) -> str:
    """Return the id in the call's path. CallRefused with status 400 if it is no UUID."""
    text = "Invalid job ID format. Job ID must be a valid UUID."
    return call.uuid(refusal=CallRefused(400, text, code="BAD_REQUEST"))


def start_body(job: JobRecord, call: ApiCall) -> Json:
    """Return the answer to the start of a job."""
    return {"success": True, "id": job.id, "url": f"{call.base_url}/v{call.version}/{_PATHS[job.kind]}/{job.id}"}


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
        body["next"] = f"{base_url}/v{version}/{_PATHS[job.kind]}/{job.id}?skip={position}&limit={limit}"
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


def crawler_options(plan: CrawlPlan) -> Json:
    """Return the final options of a crawl under their wire names."""
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


_WATCHED = ("/v1/crawl/{id}", "/v1/batch/scrape/{id}", "/v2/crawl/{id}", "/v2/batch/scrape/{id}")
DONE, UNKNOWN_JOB, FAULT, NO_AUTH, OTHER_TEAM = 1000, 1008, 1011, 3000, 3003
"""Why a socket is closed: the service's codes."""
MAX_CATCHUP_BYTES = 256 * 1024
"""The documents that the first message has; the others follow one by one. Clients refuse messages over 1 MiB."""


class JobSockets:
    """Serves watchers of crawls and batch scrapes. A path finds a job by its id, whatever its kind."""

    def __init__(self, engine: CrawlEngine, keys: ApiKeys) -> None:
        self._engine = engine
        self._keys = keys

    def app(self) -> ASGIApp:
        """Return an ASGI app for the WebSockets of all jobs. It refuses other paths."""
        return Router([WebSocketRoute(path, self.serve) for path in _WATCHED], redirect_slashes=False)

    async def serve(self, socket: WebSocket) -> None:
        """Serve one watcher until the job has ended, or the watcher has gone."""
        if self._keys.anyone_passes and is_foreign_page(socket):
            # Browsers open a WebSocket to another host without a preflight, so it is refused like a request.
            return await socket.close(UNKNOWN_JOB)
        await socket.accept()
        with suppress(WebSocketDisconnect):
            try:
                await self._watch(socket)
            except WebSocketDisconnect:
                raise
            except JobOfOtherTeam:
                await _refuse(socket, OTHER_TEAM, "Forbidden")
            except JobNotFound as exc:
                await _refuse(socket, UNKNOWN_JOB, str(exc))
            except Exception:
                log.exception("watcher_crashed", extra={"path": socket.url.path})
                await _close(socket, FAULT, "Unexpected error")

    async def _watch(self, socket: WebSocket) -> None:
        try:
            team = self._keys.team_of(socket.headers.get("authorization"))
        except CallRefused as exc:
            return await _refuse(socket, NO_AUTH, exc.error)
        job = await self._engine.get(_job_of(socket), team)
        with self._engine.watch(job.id) as watch:
            report = asyncio.create_task(self._report(socket, job.id, team, watch))
            gone = asyncio.create_task(_until_gone(socket))
            try:
                await asyncio.wait((report, gone), return_when=asyncio.FIRST_COMPLETED)
                if report.done():
                    report.result()
            finally:
                for task in (report, gone):
                    task.cancel()
                await asyncio.gather(report, gone, return_exceptions=True)
        return None

    async def _report(self, socket: WebSocket, job_id: str, team: str, watch: JobWatch) -> None:
        job = await self._engine.get(job_id, team)
        page = await self._engine.documents(job, max_bytes=MAX_CATCHUP_BYTES)
        version = 1 if socket.url.path.startswith("/v1/") else 2
        scheme = {"ws": "http", "wss": "https"}.get(socket.url.scheme, socket.url.scheme)
        body = status_body(job, page, base_url=f"{scheme}://{socket.url.netloc}", version=version)
        await _send(socket, {"type": "catchup", "data": body})
        position = page.last
        while True:
            position = await self._send_documents(socket, job, position)
            if job.ended_at is not None:
                break
            await watch.changed()
            job = await self._engine.get(job_id, team)
        if job.state is EmulatedJobState.FAILED:
            await _send(socket, {"type": "error", "error": job.error or "The job failed"})
        else:
            await _send(socket, {"type": "done", "data": _summary(job)})
        await _close(socket, DONE, "done")

    async def _send_documents(self, socket: WebSocket, job: JobRecord, position: int) -> int:
        """Send the documents after a position, and return the position of the last one."""
        while position < job.completed:
            page = await self._engine.documents(job, skip=position)
            if not page.texts:
                break
            for text in page.texts:
                await _send(socket, {"type": "document", "data": msgspec.Raw(text)})
            position = page.last
        return position


def _job_of(socket: WebSocket) -> str:
    try:
        return str(uuid.UUID(socket.path_params["id"]))
    except ValueError:
        raise JobNotFound("Job not found") from None


def _summary(job: JobRecord) -> Json:
    return {
        "status": job.state,
        "completed": job.completed,
        "total": job.total,
        "creditsUsed": job.credits,
        "expiresAt": wire_time(job.expires_at),
    }


async def _until_gone(socket: WebSocket) -> None:
    """Return when the watcher has closed the socket. What it sends has no meaning."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        continue


async def _refuse(socket: WebSocket, code: int, reason: str) -> None:
    await _send(socket, {"type": "error", "error": reason})
    await _close(socket, code, reason)


async def _send(socket: WebSocket, message: Json) -> None:
    await socket.send_text(to_json(message).decode())


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    if socket.application_state is WebSocketState.CONNECTED:
        await socket.close(code, reason)
