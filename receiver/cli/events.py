"""`receiver events`: look at what was received, as it came."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from receiver.app import open_reports
from receiver.cli.options import (
    filter_options,
    flush,
    harmless,
    iso,
    json_option,
    short_id,
    store_option,
    text,
    write_bytes,
    write_line,
)
from receiver.ports import Reports
from receiver.records import DeliveryDetail, DeliveryFilter, DeliverySummary, WorkSummary
from receiver.samples import encode
from receiver.settings import load_settings
from receiver.types import DeliveryState
from receiver.wire import NotJson, load_json

T = TypeVar("T")

SHOWN_TO_PEOPLE = 50
"""How many deliveries a listing for people has when no limit is given."""
_PREVIEW_LINES = 60
_PREVIEW_WIDTH = 160
_FIELD_WIDTH = 1000
_ROWS_AT_ONCE = 200

_TITLES = ("received (UTC)", "type", "id", "job", "state", "success", "size", "dup.")
_PLAIN_WIDTHS = (20, 24, 36, 36, 7, 7, 9, 0)
_TABLE_WIDTHS = {"received (UTC)": 14, "type": 23, "id": 15, "state": 7, "success": 7, "dup.": 4}
"""The columns that fit in 80 characters; the others come where there is room."""
_SIZE_WIDTH = 9
_ID_WIDTHS = (8, 36)
_GAP = 2
_STYLES = {DeliveryState.NEW: "yellow", DeliveryState.WORKING: "cyan", DeliveryState.DEAD: "red"}


@click.group()
def events() -> None:
    """Look at received deliveries. An ID may be shortened to any beginning that only one delivery has."""


@events.command("list")
@filter_options
@json_option
@store_option
def list_(wanted: DeliveryFilter, as_json: bool, store: str | None) -> None:
    """List deliveries, the newest first."""
    if as_json:
        _read(store, lambda reports: write_json_list(reports, wanted))
    else:
        _read(store, lambda reports: write_list(reports, wanted))


@events.command()
@click.argument("delivery_id", metavar="ID", type=text)
@json_option
@store_option
def show(delivery_id: str, as_json: bool, store: str | None) -> None:
    """Show all that is known of one delivery."""
    detail = _read(store, lambda reports: find(reports, delivery_id))
    if as_json:
        write_bytes(encode(detail_fields(detail)) + b"\n")
        return
    for line in readable(detail):
        write_line(line)


@events.command()
@click.argument("delivery_id", metavar="ID", type=text)
@store_option
def raw(delivery_id: str, store: str | None) -> None:
    """Write the exact bytes of a delivery's body to standard output, nothing added.

    On a terminal control characters are shown as escapes.
    """
    body = _read(store, lambda reports: find(reports, delivery_id)).body
    if sys.stdout.isatty():
        write_line(harmless(body.decode("utf-8", "backslashreplace"), keep="\n\t"))
    else:
        write_bytes(body)


async def find(reports: Reports, prefix: str) -> DeliveryDetail:
    """Return the one delivery whose id begins so, or raise UnknownDelivery."""
    return await reports.detail(await reports.resolve(prefix))


async def write_json_list(reports: Reports, wanted: DeliveryFilter) -> None:
    """Write every wanted delivery as one JSON object per line, in flat memory."""
    async for summary in reports.deliveries(wanted):
        write_bytes(encode(summary_fields(summary)) + b"\n")


async def write_list(reports: Reports, wanted: DeliveryFilter) -> None:
    """Write the wanted deliveries for people, and say on standard error if there are more."""
    limit = wanted.limit or SHOWN_TO_PEOPLE
    if wanted.limit is None:
        wanted = replace(wanted, limit=limit + 1)
    write = _write_table if sys.stdout.isatty() else _write_plain
    rows: list[DeliverySummary] = []
    total = 0
    async for summary in reports.deliveries(wanted):
        total += 1
        if total <= limit:
            rows.append(summary)
        if len(rows) == _ROWS_AT_ONCE:
            write(rows, first=total == _ROWS_AT_ONCE)
            rows = []
    if rows:
        write(rows, first=total <= _ROWS_AT_ONCE)
    flush()
    if total > limit:
        click.echo(f"the newest {limit} of more; --limit N shows N, --json shows all", err=True)
    elif not total:
        click.echo("no delivery fits", err=True)


def summary_fields(summary: DeliverySummary) -> dict[str, Any]:
    """Return a delivery as the listing's JSON has it."""
    return {
        "id": summary.key,
        "type": summary.type,
        "job_id": summary.job_id,
        "webhook_id": summary.webhook_id,
        "success": summary.success,
        "received_at": iso(summary.received_at),
        "size": summary.size,
        "duplicates": summary.duplicates,
        "state": summary.state.value,
    }


def detail_fields(detail: DeliveryDetail) -> dict[str, Any]:
    """Return a delivery as the JSON of `events show` has it. What the body lacks is None, or 0 items."""
    content = _content(detail.body)
    data = content.get("data")
    return summary_fields(detail.summary) | {
        "error": _writable(content.get("error")),
        "metadata": _writable(content.get("metadata")),
        "headers": _joined(detail),
        "items": len(data) if isinstance(data, list) else int(data is not None),
        "work": [_work_fields(work) for work in detail.work],
    }


