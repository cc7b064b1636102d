"""The options of `receiver emulate`."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from receiver.cli.common.filters import Number, WholeNumber, text
from receiver.core.units import parse_duration

Command = Callable[..., Any]

DEFAULT_PORT = 3002


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
        "--private-webhooks/--no-private-webhooks", default=True, help="Send webhooks to private hosts, too."
    ),
    click.option("--key", "keys", type=text, multiple=True, help="Let this API key pass; without any, every key."),
    click.option("--open", "open_access", is_flag=True, help="Let calls without a key pass."),
    click.option("--credits", "credits_", type=WholeNumber(0), default=100_000, help="Credits of an account."),
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


def emulator_options(command: Command) -> Command:
    """Add the options of an emulator."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
