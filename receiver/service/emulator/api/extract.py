"""The operations on extractions, in both versions. Each answer says that they are only maintained."""

from receiver.service.emulator.api.calls import Answer, ApiCall, ApiOperation, Json
from receiver.service.emulator.api.jobs import job_id, translated_failures
from receiver.service.emulator.research.engine import ResearchEngine
from receiver.service.emulator.research.records import ResearchRecord, ResearchState
from receiver.service.emulator.research.settling import TOKENS_PER_CREDIT
from receiver.service.emulator.times import wire_time
from receiver.service.emulator.wire.policy import RequestPolicy
from receiver.service.emulator.wire.research import read_extract

DEPRECATION = "Extract is only maintained. Scrape with the format json, or an agent, does the same."
REPLACEMENT = "/v2/scrape with the format json, or /v2/agent"
_HEADERS = {"Deprecation": "true", "Warning": f'299 - "{DEPRECATION}"'}


class ExtractOperations:
    """Starts extractions, and tells of them."""

    def __init__(self, engine: ResearchEngine, policy: RequestPolicy) -> None:
        self._engine = engine
        self._policy = policy

    async def start(self, call: ApiCall) -> Answer:
        """Start an extraction."""
        plan = read_extract(call.body, call.version, self._policy)
        job = await self._engine.start(plan, call.team)
        answer: Json = {"success": True, "id": job.id, "urlTrace": []}
        if plan.invalid_urls is not None:
            answer["invalidURLs"] = list(plan.invalid_urls)
        return _deprecated(answer)

    async def status(self, call: ApiCall) -> Answer:
        """Return the status and the result. One that failed is an answer with status 200, too."""
        with translated_failures():
            job = await self._engine.get("extract", job_id(call), call.team)
        return _deprecated(_status_body(job))


def extract_operations(engine: ResearchEngine, policy: RequestPolicy) -> list[ApiOperation]:
    """Return the operations on extractions."""
    extracts = ExtractOperations(engine, policy)
    return [
        operation
        for version in ("/v1", "/v2")
        for operation in (
            ApiOperation("POST", f"{version}/extract", extracts.start, "extract", "rules"),
            ApiOperation("GET", f"{version}/extract/{{id}}", extracts.status, "extractStatus", "rules"),
        )
    ]


def _deprecated(body: Json) -> Answer:
    return Answer({**body, "warnings": [DEPRECATION], "replacement": REPLACEMENT}, headers=_HEADERS)


def _status_body(job: ResearchRecord) -> Json:
    done = job.state is ResearchState.COMPLETED
    body: Json = {
        "success": job.state is not ResearchState.FAILED,
        "status": job.state,
        "data": job.result.data if done else [],
        "expiresAt": wire_time(job.expires_at),
        "creditsUsed": job.credits,
        "tokensUsed": job.credits * TOKENS_PER_CREDIT,
    }
    if job.error is not None:
        body["error"] = job.error
    if job.plan.show_sources and done:
        body["sources"] = job.result.sources
    if job.result.warning is not None:
        body["warning"] = job.result.warning
    return body
