"""`receiver demo`: a site is crawled and watched, handlers work, the receiver fails, and nothing is lost."""

import asyncio
import secrets
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import click
from rich.console import Console

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.store import open_reports
from receiver.cli.demo.acts import ACTS, Stage
from receiver.cli.demo.receiver_process import ReceiverProcess
from receiver.cli.scaffold import write_deployment
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.reports import Reports
from receiver.core.types import DeliveryState
from receiver.errors import ConfigurationError
from receiver.runtime.tracebacks import short_path
from receiver.service.extras import require_emulator
from receiver.settings import PREFIX, Settings


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
            async with _reports(folder) as reports:
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


@asynccontextmanager
async def _reports(folder: Path) -> AsyncIterator[Reports]:
    async with open_reports(Settings(store=f"sqlite:///{folder / 'receiver.db'}")) as reports:
        yield reports


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
