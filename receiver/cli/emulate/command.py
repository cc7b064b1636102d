"""`receiver emulate`: the service itself, until a signal comes."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from receiver.cli.common.filters import Number, WholeNumber, text
from receiver.cli.common.lazy_group import LazyGroup
from receiver.core.units import parse_duration
from receiver.runtime.logs import configure_logs, log_crashes
from receiver.service.extras import require_emulator
from receiver.signals.traces.switch import switch_on
from receiver.stores.sqlite.system_files import require_no_companion

DEFAULT_PORT = 3002
_SUBCOMMANDS = {"journal": "receiver.cli.emulate.journal:journal"}


def _site(written: str) -> tuple[str, Path]:
    """Return the origin and the folder of `ORIGIN=DIR`."""
    origin, _, folder = text(written).partition("=")
    if not folder:
        raise click.BadParameter("write ORIGIN=DIR, such as https://docs.acme.test=./public")
    if not _is_origin(origin):
        raise click.BadParameter(f"{origin!r} is no origin such as https://docs.acme.test")
    if not Path(folder).is_dir():
        raise click.BadParameter(f"{folder!r} is no folder")
    return origin.rstrip("/").lower(), Path(folder)


def _span(written: str) -> timedelta:
    """Return a duration such as `200ms` or `2s`."""
    try:
        return parse_duration(written)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from None


def _is_origin(written: str) -> bool:
    try:
        parts = urlsplit(written)
        named = bool(parts.hostname) and parts.port != 0 and parts.username is None
    except ValueError:
        return False
    rest = parts.path.strip("/") + parts.query + parts.fragment
    return parts.scheme in ("http", "https") and named and not rest


_OPTIONS = (
    click.option(
        "--host", type=text, default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Listen there."
    ),
    click.option(
        "--port",
        type=WholeNumber(0, 65_535),
        default=DEFAULT_PORT,
        show_default=True,
        help="Listen on this port; 0 takes a free one.",
    ),
    click.option(
        "--site",
        "sites",
        type=_site,
        metavar="ORIGIN=DIR",
        multiple=True,
        help="Serve the files of a folder as this site; repeat it for more.",
    ),
    click.option("--bundled-site/--no-bundled-site", default=True, help="The small site of the package, too."),
    click.option("--page-delay", type=_span, metavar="TIME", default="0s", help="Real time that a page takes."),
    click.option("--allow-internet", is_flag=True, help="Fetch pages of other hosts, too."),
    click.option("--allow-private", is_flag=True, help="Fetch pages of private networks, too."),
    click.option(
        "--state",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Keep jobs, monitors and webhooks in this file.",
    ),
    click.option("--webhook-secret", type=text, metavar="SECRET", help="Sign webhooks with this secret."),
    click.option(
        "--private-webhooks/--no-private-webhooks",
        "webhooks_to_private",
        default=True,
        help="Send webhooks to private hosts, too.",
    ),
    click.option("--key", "keys", type=text, multiple=True, help="Let this API key pass; without any, every key."),
    click.option("--open", "open_access", is_flag=True, help="Let calls without a key pass."),
    click.option("--credits", type=WholeNumber(0), default=100_000, help="Credits of an account."),
    click.option(
        "--plan",
        type=click.Choice(["free", "hobby", "standard", "growth"]),
        help="Limit calls in a minute and pages at one time as this plan does.",
    ),
    click.option(
        "--threat-protection",
        type=click.Choice(["off", "on", "mandatory"]),
        default="off",
        help="Allow threatProtection in requests.",
    ),
    click.option("--risk-url", type=text, metavar="URL", help="Ask this endpoint for risk scores."),
    click.option(
        "--diff",
        type=click.Choice(["auto", "string", "object"]),
        default="auto",
        help="The form of changeTracking.diff.",
    ),
    click.option("--model-url", type=text, metavar="URL", help="Extract by this OpenAI-compatible endpoint."),
    click.option("--model-key", type=text, metavar="KEY", help="The key of that endpoint."),
    click.option("--model", "model_name", type=text, metavar="NAME", default="gpt-4o-mini", help="The model."),
    click.option("--searxng-url", type=text, metavar="URL", help="Search the web by this SearXNG server, too."),
    click.option(
        "--max-concurrency",
        type=WholeNumber(1, 1000),
        help="Pages of an account at one time; 10, or those of the plan.",
    ),
    click.option(
        "--browser/--no-browser", default=True, help="Render pages with Chromium where a request needs it."
    ),
    click.option(
        "--chromium",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Use this Chromium; otherwise it is looked for.",
    ),
    click.option(
        "--browser-sandbox/--no-browser-sandbox",
        default=True,
        help="Use Chromium only where its sandbox works.",
    ),
    click.option("--browser-pages", type=WholeNumber(1, 100), default=4, help="Pages in Chromium at one time."),
    click.option("--jitter", is_flag=True, help="Start monitors some minutes late, as the service does."),
    click.option(
        "--speed",
        type=Number(0.001, 100_000),
        default=1.0,
        metavar="N",
        help="Let time pass N times as fast.",
    ),
    click.option(
        "--traces",
        is_flag=True,
        envvar="RECEIVER_TRACES",
        help="Send traces by OpenTelemetry, set up by OTEL_ variables.",
    ),
    click.option("--seed", type=int, metavar="N", help="Make the same ids in every run."),
)
"""Beside host, port and traces, each has the name of a field of EmulatorOptions."""


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.group(cls=LazyGroup, subcommands=_SUBCOMMANDS, invoke_without_command=True)
@_with_options
@click.pass_context
def emulate(context: click.Context, /, host: str, port: int, traces: bool, **options: Any) -> int | None:
    """Run the service itself on this machine.

    It fetches and converts real pages, runs crawls, batch scrapes and monitors, and sends signed webhooks by the
    schedule of the service. Without options it listens on 127.0.0.1, takes any API key, keeps its state in memory,
    and serves a small site of its own; it fetches no other host than given sites and loopback.

    Ctrl-C, SIGTERM or SIGHUP stops it. With --state, jobs and webhooks go on at the next start.
    """
    if context.invoked_subcommand is not None:
        return None
    configure_logs(level="INFO", as_json=False)
    log_crashes()
    require_emulator()
    if options["state"] is not None:
        require_no_companion(options["state"])
    if traces:
        switch_on()
    from receiver.cli.emulate.serving import serve_emulator
    from receiver.emulator.options import EmulatorOptions

    chosen = EmulatorOptions(**options | {"sites": dict(options["sites"])})
    return asyncio.run(serve_emulator(chosen, host, port))
