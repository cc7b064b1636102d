"""The operations on agents, which only version 2 has."""

import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from receiver.emulator.api.calls import Answer, ApiCall, ApiOperation, CallRefused, Json
from receiver.emulator.api.jobs import job_id, translated_failures
from receiver.emulator.clock import wire_time
from receiver.emulator.json_text import to_json
from receiver.emulator.research.engine import MAX_CREDITS_EXCEEDED, TOKENS_PER_CREDIT, ResearchEngine
from receiver.emulator.research.table import ResearchRecord, ResearchState, ResearchStep
from receiver.emulator.wire.bodies import RequestPolicy
from receiver.emulator.wire.research import read_agent, read_extract

# FOLDED: What an agent did, event by event, in the words that SDKs read.
_NAMES = uuid.UUID("6f1d3c1e-5b0a-4d59-9b1c-5d1f0c9e2a77")
"""The name space of ids in traces: the same agent has the same ids whenever it is asked for."""


def snapshot_id(job: ResearchRecord) -> str:
    """Return the id of the snapshot of an agent's result."""
    return _id_of(job, "snapshot")


def snapshot_text(job: ResearchRecord) -> str | None:
    """Return the result of an agent as a text; None if there is none."""
    return None if job.result.data is None else to_json(job.result.data).decode()


def trace_of(job: ResearchRecord, steps: Sequence[ResearchStep]) -> list[Json]:
    """Return the events of an agent, the oldest first."""
    return [
        {
            "schemaVersion": 1,
            "eventId": _id_of(job, f"event {number}"),
            "runId": job.id,
            "occurredAt": wire_time(at),
            "producerSequence": number,
            "agent": {"id": _id_of(job, "agent"), "role": "orchestrator", "name": "agent"},
            **event,
        }
        for number, (at, event) in enumerate(_events(job, steps), 1)
    ]


def _events(job: ResearchRecord, steps: Sequence[ResearchStep]) -> Iterator[tuple[datetime, Json]]:
    yield job.created_at, {"type": "run.started"}
    yield job.created_at, {"type": "agent.started"}
    for number, step in enumerate(steps, 1):
        call = {"toolCallId": _id_of(job, f"call {number}"), "toolName": step.action}
        yield step.at, {"type": "tool_call.started", **call, "parameters": step.input}
        yield step.at, {"type": "tool_call.finished", **call, "result": step.outcome}
    if job.ended_at is None:
        return
    if job.result.data is not None:
        names = {"artifactId": _id_of(job, "result"), "snapshotId": snapshot_id(job)}
        yield job.ended_at, {"type": "artifact.updated", "artifact": {"kind": "json", "change": "init", **names}}
    lasted = int((job.ended_at - job.created_at).total_seconds() * 1000)
    outcome, error = end_of(job)
    general = "failed" if outcome == "credit_limit_reached" else outcome
    yield job.ended_at, {"type": "agent.finished", "outcome": general, "durationMs": lasted, "error": error}
    yield job.ended_at, {"type": "run.finished", "outcome": outcome, "error": error}


def end_of(job: ResearchRecord) -> tuple[str, Json | None]:
    """Return how an agent that has ended did so, in the words of traces and conversations, and its error."""
    if job.state is ResearchState.COMPLETED:
        return "succeeded", None
    if job.state is ResearchState.CANCELLED:
        return "cancelled", _error("cancelled", "system", "The agent was cancelled")
    if job.error == MAX_CREDITS_EXCEEDED:
        return "credit_limit_reached", _error("credit_limit_reached", "billing", job.error)
    return "failed", _error("internal", "agent", job.error or "")


def _error(code: str, source: str, message: str) -> Json:
    return {"code": code, "source": source, "retryable": False, "message": message}


def _id_of(job: ResearchRecord, name: str) -> str:
    return str(uuid.uuid5(_NAMES, f"{job.id} {name}"))


CANCELLED = "The agent was cancelled"
"""The error of a cancelled agent: its status has no value of its own for that."""
_HINT = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_MILLISECONDS = 253_402_300_799_000
"""The last moment that a date can have."""


