"""`receiver demo`: a site is crawled and watched, handlers work, the receiver fails, and nothing is lost."""

import asyncio
import json
import os
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.store import open_reports
from receiver.cli.scaffold import write_deployment
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.reports import Reports
from receiver.core.text import counted
from receiver.core.types import DeliveryState
from receiver.errors import ConfigurationError, ReceiverError
from receiver.requests import MonitorRequest, Schedule, ScrapeTarget, WebhookConfig
from receiver.runtime.tracebacks import short_path
from receiver.service.extras import require_emulator
from receiver.service.responses import JobStarted
from receiver.service.schedule import RETRIES, State
from receiver.settings import PREFIX, Settings

_HANDLERS = "handlers."
"""Loggers of handlers; the demo shows their messages."""


class DemoFailed(ReceiverError):
    """The demo failed. The text says where."""


class ReceiverProcess:
    """Runs `receiver serve` in a folder, always on the same port once it has one."""

    def __init__(self, folder: Path, secret: str, service_url: str, api_key: str, console: Console) -> None:
        self.environment = _environment(secret, service_url, api_key)
        self.url = ""
        self._folder = folder
        self._console = console
        self._port = "0"
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended by itself."""
        return self._process is not None and self._process.returncode is not None

    async def start(self) -> None:
        """Start the process, and return when it listens. Raises DemoFailed if it does not."""
        command = (sys.executable, "-P", "-m", "receiver", "serve", "--port", self._port, "--json-logs")
        self._process = await asyncio.create_subprocess_exec(
            *command, cwd=self._folder, env=self.environment, stderr=asyncio.subprocess.PIPE
        )
        lines = _log_lines(self._process)
        self.url = await _listening(lines)
        self._port = self.url.partition("//")[2].partition("/")[0].rpartition(":")[2]
        self._reading = asyncio.create_task(_show_handlers(lines, self._console))

    async def stop(self) -> None:
        """Stop the process, if it runs. Raises DemoFailed if it does not end well."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        code = await process.wait()
        if self._reading is not None:
            await self._reading
        if code != 0:
            raise DemoFailed(f"`receiver serve` ended with exit code {code}")

    async def command(self, *words: str) -> str:
        """Run another command of the receiver in the folder, and return what it prints. Raises DemoFailed."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "receiver",
            *words,
            cwd=self._folder,
            env=self.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        text = output.decode(errors="replace")
        if process.returncode != 0:
            raise DemoFailed(f"`receiver {words[0]}` ended with exit code {process.returncode}: {text}")
        return text


def _environment(secret: str, service_url: str, api_key: str) -> Mapping[str, str]:
    """Return an environment without the settings of the caller's own receiver, database and chat."""
    own = (PREFIX, "CHAT_WEBHOOK_URL", "OUTPUT_DIR", "DATABASE_URL")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {
        **inherited,
        f"{PREFIX}SECRETS": json.dumps([secret]),
        f"{PREFIX}STORE": "sqlite:///receiver.db",
        f"{PREFIX}HANDLERS": "handlers:router",
        f"{PREFIX}BASE_URL": service_url,
        f"{PREFIX}API_KEY": api_key,
    }


async def _log_lines(process: asyncio.subprocess.Process) -> AsyncIterator[dict[str, str]]:
    if process.stderr is None:
        raise DemoFailed("the server's log cannot be read")
    while line := await process.stderr.readline():
        try:
            yield json.loads(line)
        except ValueError:
            click.echo(line.decode(errors="replace"), err=True, nl=False)


async def _listening(lines: AsyncIterator[dict[str, str]]) -> str:
    async for line in lines:
        if line["event"] == "listening":
            return line["url"]
    raise DemoFailed("`receiver serve` did not start; its messages are above")


async def _show_handlers(lines: AsyncIterator[dict[str, str]], console: Console) -> None:
    """Print the messages of handlers, and every error."""
    async for line in lines:
        if line["logger"].startswith(_HANDLERS) or line["level"] == "error":
            detail = line.get("exception") or line.get("error") or line.get("reason") or ""
            console.print(f"   {line['event']} {detail}".rstrip(), markup=False)


if TYPE_CHECKING:  # it loads the emulator
    from receiver.cli.demo.site import DemoService

