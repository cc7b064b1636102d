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


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _answer(*required: str, **properties: Schema) -> Schema:
    """Return the schema of a success body."""
    return _table(("success", *required), success={"const": True}, **properties)


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
    ("sourceURL", "statusCode", "scrapeId", "url", "proxyUsed", "creditsUsed"),
    scrapeId=_UUID,
    url=_TEXT,
    contentType=_TEXT,
    cachedAt=_MOMENT,
    concurrencyLimited=_YES_OR_NO,
    concurrencyQueueDurationMs=_NUMBER,
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
METADATA["additionalProperties"] = _TEXT_OR_TEXTS
"""Section Scrape response, `metadata` object, with the service's own keys; a page's tags may be lists."""


def _document(change_tracking: Schema) -> Schema:
    return _table(
        ("metadata",),
        markdown=_TEXT,
        html=_NULLABLE_TEXT,
        rawHtml=_NULLABLE_TEXT,
        links=_TEXTS,
        images=_TEXTS,
        rawBase64=_TEXT,
        summary=_TEXT,
        answer=_NULLABLE_TEXT,
        highlights=_NULLABLE_TEXT,
        attributes=_list(
            _table(("selector", "attribute", "values"), selector=_TEXT, attribute=_TEXT, values=_TEXTS)
        ),
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

_FILE_METADATA = {**METADATA, "required": ["statusCode", "contentType", "scrapeId", "creditsUsed"]}
PARSE = _answer(
    "data",
    data={**DOCUMENT_V2, "properties": {**DOCUMENT_V2["properties"], "metadata": _FILE_METADATA}},
    warning=_TEXT,
)
"""A file has the document of a page, without URLs."""
PARSE_FORMATS = _answer(
    "data",
    data=_table(
        ("formats",),
        formats=_list(
            _table(
                ("format", "kind", "extensions", "mimeTypes", "available"),
                format=_TEXT,
                kind={"enum": ["html", "document"]},
                extensions=_TEXTS,
                mimeTypes=_TEXTS,
                available=_YES_OR_NO,
            )
        ),
    ),
)

SCRAPE_V1 = _answer("data", data=DOCUMENT_V1)
SCRAPE_V2 = _answer("data", data=DOCUMENT_V2, warning=_TEXT)
_ADDRESSES = {"cdpUrl": _TEXT, "liveViewUrl": _TEXT, "interactiveLiveViewUrl": _TEXT}
SESSION = _answer("id", "expiresAt", *_ADDRESSES, id=_UUID, expiresAt=_MOMENT, warning=_TEXT, **_ADDRESSES)
"""The answer to the start of a browser session."""
SESSIONS = _answer(
    "sessions",
    sessions=_list(
        _table(
            ("id", "status", "streamWebView", "createdAt", "lastActivity", *_ADDRESSES),
            id=_UUID,
            status={"enum": ["active", "destroyed"]},
            streamWebView=_YES_OR_NO,
            createdAt=_MOMENT,
            lastActivity=_MOMENT,
            **_ADDRESSES,
        )
    ),
)
CODE_RUN = _answer(
    *("stdout", "result", "stderr", "exitCode", "killed"),
    stdout=_TEXT,
    result=_TEXT,
    stderr=_TEXT,
    output=_TEXT,
    exitCode=_NUMBER,
    killed=_YES_OR_NO,
    truncated=_YES_OR_NO,
)
SESSION_ENDED = _answer("sessionDurationMs", "creditsBilled", sessionDurationMs=_NUMBER, creditsBilled=_NUMBER)
NEVER: Schema = {"not": {}}
"""For an operation that never succeeds."""
SUCCESS = _answer()
"""An answer that says nothing more."""
CANCELLED = _answer("status", status={"const": "cancelled"})
ISSUE = _table(("code", "path", "message"), code=_TEXT, path={"type": "array"}, message=_TEXT, keys=_TEXTS)
ERROR = _table(("success", "error"), success={"const": False}, error=_TEXT, code=_TEXT, details=_list(ISSUE))
"""Section Errors, with the `success` that the service adds."""

JOB_STARTED = _answer("id", "url", id=_UUID, url=_TEXT, invalidURLs=_TEXTS)
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
        createdAt=_MOMENT,
        completedAt=_MOMENT,
        duration={"type": "number"},
        warning=_TEXT,
        data=_list(document),
    )


