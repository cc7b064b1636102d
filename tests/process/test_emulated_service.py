"""The emulated service, a receiver and its handlers, as real processes: killed in the middle, nothing is lost."""

import asyncio
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.process.harness import SECRET, Deployment, Program, Serving, until
from tests.process.waiting import until_told

ORIGIN = "https://docs.acme.test"
PAGES = 40
EVENTS = Counter({"crawl.started": 1, "crawl.page": PAGES, "crawl.completed": 1})
STEPS = 20
"""The most pages of an agent."""
LATE = "2m"
"""How long the first pages and the end of each job are held back: a kill finds something that has not arrived."""
OUTAGE = "25m"
"""Longer than the service retries: 1, 5 and 15 minutes after a failure."""
Json = dict[str, Any]

HANDLERS = """
import os
from receiver import Context, Router
from receiver.events import CrawlPage

router = Router()
out = os.open("handled", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

@router.on(CrawlPage)
async def record(event: CrawlPage, ctx: Context) -> None:
    os.write(out, f"{ctx.job_id}={event.url}\\n".encode())
"""


def write_site(folder: Path) -> list[str]:
    """Write pages of which each leads to the next two, and return their URLs."""
    folder.mkdir()
    names = ["index.html", *(f"page-{number}.html" for number in range(1, PAGES))]
    for number, name in enumerate(names):
        links = "".join(f'<a href="/{one}">{one}</a> ' for one in names[2 * number + 1 : 2 * number + 3])
        (folder / name).write_text(f"<title>{name}</title><main><h1>{name}</h1>{links}</main>")
    return [ORIGIN, *(f"{ORIGIN}/{name}" for name in names[1:])]


@dataclass
class Emulated:
    """The emulator of a deployment, over HTTP as everybody reaches it."""

    address: str

    async def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        """Make a call of the API, or of the admin API."""
        async with httpx.AsyncClient(base_url=self.address, timeout=60, trust_env=False) as http:
            headers = {"Authorization": "Bearer fc-any"}
            answer = await http.request(method, path, json=body, headers=headers)
        found: Json = answer.json()
        assert answer.status_code == 200, found
        return found

    async def start_crawl(self, port: int) -> str:
        """Crawl the site, with a webhook to the receiver on this port."""
        for kind, times in (("crawl.page", 3), ("crawl.completed", 1)):
            await self.ask("POST", "/_emulator/faults", {"webhook": kind, "times": times, "late": LATE})
        webhook = {"url": f"http://127.0.0.1:{port}/webhooks", "metadata": {"order": "17"}}
        started = await self.ask("POST", "/v2/crawl", {"url": ORIGIN, "sitemap": "skip", "webhook": webhook})
        return str(started["id"])

    async def ended(self, job: str, family: str = "crawl") -> Json:
        """Return the job when it has ended, and let each of its events be tried."""
        status: Json = {}

        async def is_over() -> bool:
            status.update(await self.ask("GET", f"/v2/{family}/{job}"))
            return status["status"] not in ("scraping", "processing")

        await until_told(is_over, "the job to end")
        await self.pass_time(LATE)
        return status

    async def deliveries(self, job: str) -> list[Json]:
        """Return what the emulator knows of the events of a job."""
        return list((await self.ask("GET", f"/_emulator/deliveries?limit=1000&job={job}"))["deliveries"])

    async def ids(self, job: str, state: str) -> set[str]:
        """Return the ids of the events of a job that are in this state."""
        return {one["id"] for one in await self.deliveries(job) if one["state"] == state}

    async def tried_to_the_end(self, job: str) -> None:
        """Let the time of all retries pass, until each event of a job was delivered or given up.

        On a busy machine some attempts end later than the admin API waits for them; so do their retries.
        """

        async def is_over() -> bool:
            await self.pass_time(OUTAGE)
            return all(one["state"] in ("delivered", "failed") for one in await self.deliveries(job))

        await until_told(is_over, "every event to be delivered or given up")

    async def pass_time(self, duration: str) -> None:
        """Let time pass on the emulator's clock, and everything come that is due on the way."""
        await self.ask("POST", "/_emulator/clock", {"advance": duration})


def emulate(folder: Path, *more: str) -> tuple[str, ...]:
    """Return the arguments that emulate the service for the site. A page takes a while, so there is a middle."""
    site = ("--no-bundled-site", "--site", f"{ORIGIN}={folder / 'site'}", "--max-concurrency", "2")
    return ("emulate", "--port", "0", *site, "--webhook-secret", SECRET, "--page-delay", "30ms", *more)


async def address_of(emulator: Program) -> Emulated:
    """Return the emulator, once it listens."""
    found = re.search(r"http://127\.0\.0\.1:\d+", await emulator.line("http://127.0.0.1:"))
    assert found is not None
    return Emulated(found[0])


def stored(deployment: Deployment, job: str) -> dict[str, str]:
    """Return the type of every event of a job that the store has, by its id; an id stored twice fails."""
    rows = deployment.rows("SELECT key, type FROM deliveries WHERE job_id = ?", job)
    assert len(rows) == len({key for key, _ in rows})
    return dict(rows)


def handled(deployment: Deployment, job: str) -> set[str]:
    """Return the URLs of the pages of a job that the handler has seen."""
    return {one.partition("=")[2] for one in deployment.handled() if one.startswith(f"{job}=")}


