"""The list of deliveries, and one delivery."""

import re
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.core.bulk import BURY, RETRY
from receiver.core.clock import iso
from receiver.core.recorded_actions import NewAction
from receiver.core.text import counted
from receiver.core.types import DeliveryKey, DeliveryState, Trigger
from receiver.core.views import explanation, run_time, with_subjects
from receiver.core.work import NewWork
from receiver.errors import UnreadableBody
from receiver.web.console.actions import begun_by
from receiver.web.console.delivery_content import content_of, copies_of
from receiver.web.console.filters import PAGE_SIZE, Query, segment
from receiver.web.console.pages.run_again import FILTERS
from receiver.web.console.parts import ConsoleParts, actor_of, get, go_to, post

MAX_SHOWN_WORK = 50
"""Work items on the page of a delivery, the newest."""
_MAX_KEY_IN_NAME = 80
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
"""A header has no other letters."""


class DeliveryPages:
    """The list of deliveries, and one delivery."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the routes of these pages."""
        return [
            get("/deliveries", self._listing),
            get("/deliveries/{key:console_id}", self._show),
            get("/deliveries/{key:console_id}/body", self._download),
            post("/deliveries/{key:console_id}/run-again", self._run_again),
        ]

    async def _listing(self, request: Request) -> Response:
        query = self._parts.query(request)
        wanted = query.deliveries(self._parts.clock.now())
        async with self._parts.access.reading() as reports:
            if wanted.job_id is not None:
                wanted = replace(wanted, job_id=await reports.resolve_job(wanted.job_id))
            page = await reports.delivery_page(
                replace(wanted, limit=PAGE_SIZE + 1), before=query.before(), examine=self._parts.examined
            )
            rows = await with_subjects(reports, page.rows[:PAGE_SIZE])
            handlers = await reports.handler_names()
        content = {
            "rows": rows,
            "given": query.given,
            "states": list(DeliveryState),
            "handlers": handlers,
            **query.pager([one.seq for one in page.rows], page.end),
            "examined": self._parts.examined,
            "chosen_by": query.with_values(before=None) if any(query.text(name) for name in FILTERS) else "",
            "of_work": _of_work(query),
        }
        template = "deliveries_rows.html" if request.headers.get("hx-request") else "deliveries.html"
        return self._parts.pages.page(request, template, content)

    async def _show(self, request: Request) -> Response:
        async with self._parts.access.reading() as reports:
            detail = await reports.detail(await reports.resolve(request.path_params["key"]))
            work = [await reports.work_item(one.id) for one in detail.work[-MAX_SHOWN_WORK:]]
        summary = detail.summary
        shown = await self._parts.slow.run(content_of, detail)
        content = {
            "one": summary,
            "headers": detail.headers,
            "unreadable": detail.unreadable,
            "work": work,
            "work_count": len(detail.work),
            "why": {one.summary.id: explanation(one.summary) for one in work},
            "ran": run_time,
            "can_retry": {one.summary.id for one in work if RETRY.can_change(one.summary)},
            "can_bury": {one.summary.id for one in work if BURY.can_change(one.summary)},
            "handlers": list(dict.fromkeys(one.handler for one in detail.work)),
            "shown_at": iso(self._parts.clock.now()),
            **shown,
            "copies": copies_of(detail, self._parts.options.webhook_url, self._parts.options.sign),
        }
        return self._parts.pages.page(request, "delivery.html", content)

    async def _download(self, request: Request) -> Response:
        async with self._parts.access.reading() as reports:
            detail = await reports.detail(DeliveryKey(request.path_params["key"]))
        if detail.unreadable:
            raise UnreadableBody(detail.unreadable)
        if detail.body is None:
            return self._parts.pages.page(
                request, "error.html", {"text": "The body was pruned.", "status": 404}, status=404
            )
        name = _NOT_IN_NAMES.sub("-", detail.summary.key)[:_MAX_KEY_IN_NAME]
        return Response(
            detail.body,
            media_type="application/octet-stream",
            headers={"content-disposition": f'attachment; filename="{name}.json"'},
        )

    async def _run_again(self, request: Request) -> Response:
        key, form = request.path_params["key"], self._parts.form(request)
        handler, shown_at = form.text("handler"), form.text("shown_at")
        choice = {} if shown_at is None else {"delivery": key, "handler": handler or "", "shown_at": shown_at}
        async with self._parts.runs.forms, self._parts.access.deciding() as (reports, controls):
            detail = await reports.detail(DeliveryKey(key))
            names = [one for one in dict.fromkeys(work.handler for work in detail.work) if handler in (None, one)]
            new = [NewWork(detail.summary.seq, one, claim=False, trigger=Trigger.REPLAY) for one in names]
            about = f"{counted(len(names), 'handler') if handler is None else handler} of delivery {key}"
            action = NewAction(actor_of(request), "run again", about, len(new), choice)
            if await begun_by(reports, action) is not None:
                return go_to(request, f"/deliveries/{segment(key)}")
            async with self._parts.runs.recorded(reports, controls, action) as number:
                await controls.enqueue(new, now=self._parts.clock.now(), action=number, seen=len(new))
        return go_to(request, f"/deliveries/{segment(key)}")


def _of_work(query: Query) -> str:
    """Return the filter for the dead work of the deliveries in a listing; "" if work items have no such filter."""
    if query.text("text") is not None or query.text("state") not in (None, DeliveryState.DEAD):
        return ""
    return query.with_values(before=None, failed=None, state="dead")