_POLL_SECONDS = 0.1
_TIMEOUT_SECONDS = 120
_CRAWLED = 20
_PLANS = {
    "type": "object",
    "properties": {
        "plans": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "plan": {"type": "string"},
                    "price": {"type": "number"},
                    "sensors": {"type": "integer"},
                },
            },
        }
    },
}
_PLAN_COUNT = 3
_CONTACT = {"type": "object", "properties": {name: {"type": "string"} for name in ("mail", "address", "hours")}}
_FIRST_RETRY, _SECOND_RETRY, _THIRD_RETRY = timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=15)
_WAITING = (State.ATTEMPT, *RETRIES)
_A_MOMENT = timedelta(seconds=1)
"""The emulator's retries start a moment after their minute, when the attempt before them has ended."""


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path("receiver-demo"))
def demo(folder: Path) -> int:
    """Show a whole run: the service, a receiver, and handlers.

    The demo writes a deployment into FOLDER (receiver-demo by default) and starts its server and worker. It runs
    the service itself on this machine, with a small site. The service crawls the site, scrapes a batch, extracts
    data, runs an agent, and monitors a page that changes. Handlers write what arrives to files. Then the receiver
    stops for some minutes, on the service's clock, and comes back. The demo needs no internet, and the extra
    `emulator`. You may run it again; it keeps files that you have changed.
    """
    require_emulator()
    console = Console(highlight=False, soft_wrap=True)
    written = write_deployment(folder, keep=True)
    console.print(f"1. A deployment is in [bold]{folder}[/]{'' if written else ' (kept as it was)'}.")
    return asyncio.run(_demo(folder, console))


async def _demo(folder: Path, console: Console) -> int:
    from receiver.cli.demo.site import API_KEY, running_service

    secret = secrets.token_urlsafe(24)
    _keep_secret(folder / ".env", secret)
    async with running_service(secret) as service:
        receiver = ReceiverProcess(folder, secret, service.url, API_KEY, console)
        try:
            await receiver.start()
            console.print(f"2. `receiver serve` listens on {receiver.url}, with a worker beside it.")
            async with open_reports(Settings(store=f"sqlite:///{folder / 'receiver.db'}")) as reports:
                for act in ACTS:
                    await act(Stage(service, receiver, reports, console))
                dead = [one async for one in reports.deliveries(DeliveryFilter(state=DeliveryState.DEAD))]
        finally:
            await receiver.stop()
    console.print("10. Everything has stopped; the handlers have finished.\n")
    _conclude(folder, console)
    if dead:
        click.echo(f"{len(dead)} events are dead: see `receiver events list --state dead` there", err=True)
    return FAILED if dead else OK


def _keep_secret(file: Path, secret: str) -> None:
    """Write a `.env` with the secret, so that commands work in the folder after the demo; keep one that exists."""
    with suppress(FileExistsError):
        file.touch(mode=0o600, exist_ok=False)
        file.write_text(f"{PREFIX}SECRETS={secret}\n", encoding="utf-8")


def _conclude(folder: Path, console: Console) -> None:
    output = folder / "output"
    pages, jobs = sorted(output.glob("pages/**/*.md")), sorted(output.glob("jobs/*.md"))
    if not pages or not jobs:
        raise ConfigurationError(f"the handlers in {folder / 'handlers'} wrote nothing to {output}")
    console.print(f"{len(pages)} pages, such as [bold]{pages[0]}[/]")
    console.print(f"{len(jobs)} job summaries, such as [bold]{jobs[0]}[/]")
    if command := activation(Path(sys.prefix)):
        console.print(f"\nPut `receiver` on your path: [bold]{command}[/]", end="")
    console.print(
        f"\nLook around: [bold]cd {folder}[/], then `receiver events list`. Or run `receiver emulate` in one\n"
        "terminal and `receiver dev` there in another, and crawl a site of yours."
    )


def activation(environment: Path) -> str | None:
    """Return the command that makes the programs of an environment known; None if `receiver` is known."""
    script = environment / "bin" / "activate"
    return f". {short_path(str(script))}" if script.exists() and shutil.which("receiver") is None else None


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the acts take place."""

    service: "DemoService"
    receiver: ReceiverProcess
    reports: Reports
    console: Console

    def say(self, text: str) -> None:
        """Print one line of the story."""
        self.console.print(text)

    def webhook(self) -> WebhookConfig:
        """Return the webhook of a job: the receiver of the demo."""
        return WebhookConfig(url=self.receiver.url, metadata={"from": "demo"})

    async def count(self, *states: State) -> int:
        """Return how many deliveries of the service are in these states."""
        answer = await self.service.client.get("/_emulator/deliveries", params={"limit": "1"})
        counts = answer.json()["counts"]
        return sum(counts.get(state, 0) for state in states)

    async def pass_time(self, duration: timedelta) -> None:
        """Let time pass on the service's clock."""
        await self.service.emulator.advance(duration + _A_MOMENT)

    async def handled(self) -> None:
        """Return when handlers have finished with everything that was delivered."""
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            await self.service.emulator.settled()
            while await self.reports.count_unfinished():
                if self.receiver.has_ended:
                    raise DemoFailed("`receiver serve` ended before everything was handled")
                await asyncio.sleep(_POLL_SECONDS)


async def crawl(stage: Stage) -> None:
    """Crawl the whole site."""
    stage.say(f"3. The service crawls {stage.service.origin}, and sends each page as a signed webhook:")
    started = await stage.service.client.crawl(stage.service.origin, limit=_CRAWLED, webhook=stage.webhook())
    job_id = _id(started)
    with _progress(stage.console) as progress:
        task = progress.add_task("crawled", total=None)
        while True:
            status = await stage.service.client.crawl_status(job_id)
            progress.update(task, completed=status.completed or 0, total=status.total)
            if status.finished:
                break
            await asyncio.sleep(_POLL_SECONDS)
    await stage.handled()