async def kill_in_the_middle(deployment: Deployment, receiver: Serving, job: str) -> None:
    """Kill the receiver with all of its processes, once it has some pages of a job."""
    await until(lambda: len(stored(deployment, job)) >= 5, "some events to be stored")
    receiver.kill_all()
    await receiver.gone()
    assert len(stored(deployment, job)) < EVENTS.total()


async def test_what_was_delivered_is_stored_and_what_failed_is_backfilled(tmp_path: Path) -> None:
    """The receiver is killed twice: once for less than the retries take, and once for longer."""
    urls = write_site(tmp_path / "site")
    deployment = Deployment(tmp_path, api_key="fc-any")
    deployment.write_handlers(HANDLERS)
    async with deployment.start(*emulate(tmp_path)) as program:
        service = await address_of(program)
        deployment.settings["BASE_URL"] = service.address
        async with deployment.serve() as receiver:
            deployment.settings["PORT"] = str(receiver.port)
            short = await service.start_crawl(receiver.port)
            await kill_in_the_middle(deployment, receiver, short)
        assert (await service.ended(short))["completed"] == PAGES

        async with deployment.serve() as receiver:
            await service.tried_to_the_end(short)
            delivered = await service.ids(short, "delivered")
            assert delivered == stored(deployment, short).keys()
            assert Counter(stored(deployment, short).values()) == EVENTS

            long = await service.start_crawl(receiver.port)
            await kill_in_the_middle(deployment, receiver, long)
        await service.ended(long)
        await service.tried_to_the_end(long)
        failed, kept = await service.ids(long, "failed"), stored(deployment, long).keys()
        # An event that was stored, and whose answer the kill prevented, has failed for the service.
        assert await service.ids(long, "delivered") == kept - failed
        assert len(await service.deliveries(long)) == EVENTS.total()

        async with deployment.serve():
            await backfill(deployment, long, imported=len(failed - kept))
            await deployment.all_handled_in_the_end()
        assert await service.ids(short, "delivered") == delivered

    found = stored(deployment, long)
    assert Counter(found.values()) == EVENTS
    assert {key for key in found if key.startswith("backfill:")} == found.keys() - kept
    assert handled(deployment, short) == handled(deployment, long) == set(urls)


async def backfill(deployment: Deployment, job: str, *, imported: int) -> None:
    """Backfill a job: the command brings this many events, and then none."""
    for number in (imported, 0):
        done = await asyncio.to_thread(deployment.run, "backfill", "--job", job, "--yes")
        assert done.code == 0, done.text
        assert f"{number} events to import" in done.text, done.text


async def test_the_killed_emulator_goes_on_with_its_jobs_and_webhooks(tmp_path: Path) -> None:
    """With its state in a file: each page is scraped, and each event arrives and is stored once."""
    urls = write_site(tmp_path / "site")
    deployment = Deployment(tmp_path)
    deployment.write_handlers(HANDLERS)
    arguments = emulate(tmp_path, "--state", "emulator.db")
    async with deployment.serve() as receiver:
        async with deployment.start(*arguments) as program:
            service = await address_of(program)
            job = await service.start_crawl(receiver.port)
            await until(lambda: len(stored(deployment, job)) >= 5, "some events to be stored")
            program.kill_all()
            await program.gone()
        assert len(stored(deployment, job)) < EVENTS.total()

        async with deployment.start(*arguments) as program:
            service = await address_of(program)
            status = await service.ended(job)
            await service.tried_to_the_end(job)
            assert await service.ids(job, "delivered") == stored(deployment, job).keys()
        await deployment.all_handled()

    assert (status["status"], status["completed"], status["total"]) == ("completed", PAGES, PAGES)
    assert Counter(stored(deployment, job).values()) == EVENTS
    assert handled(deployment, job) == set(urls)


async def test_the_killed_emulator_goes_on_with_its_agent(tmp_path: Path) -> None:
    """Each page is paid for once, and each step of the agent arrives and is stored once."""
    urls = write_site(tmp_path / "site")[:STEPS]
    deployment = Deployment(tmp_path)
    deployment.write_handlers(HANDLERS)
    arguments = emulate(tmp_path, "--state", "emulator.db")
    async with deployment.serve() as receiver:
        async with deployment.start(*arguments) as program:
            service = await address_of(program)
            webhook = {"url": f"http://127.0.0.1:{receiver.port}/webhooks"}
            body = {"prompt": "titles", "urls": urls, "strictConstrainToURLs": True, "webhook": webhook}
            job = str((await service.ask("POST", "/v2/agent", body))["id"])
            await until(lambda: len(stored(deployment, job)) >= 4, "some steps to be stored")
            program.kill_all()
            await program.gone()
        assert len(stored(deployment, job)) < STEPS + 2

        async with deployment.start(*arguments) as program:
            service = await address_of(program)
            status = await service.ended(job, "agent")
            await service.tried_to_the_end(job)
            usage = (await service.ask("GET", "/v2/team/credit-usage"))["data"]

    assert (status["status"], status["creditsUsed"]) == ("completed", 5 * STEPS)
    assert usage["planCredits"] - usage["remainingCredits"] == 5 * STEPS
    expected = Counter({"agent.started": 1, "agent.action": STEPS, "agent.completed": 1})
    assert Counter(stored(deployment, job).values()) == expected
