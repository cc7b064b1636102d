"""`receiver emulate`: the service itself, until a signal comes."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from receiver.cli.common.filters import Number, WholeNumber, list_limit_option, text
from receiver.cli.common.lazy_group import CommandGroup
from receiver.cli.common.output import note
from receiver.cli.common.tables import (
    NOTHING,
    Column,
    ListForm,
    Listing,
    RowWriter,
    form_options,
    job_column,
    moment_column,
    only_newest,
)
from receiver.core.units import parse_duration
from receiver.errors import ReceiverError
from receiver.runtime.logs import configure_logs, log_crashes
from receiver.service.extras import require_emulator
from receiver.signals.traces.switch import switch_on
from receiver.stores.sqlite.system_files import require_no_companion

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


@click.group(cls=CommandGroup, invoke_without_command=True)
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


_PAGE = 1_000
_SECONDS = 30.0
Json = dict[str, Any]


class EmulatorUnreachable(ReceiverError):
    """No emulator answers, or something else does."""


@emulate.command("journal")
@click.option("--deliveries", is_flag=True, help="List webhooks, with their attempts, instead of requests.")
@click.option("--path", type=text, metavar="PREFIX", help="Only requests whose path begins like this.")
@click.option("--job", type=text, metavar="ID", help="With --deliveries: only those of this job or check.")
@click.option(
    "--url",
    type=text,
    metavar="URL",
    default=f"http://127.0.0.1:{DEFAULT_PORT}",
    show_default=True,
    help="Where the emulator is.",
)
@list_limit_option
@form_options(lambda: _REQUESTS.columns)
def journal(
    deliveries: bool, path: str | None, job: str | None, url: str, limit: int | None, form: ListForm
) -> None:
    """List the last requests to an emulator, the newest first.

    It remembers the last 1,000 requests, and every webhook. It answers on its own machine only.
    """
    if (deliveries and path) or (job and not deliveries):
        raise click.UsageError("--path is for requests, and --job for --deliveries")
    most = form.most(limit)
    kind, name = ("deliveries", "job") if deliveries else ("journal", "path")
    rows = _rows(url, kind, {name: job or path or ""}, most if limit or most is None else most + 1)
    listing: Listing[Json] = _DELIVERIES if deliveries else _REQUESTS
    writer = RowWriter(listing, form)
    writer.write(rows[:most])
    writer.end()
    if most is not None and len(rows) > most:
        note(only_newest(most))
    if not rows and not form.as_json:
        note("the journal has no webhook" if deliveries else "the journal has no request")


def _rows(url: str, kind: str, chosen: dict[str, str], most: int | None) -> list[Json]:
    """Return the newest rows, at most so many."""
    rows: list[Json] = []
    query = {name: value for name, value in chosen.items() if value}
    while most is None or len(rows) < most:
        wanted = _PAGE if most is None else min(_PAGE, most - len(rows))
        before = {"before": str(rows[-1]["seq"])} if rows else {}
        page = _ask(f"{url.rstrip('/')}/_emulator/{kind}", query | before | {"limit": str(wanted)})
        found = page["deliveries" if kind == "deliveries" else "requests"]
        rows += found
        if len(found) < wanted:
            break
    return rows


def _ask(url: str, query: dict[str, str]) -> Json:
    import httpx  # it takes long to load

    try:
        answer = httpx.get(url, params=query, timeout=_SECONDS, trust_env=False)
        page = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        advice = "start `receiver emulate`, or name its address with --url"
        raise EmulatorUnreachable(f"no emulator answers at {url}: {exc}; {advice}") from None
    except ValueError:
        raise EmulatorUnreachable(f"what answers at {url} is no emulator") from None
    if answer.status_code != httpx.codes.OK or not isinstance(page, dict):
        reason = page.get("error") if isinstance(page, dict) else None
        raise EmulatorUnreachable(f"the emulator at {url} answered {answer.status_code}: {reason or 'no reason'}")
    return page


def _moment(name: str) -> Callable[[Json], datetime | None]:
    return lambda row: datetime.fromisoformat(row[name]) if row.get(name) else None


_REQUESTS: Listing[Json] = Listing(
    "request",
    (
        Column("seq", lambda row: str(row["seq"]), 6, 3, most=8, rank=3),
        moment_column("at", _moment("at")),
        Column("method", lambda row: row["method"], 6, 6),
        Column("status", lambda row: str(row["status"]), 6, 6, right=True),
        Column("ms", lambda row: f"{row['seconds'] * 1000:.0f}", 6, 5, most=7, right=True, rank=2),
        Column("path", lambda row: row["path"], 0, 20, most=60),
        Column("error", lambda row: row["error"] or NOTHING, 0, 10, most=40, rank=1),
    ),
    dict,
    lambda row: "red" if row["status"] >= 500 else "yellow" if row["status"] >= 400 else "",
)
_DELIVERIES: Listing[Json] = Listing(
    "webhook",
    (
        Column("seq", lambda row: str(row["seq"]), 6, 3, most=8, rank=3),
        moment_column("at", _moment("createdAt")),
        Column("type", lambda row: row["type"], 24, 12, most=24),
        Column("state", lambda row: row["state"], 10, 9, most=12),
        Column("tries", lambda row: str(len(row["attempts"])), 5, 5, right=True),
        job_column(lambda row: str(row["jobId"]), rank=1),
        moment_column("next", _moment("nextAttemptAt"), rank=2),
        Column("url", lambda row: row["url"], 0, 20, most=60),
    ),
    dict,
    lambda row: {"failed": "red", "lost": "yellow", "skipped": "yellow"}.get(str(row["state"]), ""),
)