async def batch_scrape(stage: Stage) -> None:
    """Scrape three pages."""
    stage.say("4. It scrapes a batch of three pages.")
    await stage.service.client.batch_scrape(stage.service.some_urls, webhook=stage.webhook())
    await stage.handled()


async def extract(stage: Stage) -> None:
    """Take the plans and their prices out of a page."""
    page = stage.service.changed_url
    stage.say(f"5. It extracts the plans from {page}, by rules and in the form of a JSON Schema:")
    started = await stage.service.client.extract([page], schema_=_PLANS, webhook=stage.webhook())
    await stage.handled()
    status = await stage.service.client.extract_status(_id(started))
    plans = status.data["plans"] if isinstance(status.data, dict) else []
    if len(plans) != _PLAN_COUNT or any(plan["price"] is None for plan in plans):
        raise DemoFailed("the extraction did not find every plan with its price")
    for plan in plans:
        stage.say(f"   {plan['plan']}: ${plan['price']} for {plan['sensors']} sensors")


async def agent(stage: Stage) -> None:
    """Let an agent find out how to reach the company. It gets only the first page of the site."""
    stage.say(f"6. An agent begins at {stage.service.origin} and finds out how to reach the company:")
    started = await stage.service.client.agent(
        "How can I reach the company? Find mail, address and hours",
        urls=[stage.service.origin],
        schema_=_CONTACT,
        webhook=stage.webhook(),
    )
    await stage.handled()
    status = await stage.service.client.agent_status(_id(started))
    found = status.data if isinstance(status.data, dict) else {}
    if sorted(found) != sorted(_CONTACT["properties"]) or None in found.values():
        raise DemoFailed("the agent did not find out how to reach the company")
    for name, value in found.items():
        stage.say(f"   {name}: {value}")
    stage.say(f"   It took {status.credits_used} credits; each of its steps was an event.")


async def monitor(stage: Stage) -> None:
    """Check a page twice, and change it between the checks."""
    client = stage.service.client
    page = stage.service.changed_url
    request = MonitorRequest(
        name="Prices",
        schedule=Schedule(text="hourly"),
        targets=[ScrapeTarget(urls=[page])],
        webhook=stage.webhook(),
    )
    made = await client.create_monitor(request)
    stage.say(f"7. A monitor looks at {page}, which then changes, and looks again:")
    await client.run_monitor(made.id or "")
    await stage.handled()
    stage.service.change_page()
    await client.run_monitor(made.id or "")
    await stage.handled()
    # An hour may end while the receiver is away, and the deliveries of that check would be counted with the others.
    await client.update_monitor(made.id or "", status="paused")


async def outage(stage: Stage) -> None:
    """Stop the receiver for some virtual minutes: the service's retries bring everything."""
    stage.say("8. The receiver stops. The service scrapes a batch meanwhile.")
    await stage.receiver.stop()
    await stage.service.client.batch_scrape(stage.service.some_urls, webhook=stage.webhook())
    await stage.service.emulator.settled()
    waiting = await stage.count(*_WAITING)
    stage.say(f"   {counted(waiting, 'delivery')} got no answer.")
    await stage.pass_time(_FIRST_RETRY)
    if await stage.count(*_WAITING) != waiting:
        raise DemoFailed("deliveries did not wait for their second retry")
    stage.say("   A minute later on the service's clock, the first retry of each failed, too.")
    await stage.receiver.start()
    await stage.pass_time(_SECOND_RETRY)
    if await stage.count(*_WAITING):
        raise DemoFailed("the second retry did not deliver everything")
    stage.say("   The receiver is back. 5 minutes later the second retry delivered all of them.")
    await stage.handled()


async def loss(stage: Stage) -> None:
    """Stop the receiver for longer than the service retries, and fetch what it gave up."""
    stage.say("9. The receiver stops again, for longer than the service retries.")
    await stage.receiver.stop()
    started = await stage.service.client.batch_scrape(stage.service.some_urls, webhook=stage.webhook())
    await stage.service.emulator.settled()
    for pause in (_FIRST_RETRY, _SECOND_RETRY, _THIRD_RETRY):
        await stage.pass_time(pause)
    lost = await stage.count(State.FAILED)
    stage.say(f"   After its third retry the service gave up {counted(lost, 'delivery')} for good.")
    await stage.receiver.start()
    words = ("backfill", "--job", _id(started), "--family", "batch_scrape", "--yes")
    stage.say(f"   `receiver {' '.join(words)}` asks the service what the job produced:")
    for line in (await stage.receiver.command(*words)).splitlines():
        stage.console.print(f"     {line}", markup=False)
    await stage.handled()


ACTS: tuple[Callable[[Stage], Awaitable[None]], ...] = (crawl, batch_scrape, extract, agent, monitor, outage, loss)


def _id(started: JobStarted) -> str:
    if started.id is None:
        raise DemoFailed("the service gave a job no id")
    return started.id


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("   {task.description:<8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
