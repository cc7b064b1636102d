"""The operations on agents, which only version 2 has."""

from datetime import UTC, datetime, timedelta

from receiver.service.emulator.api.calls import Answer, ApiCall, ApiOperation, CallRefused, Json
from receiver.service.emulator.api.jobs import job_id, translated_failures
from receiver.service.emulator.api.traces import end_of, snapshot_id, snapshot_text, trace_of
from receiver.service.emulator.research.engine import ResearchEngine
from receiver.service.emulator.research.records import ResearchRecord, ResearchState
from receiver.service.emulator.times import wire_time
from receiver.service.emulator.wire.policy import RequestPolicy
from receiver.service.emulator.wire.research import read_agent

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
        return Answer(_status_body(job))

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


def _status_body(job: ResearchRecord) -> Json:
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
