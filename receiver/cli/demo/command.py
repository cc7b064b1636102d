"""`receiver demo`: a whole run with real processes and signed deliveries."""

import asyncio
import json
import os
import random
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.store import open_reports
from receiver.cli.scaffold import write_deployment
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.reports import Reports
from receiver.core.tracebacks import short_path
from receiver.core.types import DeliveryState
from receiver.errors import ConfigurationError, ReceiverError
from receiver.service.samples import encode, job_story
from receiver.service.sender import Sender, SendResult
from receiver.settings import PREFIX, Settings

_STORIES = (("crawl", 20), ("batch_scrape", 10), ("monitor", 6), ("agent", 3), ("extract", 2))
_TIMEOUT_SECONDS = 120
_POLL_SECONDS = 0.1
_HANDLERS = "handlers."
"""Loggers of handlers; the demo shows their messages."""


class DemoFailed(ReceiverError):
    """The demo failed. The text says where."""


@dataclass(frozen=True, slots=True)
class _Server:
    """The receiver that the demo started."""

    process: asyncio.subprocess.Process
    url: str


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path("receiver-demo"))
def demo(folder: Path) -> int:
    """Show a whole run: a server, signed deliveries, handlers.

    The demo writes a deployment into FOLDER (receiver-demo by default), starts its server and worker on a free
    port, sends invented jobs with signatures over HTTP, waits until the handlers have finished, and stops. You may
    run it again; it keeps files that you have changed.
    """
    console = Console(highlight=False, soft_wrap=True)
    written = write_deployment(folder, keep=True)
    console.print(f"1. A deployment is in [bold]{folder}[/]{'' if written else ' (kept as it was)'}.")
    return asyncio.run(_demo(folder, console))


async def _demo(folder: Path, console: Console) -> int:
    secret = secrets.token_urlsafe(24)
    _keep_secret(folder / ".env", secret)
    bodies = [encode(payload) for payload in _payloads(random.Random())]  # noqa: S311 - ids of made-up events
    async with _serving(folder, secret, console) as server:
        console.print(f"2. `receiver serve` listens on {server.url}, with a worker beside it.")
        console.print(f"3. {len(bodies)} signed deliveries go there, as the service would send them:")
        async with Sender(server.url, secret=secret) as sender, _reports(folder) as reports:
            with _progress(console) as progress:
                await _send(sender, bodies, progress)
                await _wait_until_handled(reports, len(bodies), server, progress)
            dead = [one async for one in reports.deliveries(DeliveryFilter(state=DeliveryState.DEAD))]
    console.print("4. Server and worker have stopped; the handlers have finished.\n")
    _conclude(folder, console)
    if dead:
        click.echo(f"{len(dead)} events are dead: see `receiver events list --state dead` there", err=True)
    return FAILED if dead else OK


def _keep_secret(file: Path, secret: str) -> None:
    """Write a `.env` with the secret, so that commands work in the folder after the demo; keep one that exists."""
    with suppress(FileExistsError):
        file.touch(mode=0o600, exist_ok=False)
        file.write_text(f"{PREFIX}SECRETS={secret}\n", encoding="utf-8")


def _payloads(rng: random.Random) -> Iterator[dict[str, object]]:
    for family, pages in _STORIES:
        yield from job_story(family, pages, rng)


# --- the server


@asynccontextmanager
async def _serving(folder: Path, secret: str, console: Console) -> AsyncIterator[_Server]:
    """Run `receiver serve` in the folder during the block; it must stop with exit code 0."""
    command = (sys.executable, "-P", "-m", "receiver", "serve", "--port", "0", "--json-logs")
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=_environment(secret), stderr=asyncio.subprocess.PIPE
    )
    lines = _log_lines(process)
    reading: asyncio.Task[None] | None = None
    try:
        url = await _listening(lines)
        reading = asyncio.create_task(_show_handlers(lines, console))
        yield _Server(process, url)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        code = await process.wait()
        if reading is not None:
            await reading
    if code != 0:
        raise DemoFailed(f"`receiver serve` ended with exit code {code}")


def _environment(secret: str) -> Mapping[str, str]:
    """Return an environment without the settings of the caller's own receiver, database and chat."""
    own = (PREFIX, "CHAT_WEBHOOK_URL", "OUTPUT_DIR", "DATABASE_URL")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {
        **inherited,
        f"{PREFIX}SECRETS": json.dumps([secret]),
        f"{PREFIX}STORE": "sqlite:///receiver.db",
        f"{PREFIX}HANDLERS": "handlers:router",
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


# --- sending and waiting


@asynccontextmanager
async def _reports(folder: Path) -> AsyncIterator[Reports]:
    async with open_reports(Settings(store=f"sqlite:///{folder / 'receiver.db'}")) as reports:
        yield reports


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("   {task.description:<8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


async def _send(sender: Sender, bodies: list[bytes], progress: Progress) -> None:
    task = progress.add_task("sent", total=len(bodies))

    def report(body: bytes, result: SendResult) -> None:
        if not result.ok:
            raise DemoFailed(result.meaning)
        progress.advance(task)

    await sender.send_all(bodies, report)


async def _wait_until_handled(reports: Reports, total: int, server: _Server, progress: Progress) -> None:
    task = progress.add_task("handled", total=total)
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            while (left := await reports.count_unfinished()) > 0:
                progress.update(task, completed=max(0, total - left))
                if server.process.returncode is not None:
                    raise DemoFailed("`receiver serve` ended before everything was handled")
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise DemoFailed(f"{left} deliveries were not handled within {_TIMEOUT_SECONDS} s") from None
    progress.update(task, completed=total)


# --- the end


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
        f"\nLook around: [bold]cd {folder}[/], then `receiver events list`. Or run `receiver dev` there, edit\n"
        "handlers/, and run `receiver send crawl --pages 5` there in another terminal."
    )


def activation(environment: Path) -> str | None:
    """Return the command that makes the programs of an environment known; None if `receiver` is known."""
    script = environment / "bin" / "activate"
    return f". {short_path(str(script))}" if script.exists() and shutil.which("receiver") is None else None
