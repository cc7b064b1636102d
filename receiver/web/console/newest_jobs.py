"""As many jobs as a page can read in a short time: the line of a job counts all of its deliveries."""

from dataclasses import replace

from receiver.core.jobs import JobFilter, JobSummary
from receiver.core.ports.reports import JobReader

MAX_DELIVERIES = 20_000
"""Deliveries of the jobs on a page. One job alone may have more."""


async def newest_jobs(
    reports: JobReader,
    wanted: JobFilter,
    *,
    most: int,
    before: int | None = None,
    most_deliveries: int = MAX_DELIVERIES,
    through: int | None = None,
) -> tuple[list[JobSummary], bool]:
    """Return the newest wanted jobs, and whether there are others; fewer than `most` where jobs are long."""
    found: list[JobSummary] = []
    deliveries = 0
    async for one in reports.jobs(replace(wanted, limit=most + 1), before=before, through=through):
        deliveries += one.deliveries
        if len(found) == most or (found and deliveries > most_deliveries):
            return found, True
        found.append(one)
    return found, False
