"""Serves an emulator on a socket until a signal comes."""

import asyncio
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import click
import uvicorn

from receiver.cli.common.exit_codes import OK
from receiver.cli.common.interrupt import stop_signals
from receiver.cli.common.output import quoted
from receiver.core.addresses import is_loopback
from receiver.core.text import escape_controls
from receiver.core.units import in_words
from receiver.emulator.app import Emulator
from receiver.emulator.browser.executable import find_browser
from receiver.emulator.bundled import BUNDLED_ORIGIN
from receiver.emulator.options import EmulatorOptions
from receiver.errors import ConfigurationError
from receiver.web.listening import address, bind
from receiver.web.server import Server

_GRACE_SECONDS = 5


async def serve_emulator(options: EmulatorOptions, host: str, port: int) -> int:
    """Serve until a signal comes, and return the exit code. The output names the address and what is allowed."""
    listener = bind(host, port)
    emulator = Emulator(options)
    server = Server(
        uvicorn.Config(
            emulator,
            ws="websockets-sansio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
    )
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, server.handle_exit, number, None)
    try:
        emulator.address.url = address(listener)
        async with emulator.lifespan():
            for line in start_lines(options, address(listener)):
                click.echo(line)
            await server.serve(sockets=[listener])
    except sqlite3.Error as exc:
        raise ConfigurationError(f"cannot use the state file {options.state}: {exc}") from None
    finally:
        listener.close()
    click.echo("The emulator has stopped.")
    return OK


def start_lines(options: EmulatorOptions, url: str) -> Iterator[str]:
    """Yield what a user has to know at the start, without any secret."""
    yield f"The emulator listens on {url}. Ctrl-C stops it."
    for name, value in _facts(options, url):
        yield f"  {name:<9} {escape_controls(value)}"
    first = next(iter(options.sites), BUNDLED_ORIGIN if options.bundled_site else "http://127.0.0.1")
    key = "YOUR_KEY" if options.keys else "fc-any"
    yield ""
    yield f"  RECEIVER_BASE_URL={url} RECEIVER_API_KEY={key} \\"
    yield f"    receiver start crawl {quoted(first)}"
    yield ""


def _facts(options: EmulatorOptions, url: str) -> Iterator[tuple[str, str]]:
    for origin, source in options.sites.items():
        yield "site", f"{origin} from {source}" if isinstance(source, Path) else origin
    if options.bundled_site:
        yield "site", f"{BUNDLED_ORIGIN}, a small one of this package"
    yield "internet", "fetched, too" if options.allow_internet else "not fetched (--allow-internet)"
    if options.allow_private:
        yield "private", "networks are fetched, too"
    browser = find_browser(options)
    yield "browser", "none (`receiver check` says why)" if browser.executable is None else browser.text
    if browser.executable is not None and not browser.has_sandbox:
        yield "WARNING", "without its sandbox: scrape only pages that you trust"
    given = f"{len(options.keys)} given" if options.keys else "any passes (--key)"
    yield "keys", "calls pass without one, too" if options.open_access else given
    if not is_loopback(urlsplit(url).hostname or "") and not options.keys:
        yield "WARNING", "other machines reach it, and any key passes: add --key"
    yield "state", "in memory, lost at the end (--state FILE)" if options.state is None else str(options.state)
    yield "webhooks", "with signature" if options.webhook_secret else "without signature (--webhook-secret)"
    if options.speed != 1:
        yield "time", f"{options.speed:g} times as fast"
    if options.plan is not None:
        yield "limits", f"those of the plan {options.plan}"
    if options.page_delay > timedelta(0):
        yield "pages", f"take {in_words(options.page_delay)} each"
    yield "model", "rules, no model (--model-url)" if options.model_url is None else options.model_name
