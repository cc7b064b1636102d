"""A page of jobs counts a limited number of deliveries."""

from receiver.core.jobs import JobFilter
from receiver.web.console.reports import newest_jobs
from tests.doubles import delivery
from tests.stores.opened import Opened


async def shown(opened: Opened, most: int, most_deliveries: int, before: int | None = None) -> tuple[str, bool]:
    """Return the jobs of a page, which have one letter each, and whether there are others."""
    found, has_more = await newest_jobs(
        opened.reports, JobFilter(), most=most, before=before, most_deliveries=most_deliveries
    )
    return "".join(one.job_id for one in found), has_more


async def test_a_page_ends_early_where_jobs_are_long_and_the_next_one_goes_on(opened: Opened) -> None:
    """One job is always on it, however long it is."""
    for job in "abc":
        await opened.add(*[delivery(f"{job}{number}", job_id=job) for number in range(3)])

    assert await shown(opened, 5, 100) == ("cba", False)
    assert await shown(opened, 2, 100) == ("cb", True)
    assert await shown(opened, 5, 6) == ("cb", True)
    assert await shown(opened, 5, 1) == ("c", True)
    assert await shown(opened, 5, 1, before=4) == ("a", False)
    assert await shown(opened, 3, 9) == ("cba", False)
