"""The list of deliveries, and one delivery."""

import json
import shlex
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.core.deliveries import DeliveryDetail
from receiver.core.lenient_json import NotJson, load_json
from receiver.core.subjects import subject_of
from receiver.core.text import counted, escape_controls, shortened
from receiver.core.types import DeliveryKey, DeliveryState, Trigger
from receiver.core.views import explanation, run_time, with_subjects
from receiver.core.work import NewWork
from receiver.web.console.filters import PAGE_SIZE
from receiver.web.console.parts import ConsoleParts, client_of, get, go_to, post
from receiver.web.console.rendering import safe_markdown, tree

MAX_SHOWN_BODY = 2 * 1024 * 1024
"""Bytes of a body that is shown as a tree. A longer one can be downloaded."""
_RAW_SHOWN = 20_000
_DIFF_LINES, _DIFF_WIDTH = 400, 400
_MAX_COPIED = 60_000
"""Bytes of a body inside of a command to copy."""


class DeliveryPages:
    """The list of deliveries, and one delivery."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the routes of these pages."""
        return [
            get("/deliveries", self._listing),
            get("/deliveries/{key}", self._show),
            get("/deliveries/{key}/body", self._download),
            post("/deliveries/{key}/run-again", self._run_again),
        ]

    async def _listing(self, request: Request) -> Response:
        query = self._parts.query(request)
        wanted = query.deliveries(self._parts.clock.now())
        async with self._parts.access.reading() as reports:
            if wanted.job_id is not None:
                wanted = replace(wanted, job_id=await reports.resolve_job(wanted.job_id))
            found = [
                one async for one in reports.deliveries(replace(wanted, limit=PAGE_SIZE + 1), before=query.before())
            ]
            rows = await with_subjects(reports, found[:PAGE_SIZE])
            handlers = await reports.handler_names()
        content = {
            "rows": rows,
            "given": query.given,
            "states": list(DeliveryState),
            "handlers": handlers,
            "next": query.with_values(before=found[PAGE_SIZE - 1].seq) if len(found) > PAGE_SIZE else None,
            "first": query.with_values(before=None),
            "is_first": query.before() is None,
        }
        template = "deliveries_rows.html" if request.headers.get("hx-request") else "deliveries.html"
        return self._parts.pages.page(request, template, content)

    async def _show(self, request: Request) -> Response:
        async with self._parts.access.reading() as reports:
            detail = await reports.detail(await reports.resolve(request.path_params["key"]))
            work = [await reports.work_item(one.id) for one in detail.work]
        summary = detail.summary
        content = {
            "one": summary,
            "subject": subject_of(summary.type, summary.job_id, detail.body or b""),
            "headers": detail.headers,
            "work": work,
            "why": {one.summary.id: explanation(one.summary) for one in work},
            "ran": run_time,
            "handlers": list(dict.fromkeys(one.handler for one in detail.work)),
            **_content_of(detail),
            "copies": _copies(detail, self._parts),
        }
        return self._parts.pages.page(request, "delivery.html", content)

    async def _download(self, request: Request) -> Response:
        async with self._parts.access.reading() as reports:
            detail = await reports.detail(DeliveryKey(request.path_params["key"]))
        if detail.body is None:
            return self._parts.pages.page(
                request, "error.html", {"text": "The body was pruned.", "status": 404}, status=404
            )
        name = "".join(char if char.isalnum() or char in "-_" else "-" for char in detail.summary.key)[:80]
        return Response(
            detail.body,
            media_type="application/octet-stream",
            headers={"content-disposition": f'attachment; filename="{name}.json"'},
        )

    async def _run_again(self, request: Request) -> Response:
        key, handler = request.path_params["key"], self._parts.form(request).text("handler")
        async with self._parts.access.deciding() as (reports, controls):
            detail = await reports.detail(DeliveryKey(key))
            names = [one for one in dict.fromkeys(work.handler for work in detail.work) if handler in (None, one)]
            new = [NewWork(detail.summary.seq, one, claim=False, trigger=Trigger.REPLAY) for one in names]
            made = await controls.enqueue(new, now=self._parts.clock.now())
        about = (
            f"{counted(made, 'handler')} of delivery {key}" if handler is None else f"{handler} of delivery {key}"
        )
        self._parts.runs.done("run again", about, client_of(request), changed=made)
        return go_to(request, f"/deliveries/{key}")


