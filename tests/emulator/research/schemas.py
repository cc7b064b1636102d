"""JSON Schemas of the answers and events of extractions and agents, from the interface and from the SDK."""

from tests.emulator.schemas import (
    _MOMENT,
    _NULLABLE_MOMENT,
    _NUMBER,
    _TEXT,
    _TEXTS,
    _UUID,
    _YES_OR_NO,
    Schema,
    _answer,
    _event,
    _list,
    _nullable,
    _table,
    _with_error,
)

_DEPRECATED = {"warnings": _TEXTS, "replacement": _TEXT}
EXTRACT_STARTED = _answer(
    "id", "urlTrace", *_DEPRECATED, id=_UUID, urlTrace=_list({}), invalidURLs=_TEXTS, **_DEPRECATED
)
_SOURCES: Schema = {"type": "object", "additionalProperties": _TEXTS}


def _ending(**properties: Schema) -> Schema:
    """Return the schema of the status of a job with a result."""
    return _table(
        ("success", "status", "expiresAt", "creditsUsed"),
        success=_YES_OR_NO,
        expiresAt=_MOMENT,
        creditsUsed=_NUMBER,
        error=_TEXT,
        warning=_TEXT,
        **properties,
    )


EXTRACT_STATUS = _ending(
    status={"enum": ["processing", "completed", "failed"]},
    tokensUsed=_NUMBER,
    sources=_SOURCES,
    **_DEPRECATED,
)
EXTRACT_STATUS["required"] += ["data", "tokensUsed", *_DEPRECATED]
AGENT_STARTED = _answer("id", "threadId", "threadTurn", id=_UUID, threadId=_UUID, threadTurn=_NUMBER)
AGENT_STATUS = _ending(
    status={"enum": ["processing", "completed", "failed"]}, model=_TEXT, threadId=_UUID, threadTurn=_NUMBER
)
AGENT_STATUS["required"] += ["model"]
_AGENT_ITEM = _table(
    ("id", "createdAt", "targetHint", "origin", "settings", "status", "options"),
    id=_UUID,
    createdAt=_MOMENT,
    targetHint=_TEXT,
    status={"enum": ["processing", "completed", "failed"]},
    options=_table(("prompt",), prompt=_TEXT, urls=_TEXTS, schema={"type": "object"}, model=_TEXT),
)
AGENT_LIST = _answer("agents", agents=_list(_AGENT_ITEM), next=_TEXT)
_TRACE_ERROR = _table(
    ("code", "source", "retryable", "message"),
    code={"enum": ["cancelled", "credit_limit_reached", "internal"]},
    source={"enum": ["agent", "billing", "system"]},
    retryable=_YES_OR_NO,
    message=_TEXT,
)
_TRACE_EVENT = _table(
    ("schemaVersion", "eventId", "runId", "occurredAt", "producerSequence", "agent", "type"),
    schemaVersion={"const": 1},
    eventId=_UUID,
    runId=_UUID,
    occurredAt=_MOMENT,
    producerSequence=_NUMBER,
    agent=_table(("id", "role", "name"), id=_UUID, role={"const": "orchestrator"}, name=_TEXT),
    type=_TEXT,
    error=_nullable(_TRACE_ERROR),
)
AGENT_TRACE = _answer("id", "events", "creditsUsed", id=_UUID, events=_list(_TRACE_EVENT), creditsUsed=_NUMBER)
AGENT_SNAPSHOT = _answer("id", "snapshotId", "snapshot", id=_UUID, snapshotId=_UUID, snapshot=_TEXT)
_THREAD_RUN = _table(
    ("id", "turn", "mode", "prompt", "status", "createdAt", "finishedAt", "creditsUsed", "message"),
    id=_UUID,
    turn=_NUMBER,
    status={"enum": ["processing", "succeeded", "failed", "cancelled", "refused", "credit_limit_reached"]},
    message={"type": ["string", "null"]},
    createdAt=_MOMENT,
    finishedAt=_NULLABLE_MOMENT,
    creditsUsed=_NUMBER,
)
AGENT_THREAD = _answer(
    "thread",
    thread=_table(
        ("id", "createdAt", "updatedAt", "status", "runs"),
        id=_UUID,
        createdAt=_MOMENT,
        updatedAt=_MOMENT,
        status={"enum": ["idle", "running"]},
        runs=_list(_THREAD_RUN),
    ),
)
_EXTRACTED = _table(
    ("success", "data", "extractId"),
    success={"const": True},
    extractId=_UUID,
    totalUrlsScraped=_NUMBER,
    sources=_SOURCES,
    tokensBilled=_NUMBER,
    creditsBilled=_NUMBER,
    warning=_TEXT,
)
_AGENT_STEP = _table(
    ("creditsUsed", "action", "input"),
    creditsUsed=_NUMBER,
    action={"enum": ["scrape", "search"]},
    input={"type": "object"},
)
_AGENT_COST: Schema = {**_table(("creditsUsed",), creditsUsed=_NUMBER), "maxProperties": 1}
_FAILED: Schema = {"const": False}
EVENTS: dict[str, Schema] = {
    "extract.started": _event(None, {"const": True}),
    "extract.completed": _event(_EXTRACTED, {"const": True}),
    "extract.failed": _with_error(_event(None, _FAILED)),
    "agent.started": _event(None, {"const": True}),
    "agent.action": _event(_AGENT_STEP, {"const": True}),
    "agent.completed": _event(_table(("creditsUsed", "data"), creditsUsed=_NUMBER), {"const": True}),
    "agent.failed": _with_error(_event(_AGENT_COST, _FAILED)),
    "agent.cancelled": _event(_AGENT_COST, _FAILED),
}
"""The events by their types. Section Events."""
