"""The shortened job ids that `--job` takes."""

from dataclasses import replace
from typing import TypeVar

from receiver.core.deliveries import DeliveryFilter
from receiver.core.jobs import JobFilter
from receiver.core.ports.reports import JobReader
from receiver.core.work import WorkFilter

Filter = TypeVar("Filter", DeliveryFilter, WorkFilter, JobFilter)


async def with_whole_job_id(reports: JobReader, wanted: Filter) -> Filter:
    """Return the filter with the whole id of the job that `--job` names by its beginning.

    Raises UnknownJob if no job begins so, or several do.
    """
    if wanted.job_id is None:
        return wanted
    return replace(wanted, job_id=await reports.resolve_job(wanted.job_id))