JOB_ERRORS = _answer(
    "errors",
    "robotsBlocked",
    errors=_list(
        _table(("id", "timestamp", "url", "error"), id=_UUID, timestamp=_MOMENT, url=_TEXT, code=_TEXT, error=_TEXT)
    ),
    robotsBlocked=_TEXTS,
)
ACTIVE_CRAWLS = _answer(
    "crawls",
    crawls=_list(
        _table(("id", "teamId", "url", "options"), id=_UUID, teamId=_TEXT, url=_TEXT, options={"type": "object"})
    ),
)
PREVIEW = _answer("data", data=_table(("url",), url=_TEXT, includePaths=_TEXTS, limit=_NUMBER), warning=_TEXT)
"""The options that the prompt of a crawl stands for."""
MAP_V1 = _answer("links", links=_TEXTS, warning=_TEXT)
MAP_V2 = _answer(
    "links", "id", id=_UUID, links=_list(_table(("url",), url=_TEXT, title=_TEXT, description=_TEXT)), warning=_TEXT
)

FEEDBACK = _answer(
    "feedbackId",
    "creditsRefunded",
    feedbackId=_UUID,
    creditsRefunded=_NUMBER,
    alreadySubmitted={"const": True},
    creditsRefundedToday=_NUMBER,
    dailyRefundCap=_NUMBER,
    dailyCapReached=_YES_OR_NO,
)
"""https://docs.firecrawl.dev/api-reference/endpoint/search-feedback."""
UPLOAD_URL = _answer(
    "data",
    data=_table(
        ("uploadUrl", "uploadRef", "method", "headers", "expiresAt", "maxSizeBytes"),
        uploadUrl=_TEXT,
        uploadRef=_TEXT,
        method={"const": "PUT"},
        headers={"type": "object"},
        expiresAt=_MOMENT,
        maxSizeBytes=_NUMBER,
    ),
)
DEVELOPER_SEARCH = _answer(
    "results",
    results=_list(
        _table(
            ("id", "url", "passages"),
            id=_TEXT,
            url=_TEXT,
            title=_TEXT,
            passages=_list(_table(("text",), text=_TEXT, citation_url=_TEXT)),
        )
    ),
    warning=_TEXT,
)

_WEB_HIT = _table(
    ("url", "title", "description", "position"),
    url=_TEXT,
    title=_TEXT,
    description=_TEXT,
    position=_NUMBER,
    category=_TEXT,
    markdown=_TEXT,
    metadata={"type": "object"},
)
_NEWS_HIT = _table(
    ("title", "url", "snippet", "position"),
    title=_TEXT,
    url=_TEXT,
    snippet=_TEXT,
    date=_TEXT,
    imageUrl=_TEXT,
    position=_NUMBER,
)
_IMAGE_HIT = _table(
    ("title", "imageUrl", "url", "position"),
    title=_TEXT,
    imageUrl=_TEXT,
    imageWidth=_NUMBER,
    imageHeight=_NUMBER,
    url=_TEXT,
    position=_NUMBER,
)
SEARCH_V2 = _answer(
    "data",
    "creditsUsed",
    "id",
    data={
        **_table((), web=_list(_WEB_HIT), news=_list(_NEWS_HIT), images=_list(_IMAGE_HIT)),
        "additionalProperties": False,
    },
    creditsUsed=_NUMBER,
    id=_UUID,
    warning=_TEXT,
)
GOV_SEARCH = _answer("data", data=_table(("web",), web=_list(_WEB_HIT)), warning=_TEXT)
SEARCH_V1 = _answer(
    "data",
    data=_list(_table(("url", "title", "description"), url=_TEXT, title=_TEXT, description=_TEXT, markdown=_TEXT)),
    id=_UUID,
    warning=_TEXT,
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
    metadata={"type": "object"},
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
    targetResults=_list(_table(("targetId", "type"), targetId=_UUID, type={"enum": ["scrape", "crawl", "search"]})),
)
"""Section Monitor check (run) record."""

