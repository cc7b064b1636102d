"""JSON Schemas of answers, written by hand from the tables of the interface specification.

Each table becomes one schema. A table that says nothing about further keys allows them; a closed set of values or a
nullable field is written as the table says.
"""

from typing import Any

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_NULLABLE_TEXT: Schema = {"type": ["string", "null"]}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_NUMBER: Schema = {"type": "integer"}
_YES_OR_NO: Schema = {"type": "boolean"}
_MOMENT: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
"""ISO 8601 with milliseconds and Z, as the service writes times."""
_NULLABLE_MOMENT: Schema = {"anyOf": [_MOMENT, {"type": "null"}]}
_UUID: Schema = {"type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}
_TEXT_OR_TEXTS: Schema = {"anyOf": [_TEXT, _TEXTS]}


def _table(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


ACTIONS = _table(
    ("javascriptReturns", "pdfs", "scrapes", "screenshots"),
    javascriptReturns={"type": "array", "items": _table(("type", "value"), type=_TEXT)},
    pdfs=_TEXTS,
    scrapes={"type": "array", "items": _table(("html", "url"), html=_TEXT, url=_TEXT)},
    screenshots=_TEXTS,
)
"""Section Scrape response, `actions` result object."""


def _change_tracking(diff: Schema) -> Schema:
    return _table(
        ("changeStatus", "visibility", "previousScrapeAt"),
        changeStatus={"enum": ["new", "same", "changed", "removed"]},
        diff=diff,
        json={"type": ["object", "null"]},
        previousScrapeAt=_NULLABLE_MOMENT,
        visibility={"enum": ["visible", "hidden"]},
    )


CHANGE_TRACKING_V1 = _change_tracking(_NULLABLE_TEXT)
"""Section Scrape response, `changeTracking` result object."""
CHANGE_TRACKING_V2 = _change_tracking(_nullable(_table(("text", "json"), text=_TEXT)))
"""The same in version 2, where the service sends the text and the tree of its lines."""

METADATA = _table(
    ("sourceURL", "statusCode"),
    title=_TEXT_OR_TEXTS,
    description=_TEXT_OR_TEXTS,
    language={"anyOf": [_NULLABLE_TEXT, _TEXTS]},
    keywords=_TEXT_OR_TEXTS,
    ogLocaleAlternate=_TEXTS,
    sourceURL=_TEXT,
    statusCode=_NUMBER,
    error=_NULLABLE_TEXT,
    numPages=_NUMBER,
    totalPages=_NUMBER,
    creditsUsed=_NUMBER,
    proxyUsed={"enum": ["basic", "stealth"]},
    cacheState={"enum": ["hit", "miss"]},
)
"""Section Scrape response, `metadata` object, with the keys that the service's SDK checks."""


def _document(change_tracking: Schema) -> Schema:
    return _table(
        ("metadata",),
        markdown=_TEXT,
        html=_NULLABLE_TEXT,
        rawHtml=_NULLABLE_TEXT,
        links=_TEXTS,
        images=_TEXTS,
        screenshot=_NULLABLE_TEXT,
        llm_extraction={"type": ["object", "null"]},
        warning=_NULLABLE_TEXT,
        actions=_nullable(ACTIONS),
        changeTracking=_nullable(change_tracking),
        metadata=METADATA,
    )


DOCUMENT_V1 = _document(CHANGE_TRACKING_V1)
"""Section Scrape response, `data`."""
DOCUMENT_V2 = _document(CHANGE_TRACKING_V2)

SCRAPE_V1 = _table(("success", "data"), success={"const": True}, data=DOCUMENT_V1)
SCRAPE_V2 = _table(("success", "data"), success={"const": True}, data=DOCUMENT_V2)
ERROR = _table(("success", "error"), success={"const": False}, error=_TEXT, code=_TEXT)
"""Section Errors, with the `success` that the service adds."""

JOB_STARTED = _table(("success", "id", "url"), success={"const": True}, id=_UUID, url=_TEXT, invalidURLs=_TEXTS)
"""The answer to the start of a crawl or a batch scrape."""


def job_status(document: Schema) -> Schema:
    """Return the schema of a status answer with these documents."""
    return _table(
        ("success", "status", "completed", "total", "creditsUsed", "expiresAt", "data"),
        success=_YES_OR_NO,
        status={"enum": ["scraping", "completed", "failed", "cancelled"]},
        completed=_NUMBER,
        total=_NUMBER,
        creditsUsed=_NUMBER,
        expiresAt=_MOMENT,
        next=_TEXT,
        data={"type": "array", "items": document},
    )


JOB_ERRORS = _table(
    ("success", "errors", "robotsBlocked"),
    errors={
        "type": "array",
        "items": _table(("id", "timestamp", "url", "error"), id=_UUID, timestamp=_MOMENT, url=_TEXT, error=_TEXT),
    },
    robotsBlocked=_TEXTS,
)

SUMMARY = _table(
    ("changed", "error", "new", "removed", "same", "totalPages"),
    changed=_NUMBER,
    error=_NUMBER,
    new=_NUMBER,
    removed=_NUMBER,
    same=_NUMBER,
    totalPages=_NUMBER,
)
"""Section Monitor, summary counts."""

TARGET = _table(("type", "id"), type={"enum": ["scrape", "crawl", "search"]}, id=_UUID, urls=_TEXTS)
"""Section Monitor, target object."""

WEBHOOK = _table(
    ("url",),
    url=_TEXT,
    events=_TEXTS,
    headers={"type": "object", "additionalProperties": _TEXT},
    metadata={"type": "object", "additionalProperties": _TEXT},
)
"""Section Webhook configuration."""

MONITOR = _table(
    ("id", "name", "status", "schedule", "targets", "retentionDays", "createdAt", "updatedAt"),
    id=_UUID,
    name=_TEXT,
    goal=_NULLABLE_TEXT,
    status={"enum": ["active", "paused"]},
    createdAt=_MOMENT,
    updatedAt=_MOMENT,
    lastRunAt=_NULLABLE_MOMENT,
    nextRunAt=_NULLABLE_MOMENT,
    currentCheckId=_nullable(_UUID),
    estimatedCreditsPerMonth=_NUMBER,
    judgeEnabled=_YES_OR_NO,
    retentionDays=_NUMBER,
    lastCheckSummary=_nullable(SUMMARY),
    schedule=_table(("cron", "timezone"), cron=_TEXT, timezone=_TEXT),
    notification={"type": "object"},
    targets={"type": "array", "items": TARGET},
    webhook=_nullable(WEBHOOK),
)
"""Section Monitor, monitor record."""

CHECK = _table(
    ("id", "monitorId", "status", "trigger", "billingStatus", "summary", "createdAt", "updatedAt", "targetResults"),
    id=_UUID,
    monitorId=_UUID,
    status={
        "enum": [
            "queued",
            "running",
            "completed",
            "partial",
            "failed",
            "skipped_overlap",
            "skipped_no_credits",
        ]
    },
    trigger={"enum": ["scheduled", "manual"]},
    createdAt=_MOMENT,
    updatedAt=_MOMENT,
    scheduledFor=_NULLABLE_MOMENT,
    startedAt=_NULLABLE_MOMENT,
    finishedAt=_NULLABLE_MOMENT,
    estimatedCredits={"type": ["integer", "null"]},
    reservedCredits={"type": ["integer", "null"]},
    actualCredits={"type": ["integer", "null"]},
    billingStatus={"enum": ["not_applicable", "reserved", "confirmed", "released", "failed"]},
    error=_NULLABLE_TEXT,
    notificationStatus={"type": ["object", "null"]},
    summary=SUMMARY,
    targetResults={"type": "array", "items": _table(("targetId", "type"), targetId=_UUID, type=_TEXT)},
)
"""Section Monitor check (run) record."""

MONITOR_ANSWER = _table(("success", "data"), success={"const": True}, data=MONITOR)
MONITOR_RUN = _table(("success", "id", "data"), success={"const": True}, id=_UUID, data=CHECK)
"""Section Endpoints: GET of one monitor, and POST run."""

_FAMILIES = ("crawl", "batch_scrape")
_ENVELOPE_KEYS = ("success", "type", "id", "webhookId", "data", "metadata")
EVENT = _table(
    _ENVELOPE_KEYS,
    success=_YES_OR_NO,
    type={
        "enum": [
            *(
                f"{family}.{kind}"
                for family in ("crawl", "batch_scrape")
                for kind in ("started", "page", "completed")
            ),
            "monitor.page",
            "monitor.check.completed",
        ]
    },
    id=_UUID,
    webhookId=_UUID,
    data={"type": "array", "items": {"type": "object"}},
    error=_TEXT,
    metadata={"type": "object", "additionalProperties": _TEXT},
)
"""Section Events, in the envelope that the service's senders use."""