def readable(detail: DeliveryDetail) -> list[str]:
    """Return lines for people, harmless to a terminal: envelope, headers, work items, the beginning of the body."""
    fields = detail_fields(detail)
    lines = [f"{name:<13}{_shown(fields[name])}" for name in (*summary_fields(detail.summary), "error", "metadata")]
    lines += ["", "headers", *(f"  {harmless(name)}: {_shown(value)}" for name, value in fields["headers"].items())]
    lines += ["", "work", *(_work_line(work) for work in detail.work)]
    if not detail.work:
        lines.append("  no work item" + (" yet" if detail.summary.state == "new" else ": no handler wanted it"))
    return [*lines, "", "body", *_preview(detail)]


def _read(store: str | None, report: Callable[[Reports], Awaitable[T]]) -> T:
    """Run one report against the configured store."""
    settings = load_settings(store=store)

    async def run() -> T:
        async with open_reports(settings) as reports:
            return await report(reports)

    return asyncio.run(run())


def _content(body: bytes) -> dict[str, Any]:
    try:
        content = load_json(body)
    except NotJson:
        return {}
    return content if isinstance(content, dict) else {}


def _writable(value: Any) -> Any:
    """Return the value, or None when it is JSON for a tolerant reader only: NaN, or nested without end."""
    try:
        encode(value)
    except (ValueError, RecursionError):
        return None
    return value


def _joined(detail: DeliveryDetail) -> dict[str, str]:
    """Return headers by name. What came more than once is joined, as RFC 9110, section 5.3, allows."""
    joined: dict[str, str] = {}
    for name, value in detail.headers:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _work_fields(work: WorkSummary) -> dict[str, Any]:
    return {
        "handler": work.handler,
        "state": work.state.value,
        "attempts": work.attempts,
        "last_error": work.last_error,
        "due_at": None if work.due_at is None else iso(work.due_at),
    }


def _work_line(work: WorkSummary) -> str:
    line = f"  {harmless(work.handler):<40} {work.state.value:<8} attempts {work.attempts}"
    if work.due_at is not None:
        line += f"  due {iso(work.due_at, 'seconds')}"
    return line + (f"  {_shown(work.last_error)}" if work.last_error else "")


def _shown(value: Any) -> str:
    """Return a value on one line, not endless; `-` for what is missing."""
    if value is None:
        return "-"
    return harmless(_shortened(value if isinstance(value, str) else encode(value).decode(), _FIELD_WIDTH))


def _preview(detail: DeliveryDetail) -> list[str]:
    """Return the beginning of the body, pretty when it is JSON, cut in length and width."""
    lines = _pretty(detail.body).splitlines()
    cut = len(lines) > _PREVIEW_LINES or any(len(line) > _PREVIEW_WIDTH for line in lines)
    shown = ["  " + harmless(_shortened(line, _PREVIEW_WIDTH)) for line in lines[:_PREVIEW_LINES]]
    if cut:
        shown.append(f"  … cut; `receiver events raw {detail.summary.key}` writes all {len(detail.body)} bytes")
    return shown


def _pretty(body: bytes) -> str:
    try:
        return json.dumps(load_json(body), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "backslashreplace")


def _shortened(line: str, width: int) -> str:
    return line if len(line) <= width else line[:width] + "…"


def _write_plain(rows: list[DeliverySummary], *, first: bool) -> None:
    for row in rows:
        cells = zip(_cells(row, row.key), _PLAIN_WIDTHS, strict=True)
        write_line(harmless(" ".join(cell.ljust(width) for cell, width in cells).rstrip()))


def _write_table(rows: list[DeliverySummary], *, first: bool) -> None:
    """Write a table, or its next rows. Widths do not depend on the rows, so that the parts fit together."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    columns = _columns(console.width)
    table = Table(box=None, show_header=first, pad_edge=False, header_style="bold")
    for name, width in columns.items():
        table.add_column(name, width=width, no_wrap=True, justify="right" if name == "size" else "left")
    for row in rows:
        cells = dict(zip(_TITLES, _cells(row, short_id(row.key)), strict=True))
        cells["received (UTC)"] = iso(row.received_at, "seconds")[5:-1].replace("T", " ")
        table.add_row(*(Text(harmless(cells[name]), style=_STYLES.get(row.state, "")) for name in columns))
    console.print(table)


def _columns(width: int) -> dict[str, int]:
    """Return the columns that a terminal of this width has room for, each with its own width."""
    widths = dict(_TABLE_WIDTHS)
    left = width - sum(widths.values()) - _GAP * (len(widths) - 1)
    if left >= _SIZE_WIDTH + _GAP:
        widths["size"] = _SIZE_WIDTH
        left -= _SIZE_WIDTH + _GAP
    if left >= _ID_WIDTHS[0] + _GAP:
        widths["job"] = min(_ID_WIDTHS[1], left - _GAP)
    return {name: widths[name] for name in _TITLES if name in widths}


def _cells(row: DeliverySummary, shown_id: str) -> tuple[str, ...]:
    success = "-" if row.success is None else "ok" if row.success else "failed"
    repeated = f"+{row.duplicates}" if row.duplicates else ""
    received = iso(row.received_at, "seconds")
    return received, row.type, shown_id, row.job_id or "-", row.state.value, success, str(row.size), repeated
