"""What the page of a job says about work that waits, and about asking the service."""

from datetime import timedelta
from html import escape

from receiver.core.work import Hold
from tests.doubles import delivery
from tests.stores.opened import AFTER, DONE, ONE, TWO, Opened, after_noon, ended
from tests.web.console.browsing import Browser

SECOND = timedelta(seconds=1)


async def test_a_job_says_what_its_held_work_waits_for(browser: Browser, opened: Opened) -> None:
    await opened.add(delivery("end", kind="crawl.completed", job_id="job-1"))
    (held,) = await opened.route(ONE, claim=False, hold=Hold(after_noon(SECOND), AFTER))
    await opened.queue.recheck(held, at=after_noon(SECOND), note="the page <k7> is not handled yet")

    page = await browser.page("/jobs/job-1")

    assert "Waits for pages" in page
    assert f'href="/work-items/{held}"' in page
    assert "the page &lt;k7&gt; is not handled yet" in page


async def test_a_job_without_held_work_has_no_list_of_it(browser: Browser, opened: Opened) -> None:
    await opened.add(delivery("end", kind="crawl.completed", job_id="job-1"))
    (work_id,) = await opened.route(TWO)
    await opened.settle(ended(work_id, DONE))

    assert "Waits for pages" not in await browser.page("/jobs/job-1")


async def test_commands_for_a_job_can_be_copied_into_a_shell(browser: Browser, opened: Opened) -> None:
    """Whatever the sender called the job."""
    await opened.add(delivery("end", kind="crawl.completed", job_id="job-1;$(reboot)"))

    page = await browser.page("/jobs/job-1")

    quoted = escape("'job-1;$(reboot)'", quote=True).replace("&#x27;", "&#39;")
    assert f"receiver backfill --job {quoted}" in page
    assert f"receiver jobs fetch {quoted}" in page
    assert f"receiver jobs fetch {quoted} --to pages" in page
