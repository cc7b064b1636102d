"""The results of a job that the service has and the store lacks: the plan, and their import."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.core.recorded_actions import NewAction
from receiver.core.types import Origin
from receiver.web.console.filters import WrongFilter, segment
from receiver.web.console.parts import ConsoleParts, actor_of, get, go_to, post

_ORIGINS = {"backfill": Origin.BACKFILL, "fetch": Origin.IMPORT}


class JobResultPages:
    """The results of a job that the service has and the store lacks."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the routes of these pages."""
        return [
            post("/jobs/{job_id:console_id}/ask", self._ask),
            get("/jobs/{job_id:console_id}/results", self._show),
            post("/jobs/{job_id:console_id}/{verb}", self._import),
        ]

    async def _ask(self, request: Request) -> Response:
        async with self._parts.access.reading() as reports:
            job_id = (await reports.job(request.path_params["job_id"])).summary.job_id
        if not self._parts.comparisons.can_ask:
            raise WrongFilter("the console has no API key: set RECEIVER_API_KEY where it runs, and start it again")
        self._parts.comparisons.begin(job_id)
        return go_to(request, f"/jobs/{segment(job_id)}/results")

    async def _show(self, request: Request) -> Response:
        job_id = request.path_params["job_id"]
        one = self._parts.comparisons.find(job_id)
        if one is None:
            return go_to(request, f"/jobs/{segment(job_id)}")
        kinds = sorted(one.found.counts.items(), key=lambda kind: (-kind[1], kind[0])) if one.found else ()
        return self._parts.pages.page(request, "job_results.html", {"one": one, "kinds": kinds})

    async def _import(self, request: Request) -> Response:
        job_id, verb = request.path_params["job_id"], request.path_params["verb"]
        if verb not in _ORIGINS:
            raise WrongFilter(f"there is no action {verb!r} on a job")
        one = self._parts.comparisons.take(job_id)
        if one is None:  # another tab was first, or it is long ago
            return go_to(request, f"/jobs/{segment(job_id)}")
        action = NewAction(actor_of(request), verb, f"job {job_id}", one.count, {"job": job_id})
        origin, clock = _ORIGINS[verb], self._parts.clock
        try:
            number = await self._parts.runs.start(action, lambda *faces: one.carry_out(origin, clock, *faces))
        except BaseException:
            one.close()
            raise
        return go_to(request, f"/actions/{number}")
