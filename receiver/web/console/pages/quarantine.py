"""Quarantine: authentic requests that are no valid delivery, and releasing them."""

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from receiver.core.envelope import read_envelope
from receiver.core.recorded_actions import NewAction
from receiver.core.types import AppendOutcome
from receiver.errors import Malformed
from receiver.web.console.filters import PAGE_SIZE, segment
from receiver.web.console.parts import ConsolePages, actor_of, get, go_to, post

_SHOWN = 20_000


class QuarantinePages(ConsolePages):
    """Quarantine: authentic requests that are no valid delivery, and releasing them."""

    @override
    def routes(self) -> list[Route]:
        return [
            get("/quarantine", self._listing),
            get("/quarantine/{number:console_row}", self._show),
            post("/quarantine/{number:console_row}/release", self._release),
        ]

    async def _listing(self, request: Request) -> Response:
        query = self._parts.query(request)
        wanted = replace(query.quarantine(self._parts.clock.now()), limit=PAGE_SIZE + 1)
        async with self._parts.access.reading() as reports:
            found = [one async for one in reports.quarantined_requests(wanted, before=query.before())]
        content = {
            "rows": found[:PAGE_SIZE],
            "given": query.given,
            **query.pager([one.id for one in found]),
        }
        return self._parts.pages.page(request, "quarantine.html", content)

    async def _show(self, request: Request) -> Response:
        return await self._page(request, request.path_params["number"], "")

    async def _page(self, request: Request, number: int, note: str) -> Response:
        async with self._parts.access.reading() as reports:
            one = await reports.quarantined_request(number)
        content = {
            "number": number,
            "one": one,
            "raw": one.body[:_SHOWN].decode("utf-8", "backslashreplace"),
            "cut": len(one.body) > _SHOWN,
            "note": note,
        }
        return self._parts.pages.page(request, "quarantined.html", content)

    async def _release(self, request: Request) -> Response:
        number = request.path_params["number"]
        async with self._parts.access.deciding() as (reports, controls):
            one = await reports.quarantined_request(number)
            try:
                delivery = read_envelope(one.headers, one.body, received_at=one.received_at)
            except Malformed as exc:
                return await self._page(request, number, f"It stays: {exc}")
            action = NewAction(actor_of(request), "release", f"request {number} as delivery {delivery.key}", 1)
            async with self._parts.runs.recorded(reports, controls, action) as recorded:
                receipt = await controls.release_request(number, delivery)
                changed = int(receipt.outcome is not AppendOutcome.CONFLICT)
                now = self._parts.clock.now()
                await controls.advance_action(recorded, seen=1, changed=changed, now=now)
        if receipt.outcome is AppendOutcome.CONFLICT:
            return await self._page(
                request, number, f"It stays: delivery {delivery.key} is stored with another body"
            )
        return go_to(request, f"/deliveries/{segment(delivery.key)}")