def _content_of(detail: DeliveryDetail) -> dict[str, Any]:
    """Return what is shown of a body: as a tree, as text, and the Markdown and screenshots of its pages."""
    body = detail.body
    shown: dict[str, Any] = {"body": None, "raw": "", "cut": False, "pages": [], "too_long": False}
    if body is None:
        return shown
    shown["raw"] = body[:_RAW_SHOWN].decode("utf-8", "backslashreplace")
    shown["cut"] = len(body) > _RAW_SHOWN
    if len(body) > MAX_SHOWN_BODY:
        return shown | {"too_long": True}
    try:
        content = load_json(body)
    except (NotJson, RecursionError):
        return shown
    shown["body"] = tree(content)
    data = content.get("data") if isinstance(content, dict) else None
    items = data if isinstance(data, list) else [data]
    shown["pages"] = [page for item in items[:3] if isinstance(item, dict) and (page := _page_of(item))]
    return shown


def _page_of(item: dict[str, Any]) -> dict[str, Any] | None:
    markdown, screenshot = item.get("markdown"), item.get("screenshot")
    diff = _diff_of(item)
    if not isinstance(markdown, str) and not isinstance(screenshot, str) and not diff:
        return None
    is_link = isinstance(screenshot, str) and screenshot.startswith(("https://", "http://"))
    return {
        "markdown": safe_markdown(markdown) if isinstance(markdown, str) and markdown else None,
        "screenshot": screenshot if is_link else None,
        "diff": diff,
    }


def _diff_of(item: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines of a page's changes with how each is shown; none if there is no text of changes."""
    tracking = item.get("changeTracking")
    found = item.get("diff") or (tracking.get("diff") if isinstance(tracking, dict) else None)
    text = found.get("text") if isinstance(found, dict) else found
    if not isinstance(text, str):
        return []
    lines = text.splitlines()[:_DIFF_LINES]
    return [(_diff_tone(line), shortened(escape_controls(line), _DIFF_WIDTH)) for line in lines]


def _diff_tone(line: str) -> str:
    if line.startswith(("---", "+++", "@@")):
        return "place"
    return {"+": "added", "-": "removed"}.get(line[:1], "same")


def _copies(detail: DeliveryDetail, parts: ConsoleParts) -> list[tuple[str, str]]:
    """Return ways to have this delivery again elsewhere: a command, a request, a test."""
    key, kind = detail.summary.key, detail.summary.type
    job = (
        f" --job {shlex.quote(detail.summary.job_id)}" if detail.summary.job_id else f" --type {shlex.quote(kind)}"
    )
    where = f" --where {shlex.quote(f'webhookId == {json.dumps(key)}')}" if detail.summary.webhook_id else ""
    copies = [("Command", f"receiver replay{job}{where}")]
    body = detail.body
    if body is None or len(body) > _MAX_COPIED:
        return copies
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return copies
    headers = {"content-type": "application/json"} | (parts.options.sign(body) if parts.options.sign else {})
    flags = " \\\n  ".join(f"-H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items())
    url = parts.options.webhook_url
    copies.append(("curl", f"curl {shlex.quote(url)} \\\n  {flags} \\\n  --data-binary {shlex.quote(text)}"))
    copies.append(("pytest", _sample(kind, text)))
    return copies


def _sample(kind: str, text: str) -> str:
    name = "".join(char if char.isalnum() else "_" for char in kind.lower())
    return (
        "from receiver import parse_event\n\n\n"
        f"def test_{name}() -> None:\n"
        f"    event = parse_event({json.dumps(text)}.encode())\n"
        f"    assert event.type == {json.dumps(kind)}\n"
    )
