"""Backfill and fetch from the page of a job, with a service on a socket."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.reports import DeliveryReader
from receiver.replay.backfill.asking import AskedResults, AskService
from receiver.web.console.app import ConsoleApp
from receiver.web.console.job_results import KEPT, MAX_KEPT, JobComparisons
from receiver.web.console.parts import ConsoleOptions
from receiver.web.console.store import StoreAccess
from tests.doubles import NOON, OpenStore, appended, eventually, soon
from tests.replay.backfill.world import JOB, Service, crawl, document, sent
from tests.service.client.calling import KEY
from tests.service.client.stub import Connection, serving
from tests.web.console.browsing import Browser

AT = f"/jobs/{JOB}"


@pytest.fixture
def service() -> Service:
    """A crawl of three pages, of which one failed."""
    return crawl(document(1), document(2), errors=[{"url": "https://example.com/bad", "error": "Timed out"}])


@pytest.fixture
def address(service: Service) -> Iterator[str]:
    """Where it listens."""

    def answer(connection: Connection) -> None:
        found = service.answers.get(connection.path, 404)
        if isinstance(found, int):
            connection.answer(found, {"success": False, "error": "<b>no such job</b>"})
        else:
            connection.answer(200, found)

    with serving(answer) as made:
        yield made.address


@pytest.fixture
def clock() -> VirtualClock:
    """The time of the console."""
    return VirtualClock(NOON + timedelta(hours=1))


@pytest.fixture
async def store() -> OpenStore:
    """Only the first page has arrived."""
    made = OpenStore()
    await appended(made, sent("crawl.page", "w1", [document(1)]))
    return made


@pytest.fixture
async def browser(store: OpenStore, clock: VirtualClock, address: str) -> AsyncIterator[Browser]:
    """A browser for a console with an API key."""
    app = ConsoleApp(store, clock, ConsoleOptions(version="1", results=AskService(KEY, address, clock)))
    async with app.lifespan():
        yield Browser(app)


async def asked(browser: Browser) -> str:
    """Ask the service from the page of the job; return the page with the answer."""
    answer = await browser.send(f"{AT}/ask", at=AT)
    assert answer.headers["location"] == f"{AT}/results"
    await soon(browser.app.parts.comparisons.idle())
    return await browser.page(f"{AT}/results")


async def stored(store: OpenStore) -> list[str]:
    """Return the origins of what is stored."""
    return [one.delivery.origin.value async for one in store.iter_deliveries(DeliveryFilter())]


@pytest.mark.parametrize(("verb", "origin"), [("backfill", "backfill"), ("fetch", "import")])
async def test_missing_events_are_shown_and_then_imported(
    browser: Browser, store: OpenStore, verb: str, origin: str
) -> None:
    """The action is recorded with its progress. The second comparison finds nothing."""
    page = await asked(browser)
    assert "3 of 4 events are missing" in page
    assert "crawl.completed" in page
    assert await stored(store) == ["sender"]

    answer = await browser.send(f"{AT}/{verb}", at=f"{AT}/results")
    await soon(browser.app.parts.runs.idle())

    assert await stored(store) == ["sender", origin, origin, origin]
    record = await browser.page(answer.headers["location"])
    assert "3 of 3 changed" in record
    assert f"job {JOB}" in record
    assert "Nothing is missing" in await asked(browser)
    again = await browser.send(f"{AT}/{verb}", at=AT)
    await soon(browser.app.parts.runs.idle())
    assert again.headers["location"] == "/actions/2"
    assert "0 of 0 changed" in await browser.page("/actions/2")


async def test_a_job_that_cannot_be_compared_says_why(browser: Browser, service: Service) -> None:
    service.answers.clear()

    page = await asked(browser)

    assert "The job cannot be compared" in page
    assert "404" in page or "unknown" in page
    assert "<b>no such" not in page
    assert KEY not in page


async def test_without_an_api_key_the_page_says_what_to_set(store: OpenStore, clock: VirtualClock) -> None:
    browser = Browser(ConsoleApp(store, clock, ConsoleOptions(version="1")))

    page = await browser.page(AT)

    assert "set RECEIVER_API_KEY where the console runs" in page
    assert "Compare with the service" not in page
    refused = await browser.send(f"{AT}/ask")
    assert refused.status_code == 400
    assert "RECEIVER_API_KEY" in refused.text
    assert (await browser.http.get(f"{AT}/results")).headers["location"] == AT


class Slow:
    """A service that answers when it is let."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.closed = 0
        self.counts = {"crawl.page": 1}
        self.produced, self.unclear = 1, 0

    async def compare(self, reports: DeliveryReader, job_id: str, told: Callable[[], None]) -> AskedResults:
        """Tell one event, and wait."""
        told()
        await self.goes_on.wait()
        return self  # type: ignore[return-value]

    def close(self) -> None:
        """Count."""
        self.closed += 1


async def test_the_page_shows_how_far_the_service_has_told(store: OpenStore, clock: VirtualClock) -> None:
    """It reloads by itself, with JavaScript and without."""
    app = ConsoleApp(store, clock, ConsoleOptions(version="1", results=Slow()))
    browser = Browser(app)

    await browser.send(f"{AT}/ask", at=AT)
    asked_for = app.parts.comparisons.find(JOB)
    assert asked_for is not None
    await eventually(lambda: asked_for.asked == 1)
    page = await browser.page(f"{AT}/results")

    assert "1 event so far" in page
    assert 'hx-trigger="every 1s"' in page
    assert '<noscript><meta http-equiv="refresh"' in page
    await app.parts.comparisons.aclose()


async def test_results_that_nobody_decides_about_are_forgotten(clock: VirtualClock) -> None:
    source = Slow()
    source.goes_on.set()
    comparisons = JobComparisons(source, StoreAccess(OpenStore()), clock)
    for number in range(MAX_KEPT + 1):
        comparisons.begin(f"job-{number}")
        await comparisons.idle()

    assert comparisons.find("job-0") is None
    assert comparisons.find("job-1") is not None
    assert source.closed == 1
    clock.advance(KEPT + timedelta(seconds=1))
    assert comparisons.find("job-1") is None
    assert source.closed == MAX_KEPT + 1
    assert comparisons.take("job-2") is None
