"""Jobs of the service: how far each is, its timeline, and the results that the service has and the store lacks."""

import shlex
from collections.abc import Iterator
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from receiver.core.deliveries import DeliveryFilter
from receiver.core.jobs import JobFilter, JobState, warnings
from receiver.core.recorded_actions import NewAction
from receiver.core.types import Origin, WorkState
from receiver.core.views import job_work_counts
from receiver.core.work import WorkFilter
from receiver.web.console.charts import timeline
from receiver.web.console.filters import PAGE_SIZE, WrongFilter, segment
from receiver.web.console.parts import ConsolePages, actor_of, get, go_to, post
from receiver.web.console.reports import newest_jobs

_MAX_MARKS = 2_000
"""Deliveries in a timeline, the newest."""
_MAX_HELD = 50


class JobListPages(ConsolePages):
    """Jobs of the service: how far each is, and the timeline of one."""

    @override
    def routes(self) -> list[Route]:
        return [get("/jobs", self._listing), get("/jobs/{job_id:console_id}", self._show)]

    async def _listing(self, request: Request) -> Response:
        query, now = self._parts.query(request), self._parts.clock.now()
        wanted = query.jobs(now)
        async with self._parts.access.reading() as reports:
            if wanted.job_id is not None:
                wanted = replace(wanted, job_id=await reports.resolve_job(wanted.job_id))
            end = None
            if wanted.job_id is None and wanted != JobFilter():
                end = await reports.look_end(examine=self._parts.examined, before=query.before())
            found, has_more = await newest_jobs(
                reports,
                wanted,
                most=PAGE_SIZE,
                before=query.before(),
                through=None if end is None else end.place,
            )
        content = {
            "rows": found,
            "warnings": {one.job_id: warnings(one, now=now) for one in found},
            "given": query.given,
            "states": list(JobState),
            **query.links(found[-1].last_seq if has_more else None, None if has_more else end),
            "examined": self._parts.examined,
        }
        return self._parts.pages.page(request, "jobs.html", content)

    async def _show(self, request: Request) -> Response:
        async with self._parts.access.reading() as reports:
            job_id = await reports.resolve_job(request.path_params["job_id"])
            detail = await reports.job(job_id)
            wanted = DeliveryFilter(job_id=job_id, limit=_MAX_MARKS)
            held_items = WorkFilter(job_id=job_id, state=WorkState.HELD, limit=_MAX_HELD)
            held = [one async for one in reports.work_items(held_items)]
            marks = [one async for one in reports.deliveries(wanted)]
        content = {
            "one": detail.summary,
            "detail": detail,
            "counts": {one.handler: job_work_counts(one) for one in detail.work},
            "warnings": warnings(detail.summary, now=self._parts.clock.now()),
            "held": held,
            "can_ask": self._parts.comparisons.can_ask,
            "commands": list(_commands(job_id)),
            "timeline": timeline(marks),
            "is_cut": len(marks) == _MAX_MARKS,
        }
        return self._parts.pages.page(request, "job.html", content)


def _commands(job_id: str) -> Iterator[tuple[str, str]]:
    """Yield the commands that ask the service for what the job produced, each with what it does."""
    name = shlex.quote(job_id)
    yield (
        f"receiver backfill --job {name}",
        "compares the job's results with this store, shows which events never arrived, and imports them when you "
        "agree. Your handlers run on them. The service keeps results for 24 hours.",
    )
    yield (
        f"receiver jobs fetch {name}",
        "stores the results that are missing here, and no handler runs on them: they are for you to look at and to "
        "replay. A backfill finds nothing after it.",
    )
    yield (
        f"receiver jobs fetch {name} --to pages",
        "writes every document to a file in the new folder pages, and leaves the store alone.",
    )


_ORIGINS = {"backfill": Origin.BACKFILL, "fetch": Origin.IMPORT}


class JobResultPages(ConsolePages):
    """The results of a job that the service has and the store lacks."""

    @override
    def routes(self) -> list[Route]:
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
