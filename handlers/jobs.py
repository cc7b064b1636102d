"""Every job has a one-page summary, output/jobs/<family>-<job id>.md, rewritten with each of its deliveries.

It is right for every order of deliveries, for repeated ones, and for several at one time. A page counts once, by
its URL, with its best outcome: good, then answered with a status of 400 or more, failed, empty, cancelled with its
job. If the last event of a job never arrives, the state stays `running`.
"""

import re
from collections.abc import Iterator

from handlers.files import (
    fingerprint,
    front_matter,
    one_line,
    one_writer,
    output_folder,
    replace_file,
    safe_name,
    timestamp,
    unique_name,
)
from handlers.tally import DeliveryFacts, JobRecord, Outcome, Page, count, open_tally, read
from receiver import Context, Router
from receiver.events import Event, PageEvent

PROBLEMS_SHOWN = 5
_PAGES = {
    "pages_good": Outcome.GOOD,
    "pages_error_status": Outcome.ERROR_STATUS,
    "pages_failed": Outcome.FAILED,
    "pages_empty": Outcome.EMPTY,
    "pages_cancelled": Outcome.CANCELLED,
}

router = Router()


@router.on("crawl.*", "batch_scrape.*", "extract.*", "agent.*", where=lambda event: event.job_id)
def summarise(event: Event, ctx: Context) -> None:
    """Count the delivery once, and write the summary again from everything that was counted."""
    folder = output_folder("jobs")
    facts = delivery_facts(event, ctx)
    # A summary is read and written under the same lock, so no older one can come after a newer one.
    with one_writer(folder):
        tally = open_tally(folder.parent / "jobs.db")
        count(tally, facts)
        summary = render(read(tally, facts.job, problems=PROBLEMS_SHOWN))
        replace_file(folder / f"{facts.job}.md", summary.encode())


def delivery_facts(event: Event, ctx: Context) -> DeliveryFacts:
    """Return the facts in this delivery about its job, as clean texts of bounded length."""
    family = event.type.partition(".")[0]
    name = f"{family}-{event.job_id}"
    return DeliveryFacts(
        job=name if safe_name(name) == name else unique_name(name, name),
        family=family,
        job_id=one_line(event.job_id or "", 100),
        metadata={one_line(key, 60): one_line(str(event.metadata[key]), 200) for key in list(event.metadata)[:20]},
        delivery=ctx.delivery.id,
        type=one_line(event.type, 60),
        received_at=timestamp(ctx.delivery.received_at),
        error=None if isinstance(event, PageEvent) or not event.error else one_line(event.error, 300),
        page=page_facts(event, ctx) if isinstance(event, PageEvent) else None,
    )


def page_facts(event: PageEvent, ctx: Context) -> Page:
    """Return the facts in this delivery about its page. A page without a URL is identified by its delivery."""
    outcome, problem = outcome_of(event)
    return Page(
        key=fingerprint(event.url) if event.url else ctx.delivery.id,
        url=one_line(event.url or "a page without a URL", 300),
        outcome=outcome,
        problem=None if problem is None else one_line(problem, 300),
    )


def outcome_of(event: PageEvent) -> tuple[Outcome, str | None]:
    """Return the outcome of the page, and its problem or None."""
    if event.cancelled_by_parent:
        return Outcome.CANCELLED, None
    if event.failed:
        return Outcome.FAILED, event.error or "no reason given"
    if not event.data:
        return Outcome.EMPTY, None
    if event.status_code is not None and event.status_code >= 400:
        return Outcome.ERROR_STATUS, f"{event.status_code} {event.data[0].metadata.error or ''}"
    return Outcome.GOOD, None


def state(record: JobRecord) -> str:
    """Return `running`, `completed`, `failed` or `cancelled`.

    The service ends a cancelled crawl or batch scrape as completed; only its cancelled pages show the difference.
    """
    ends = {arrivals.type.rpartition(".")[2] for arrivals in record.arrivals}
    if "cancelled" in ends or record.pages.get(Outcome.CANCELLED):
        return "cancelled"
    return next((end for end in ("failed", "completed") if end in ends), "running")


def render(record: JobRecord) -> str:
    """Return the summary: front matter for programs, tables for people."""
    pages = {name: record.pages.get(outcome, 0) for name, outcome in _PAGES.items()} if record.pages else {}
    head = front_matter(
        {
            "family": record.family,
            "job_id": record.job_id,
            "state": state(record),
            "started": any(arrivals.type.endswith(".started") for arrivals in record.arrivals),
            "first_arrival": min(arrivals.first_at for arrivals in record.arrivals),
            "last_arrival": max(arrivals.last_at for arrivals in record.arrivals),
            **pages,
        }
    )
    return "\n".join([head, *_lines(record, pages)]) + "\n"


def _lines(record: JobRecord, pages: dict[str, int]) -> Iterator[str]:
    yield f"# {record.family.replace('_', ' ').capitalize()} {_plain(record.job_id)}: {state(record)}"
    for arrivals in record.arrivals:
        if arrivals.error:
            yield f"\n**{_plain(arrivals.type)}**: {_plain(arrivals.error)}"
    if pages:
        yield "\n| Pages | |\n| --- | ---: |"
        yield from (
            f"| {name.removeprefix('pages_').replace('_', ' ')} | {number} |" for name, number in pages.items()
        )
    yield "\n| Event | Deliveries | First | Last |\n| --- | ---: | --- | --- |"
    for one in record.arrivals:
        yield f"| {_plain(one.type)} | {one.deliveries} | {_clock(one.first_at)} | {_clock(one.last_at)} |"
    if record.problems:
        yield "\n## Last problems\n"
        yield from (f"- {_link(one.url)}: {_plain(one.text)}" for one in record.problems)
    if record.metadata:
        yield "\n## Metadata\n"
        yield from (f"- {_plain(name)}: {_plain(value)}" for name, value in record.metadata.items())


def _plain(text: str) -> str:
    """Return a text in which no character has a special meaning in Markdown (CommonMark 0.31, section 2.4)."""
    return re.sub(r"([\\`*_\[\]<>|&~])", r"\\\1", text)


def _link(url: str) -> str:
    """Return an autolink (CommonMark 0.31, section 6.5) for a web address, and plain text for anything else."""
    if not url.startswith(("https://", "http://")):
        return _plain(url)
    return f"<{url.replace('<', '%3C').replace('>', '%3E').replace(' ', '%20')}>"


def _clock(moment: str) -> str:
    return f"{moment[:10]} {moment[11:19]} UTC"