JUDGMENT = _table(
    ("meaningful", "confidence", "reason"),
    meaningful=_YES_OR_NO,
    confidence={"enum": ["high", "medium", "low"]},
    reason=_TEXT,
)
_DIFF = _table(text=_TEXT, json={"type": "object"})
CHECK_PAGE = _table(
    ("id", "targetId", "url", "status", "createdAt"),
    id=_UUID,
    targetId=_UUID,
    url=_TEXT,
    status={"enum": ["same", "changed", "new", "removed", "error"]},
    previousScrapeId=_nullable(_UUID),
    currentScrapeId=_nullable(_UUID),
    statusCode={"type": ["integer", "null"]},
    error=_NULLABLE_TEXT,
    metadata={"type": ["object", "null"]},
    judgment=_nullable(JUDGMENT),
    createdAt=_MOMENT,
    diff=_nullable(_DIFF),
    snapshot={"type": ["object", "null"]},
)
"""A page of a check, as the answer to the read of a check has it."""

MONITOR_ANSWER = _answer("data", data=MONITOR)
MONITOR_RUN = _answer("id", "data", id=_UUID, data=CHECK)
"""Section Endpoints: GET of one monitor, and POST run."""
MONITOR_LIST = _answer("data", data=_list(MONITOR))
CHECK_LIST = _answer("data", data=_list(CHECK))
CHECK_ANSWER = _answer(
    "data", next=_TEXT, data={"allOf": [CHECK, _table(("pages",), pages=_list(CHECK_PAGE), next=_TEXT)]}
)
MONITOR_BUSY = _table(("success", "error", "checkId"), success={"const": False}, error=_TEXT, checkId=_UUID)


def usage(*names: str) -> Schema:
    """Return the schema of what a team has left: the names of what is left, of the plan, of start and end."""
    remaining, plan, start, end = names
    return _answer("data", data=_table(names, **{remaining: _NUMBER, plan: _NUMBER, start: _MOMENT, end: _MOMENT}))


def history(used: str) -> Schema:
    """Return the schema of what a team has used by month; `used` is the name of the number."""
    row = {"startDate": _MOMENT, "endDate": _MOMENT, "apiKey": _NULLABLE_TEXT, used: _NUMBER}
    return _answer("periods", periods=_list(_table(("startDate", "endDate", used), **row)))


QUEUE = _answer(
    "jobsInQueue",
    "activeJobsInQueue",
    "waitingJobsInQueue",
    "maxConcurrency",
    "mostRecentSuccess",
    jobsInQueue=_NUMBER,
    activeJobsInQueue=_NUMBER,
    waitingJobsInQueue=_NUMBER,
    maxConcurrency=_NUMBER,
    mostRecentSuccess=_NULLABLE_MOMENT,
)
CONCURRENCY = _answer("concurrency", "maxConcurrency", concurrency=_NUMBER, maxConcurrency=_NUMBER)

_ERROR_PAGE = {**_table(("metadata",), metadata=_table(("sourceURL",), sourceURL=_TEXT)), "maxProperties": 1}
_PAGE_EVENT = _table(
    ("monitorId", "checkId", "url", "status", "isMeaningful", "judgment", "diff"),
    monitorId=_UUID,
    checkId=_UUID,
    url=_TEXT,
    status={"enum": ["same", "new", "changed", "error"]},
    previousScrapeId=_nullable(_UUID),
    currentScrapeId=_nullable(_UUID),
    error=_NULLABLE_TEXT,
    isMeaningful={"type": ["boolean", "null"]},
    judgment=_nullable(JUDGMENT),
    diff=_nullable(_DIFF),
)
_CHECK_EVENT = _table(
    ("monitorId", "checkId", "status", "summary"),
    monitorId=_UUID,
    checkId=_UUID,
    status={"enum": ["completed", "partial", "failed"]},
    summary=SUMMARY,
)


def _event(items: Schema | None, success: Schema = _YES_OR_NO) -> Schema:
    """Return the schema of an event whose `data` has one such item, or none."""
    number = 0 if items is None else 1
    data = {"type": "array", "items": items or {}, "minItems": number, "maxItems": number}
    schema = _table(
        ("success", "type", "id", "webhookId", "data", "metadata"),
        success=success,
        type=_TEXT,
        id=_UUID,
        webhookId=_UUID,
        data=data,
        error=_TEXT,
        metadata={"type": "object"},
    )
    return {**schema, "additionalProperties": False}


def _with_error(schema: Schema) -> Schema:
    return {**schema, "required": [*schema["required"], "error"]}


def _page_event(document: Schema) -> Schema:
    failed = _event(_ERROR_PAGE, {"const": False})
    return {"anyOf": [_event(document, {"const": True}), _with_error(failed)]}


