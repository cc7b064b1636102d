"""`receiver emulate journal`: the requests to a running emulator, and the webhooks that it sent."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import click

from receiver.cli.common.filters import list_limit_option, text
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
from receiver.cli.emulate.command import DEFAULT_PORT
from receiver.errors import ReceiverError

_PAGE = 1_000
_SECONDS = 30.0
Json = dict[str, Any]


class EmulatorUnreachable(ReceiverError):
    """No emulator answers, or something else does."""


@click.command("journal")
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
