"""The operations on crawls, in both versions."""

from receiver.service.emulator.api.calls import Answer, ApiCall, ApiOperation, Json
from receiver.service.emulator.api.jobs import JobOperations, start_body
from receiver.service.emulator.jobs.engine import JobEngine
from receiver.service.emulator.jobs.prompts import options_of_prompt
from receiver.service.emulator.times import wire_time
from receiver.service.emulator.wire.issues import custom_issue, refusal
from receiver.service.emulator.wire.jobs import read_crawl
from receiver.service.emulator.wire.plans import CrawlPlan
from receiver.service.emulator.wire.policy import RequestPolicy

_NOT_OPTIONS = frozenset({"url", "webhook", "origin", "integration", "prompt"})
_NO_RULE = (
    "The prompt names nothing that the rules of the emulator know: parts of the site such as docs or blog, paths, "
    "a number of pages, a depth. The options are those of a crawl without prompt"
)


class CrawlOperations:
    """Starts crawls, lists those that run, and shows what a prompt stands for."""

    def __init__(self, engine: JobEngine, policy: RequestPolicy) -> None:
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


def crawl_operations(engine: JobEngine, policy: RequestPolicy) -> list[ApiOperation]:
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