class AgentOperations:
    """Starts agents, tells of them, lists and cancels them."""

    def __init__(self, engine: ResearchEngine, policy: RequestPolicy) -> None:
        self._engine = engine
        self._policy = policy

    async def start(self, call: ApiCall) -> Answer:
        """Start an agent."""
        plan = read_agent(call.body, self._policy)
        with translated_failures():
            job = await self._engine.start(plan, call.team)
        return Answer({"success": True, "id": job.id, "threadId": job.thread_id, "threadTurn": job.turn})

    async def status(self, call: ApiCall) -> Answer:
        """Return the status and the result. One that failed is an answer with status 200, too."""
        with translated_failures():
            job = await self._engine.get("agent", job_id(call), call.team)
        return Answer(_agent_body(job))

    async def cancel(self, call: ApiCall) -> Answer:
        """Cancel an agent."""
        with translated_failures():
            await self._engine.cancel("agent", job_id(call), call.team)
        return Answer({"success": True})

    async def trace(self, call: ApiCall) -> Answer:
        """Return what an agent did, event by event."""
        with translated_failures():
            job = await self._engine.get("agent", job_id(call), call.team)
        events = trace_of(job, await self._engine.steps(job))
        return Answer({"success": True, "id": job.id, "events": events, "creditsUsed": job.credits})

    async def snapshot(self, call: ApiCall) -> Answer:
        """Return the result of an agent as a text, by the id in its trace."""
        with translated_failures():
            job = await self._engine.get("agent", job_id(call), call.team)
        text = snapshot_text(job)
        if text is None or call.path["snapshotId"] != snapshot_id(job):
            raise CallRefused(404, "Snapshot not found")
        return Answer({"success": True, "id": job.id, "snapshotId": snapshot_id(job), "snapshot": text})

    async def thread(self, call: ApiCall) -> Answer:
        """Return a conversation: its agents, the oldest first, with their data if that is asked for."""
        with translated_failures():
            jobs = await self._engine.thread(job_id(call), call.team)
        with_data = call.query.get("includeData") == "true"
        thread = {
            "id": jobs[0].thread_id,
            "createdAt": wire_time(jobs[0].created_at),
            "updatedAt": wire_time(jobs[-1].ended_at or jobs[-1].created_at),
            "status": "idle" if all(job.ended_at is not None for job in jobs) else "running",
            "runs": [_run(job, with_data=with_data) for job in jobs],
        }
        return Answer({"success": True, "thread": thread})

    async def listing(self, call: ApiCall) -> Answer:
        """Return the newest agents, twenty in one answer."""
        jobs, more = await self._engine.listing("agent", call.team, _before(call))
        body: Json = {"success": True, "agents": [_item(job) for job in jobs]}
        if more:
            milliseconds = _milliseconds(jobs[-1].created_at)
            body["next"] = f"{call.base_url}/v2/agent?before={milliseconds}"
        return Answer(body)


def agent_operations(engine: ResearchEngine, policy: RequestPolicy) -> list[ApiOperation]:
    """Return the operations on agents."""
    agents = AgentOperations(engine, policy)
    return [
        ApiOperation("POST", "/v2/agent", agents.start, "extract", "rules"),
        ApiOperation("GET", "/v2/agent", agents.listing, "extractStatus"),
        ApiOperation("GET", "/v2/agent/{id}", agents.status, "extractStatus", "rules"),
        ApiOperation("DELETE", "/v2/agent/{id}", agents.cancel, "extractStatus"),
        ApiOperation("GET", "/v2/agent/{id}/trace", agents.trace, "extractStatus"),
        ApiOperation("GET", "/v2/agent/{id}/snapshots/{snapshotId}", agents.snapshot, "extractStatus"),
        ApiOperation("GET", "/v2/agent/threads/{id}", agents.thread, "extractStatus"),
    ]


def _shown_state(job: ResearchRecord) -> str:
    return ResearchState.FAILED if job.state is ResearchState.CANCELLED else job.state


def _agent_body(job: ResearchRecord) -> Json:
    body: Json = {
        "success": True,
        "status": _shown_state(job),
        "model": job.plan.model,
        "expiresAt": wire_time(job.expires_at),
        "creditsUsed": job.credits,
        "threadId": job.thread_id,
        "threadTurn": job.turn,
    }
    if job.state is ResearchState.COMPLETED:
        body["data"] = job.result.data
    elif job.result.data is not None:
        body["partial"] = job.result.data
    if job.state is ResearchState.CANCELLED or job.error is not None:
        body["error"] = job.error or CANCELLED
    if job.result.warning is not None:
        body["warning"] = job.result.warning
    return body


def _run(job: ResearchRecord, *, with_data: bool) -> Json:
    run: Json = {
        "id": job.id,
        "turn": job.turn,
        "mode": "extract",
        "prompt": job.plan.prompt,
        "urls": list(job.plan.urls),
        "schema": job.plan.schema,
        # Not the words of a job's own status: the service's SDK says so.
        "status": job.state if job.ended_at is None else end_of(job)[0],
        "createdAt": wire_time(job.created_at),
        "finishedAt": None if job.ended_at is None else wire_time(job.ended_at),
        "creditsUsed": job.credits,
        "message": None,
    }
    return run | ({"data": job.result.data} if with_data else {})


def _item(job: ResearchRecord) -> Json:
    plan = job.plan
    options = {"urls": list(plan.urls), "prompt": plan.prompt or "", "schema": plan.schema, "model": plan.model}
    return {
        "id": job.id,
        "createdAt": wire_time(job.created_at),
        "targetHint": (plan.urls[0] if plan.urls else plan.prompt or "")[:_HINT],
        "origin": "api",
        "integration": None,
        "settings": {"hidden": False, "starred": False, "label": None},
        "status": _shown_state(job),
        "options": {name: value for name, value in options.items() if value is not None},
    }


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _before(call: ApiCall) -> datetime | None:
    text = call.query.get("before")
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 16 and int(text) <= _MAX_MILLISECONDS:
        return _EPOCH + timedelta(milliseconds=int(text))
    issue = {"code": "custom", "path": ["before"], "message": "before must be a time in milliseconds since 1970"}
    raise CallRefused(400, "Bad Request", code="BAD_REQUEST", details=[issue])


# FOLDED: The operations on extractions, in both versions. Each answer says that they are only maintained.
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
        return _deprecated(_extract_body(job))


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


def _extract_body(job: ResearchRecord) -> Json:
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
