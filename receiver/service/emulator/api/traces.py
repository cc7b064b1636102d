"""What an agent did, event by event, in the words that SDKs read."""

import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime

from receiver.service.emulator.api.calls import Json
from receiver.service.emulator.json_text import to_json
from receiver.service.emulator.research.records import ResearchRecord, ResearchState, ResearchStep
from receiver.service.emulator.research.runner import MAX_CREDITS_EXCEEDED
from receiver.service.emulator.times import wire_time

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