def events(document: Schema) -> dict[str, Schema]:
    """Return the schemas of all events by type. Section Events, in the envelope that the service's senders use."""
    jobs = {
        f"{family}.{kind}": schema
        for family in ("crawl", "batch_scrape")
        for kind, schema in (
            ("started", _event(None, {"const": True})),
            ("page", _page_event(document)),
            ("completed", _event(None, {"const": True})),
            ("failed", _event(None, {"const": False})),
        )
    }
    return {
        **jobs,
        "monitor.page": _event(_PAGE_EVENT),
        "monitor.check.completed": _event(_CHECK_EVENT),
    }


def socket_message(document: Schema) -> Schema:
    """Return the schema of what a watcher of a job is told."""
    kinds: dict[str, Schema] = {
        "catchup": _table(("type", "data"), data=job_status(document)),
        "document": _table(("type", "data"), data=document),
        "done": _table(("type",), data=_table(completed=_NUMBER, total=_NUMBER, creditsUsed=_NUMBER)),
        "error": _table(("type", "error"), error=_TEXT),
    }
    return {
        "oneOf": [
            {**schema, "properties": {**schema["properties"], "type": {"const": kind}}}
            for kind, schema in kinds.items()
        ]
    }


_CALL = _table(
    ("seq", "at", "method", "path", "status", "team", "body", "error", "code", "seconds", "faked"),
    seq=_NUMBER,
    at=_MOMENT,
    method=_TEXT,
    path=_TEXT,
    status=_NUMBER,
    team=_NULLABLE_TEXT,
    body=_TEXT,
    error=_NULLABLE_TEXT,
    code=_NULLABLE_TEXT,
    seconds={"type": "number"},
    faked=_YES_OR_NO,
)
_ATTEMPT = _table(
    ("at", "status", "answer", "seconds"),
    at=_TEXT,
    status={"type": ["integer", "null"]},
    answer=_TEXT,
    seconds={"type": "number"},
)
_DELIVERY = _table(
    ("seq", "id", "url", "type", "jobId", "state", "attempts", "createdAt", "nextAttemptAt"),
    seq=_NUMBER,
    id=_UUID,
    url=_TEXT,
    type=_TEXT,
    jobId=_UUID,
    state={
        "enum": ["attempt", "retry 1", "retry 2", "retry 3", "delivered", "failed", "lost", "skipped"],
    },
    attempts=_list(_ATTEMPT),
    createdAt=_MOMENT,
    nextAttemptAt=_NULLABLE_MOMENT,
)
_FAULT = {
    "anyOf": [
        _table(("operation", "status", "times"), operation=_TEXT, status=_NUMBER, times=_NUMBER),
        _table(
            ("webhook", "times", "copies", "late", "shuffle"),
            webhook=_TEXT,
            times=_NUMBER,
            copies=_NUMBER,
            late={"type": "number"},
            shuffle={"type": "number"},
        ),
        _table(("job", "times", "after"), job=_TEXT, times=_NUMBER, after=_NUMBER, error=_TEXT),
    ]
}
_FAULTS = _answer("faults", faults=_list(_FAULT))
_CLOCK = _answer("now", "speed", now=_MOMENT, speed={"type": "number"})
ADMIN: dict[tuple[str, str], Schema] = {
    ("GET", "/_emulator"): _answer(
        "operations",
        operations=_list(_table(("method", "path", "about"), method=_TEXT, path=_TEXT, about=_TEXT)),
    ),
    ("GET", "/_emulator/health"): _answer("status", "now", status={"const": "ok"}, now=_MOMENT),
    ("POST", "/_emulator/reset"): SUCCESS,
    ("GET", "/_emulator/journal"): _answer("requests", requests=_list(_CALL)),
    ("GET", "/_emulator/deliveries"): _answer(
        "counts",
        "deliveries",
        counts={"type": "object", "additionalProperties": _NUMBER},
        deliveries=_list(_DELIVERY),
    ),
    ("GET", "/_emulator/faults"): _FAULTS,
    ("POST", "/_emulator/faults"): _FAULTS,
    ("DELETE", "/_emulator/faults"): _FAULTS,
    ("GET", "/_emulator/clock"): _CLOCK,
    ("POST", "/_emulator/clock"): _CLOCK,
    ("POST", "/_emulator/credits"): _answer("team", "credits", team=_NULLABLE_TEXT, credits=_NUMBER),
}
"""The answers of the admin API, which is the emulator's own."""
