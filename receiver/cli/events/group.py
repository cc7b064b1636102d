"""`receiver events`: look at what was received, as it came."""

import json
import sys
from dataclasses import replace
from typing import Any

import click

from receiver.cli.common.filter_options import handled_filter_options, json_option, store_option, text, text_option
from receiver.cli.common.output import clock, iso, note, shown, write_bytes, write_line
from receiver.cli.common.store import read
from receiver.cli.common.tables import Column, Listing
from receiver.cli.events.export import export
from receiver.cli.events.import_ import import_
from receiver.cli.events.prune import prune
from receiver.cli.work_items.group import progress_fields, told
from receiver.core.deliveries import DeliveryDetail, DeliveryFilter, DeliverySummary
from receiver.core.lenient_json import NotJson, load_json
from receiver.core.ports.reports import Reports
from receiver.core.text import counted, escape_controls, short_id, shortened
from receiver.core.types import DeliveryState
from receiver.core.work import WorkSummary
from receiver.errors import ReceiverError
from receiver.service.samples import encode
from receiver.settings import load_settings

_PREVIEW_LINES = 60
_PREVIEW_WIDTH = 160
_STYLES = {DeliveryState.NEW: "yellow", DeliveryState.WORKING: "cyan", DeliveryState.DEAD: "red"}


@click.group()
def events() -> None:
    """Look at received deliveries. An ID may be shortened to any beginning that only one delivery has."""


events.add_command(export)
events.add_command(import_)
events.add_command(prune)


@events.command("list")
@handled_filter_options
@text_option
@json_option
@store_option
def list_(wanted: DeliveryFilter, words: str | None, as_json: bool, store: str | None) -> None:
    """List deliveries, the newest first.

    --text finds words in URLs, titles and errors: all of them have to occur. "Quotes" make a phrase, as does a URL
    as it is, and word* is the beginning of one. It needs RECEIVER_SEARCH=true at the worker.
    """
    write = write_json_list if as_json else write_list
    wanted = replace(wanted, text=words)

    async def report(reports: Reports) -> None:
        await write(reports, wanted)
        if words is not None:
            await tell_reach(reports)

    read(load_settings(store=store), report)


@events.command()
@click.argument("delivery_id", metavar="ID", type=text)
@json_option
@store_option
def show(delivery_id: str, as_json: bool, store: str | None) -> None:
    """Show all that is known of one delivery."""
    detail = read(load_settings(store=store), lambda reports: find(reports, delivery_id))
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
    detail = read(load_settings(store=store), lambda reports: find(reports, delivery_id))
    body = detail.body
    if body is None:
        raise ReceiverError(
            f"the body of delivery {detail.summary.key} was pruned; `events show` shows what is left"
        )
    if sys.stdout.isatty():
        write_line(escape_controls(body.decode("utf-8", "backslashreplace"), keep="\n\t"))
    else:
        write_bytes(body)


async def find(reports: Reports, prefix: str) -> DeliveryDetail:
    """Return the one delivery whose id begins so, or raise UnknownDelivery."""
    return await reports.detail(await reports.resolve(prefix))


async def write_json_list(reports: Reports, wanted: DeliveryFilter) -> None:
    """Write every wanted delivery as one JSON object per line, in flat memory."""
    await LISTING.write_json(reports.deliveries(wanted))


async def write_list(reports: Reports, wanted: DeliveryFilter) -> None:
    """Write the wanted deliveries for people, and say on standard error if there are more."""
    await LISTING.write(reports.deliveries, wanted)


async def tell_reach(reports: Reports) -> None:
    """Say on standard error how far the index of words reaches, if it is behind."""
    reach = await reports.search_reach()
    if reach is not None and reach.behind:
        through = "has nothing yet" if reach.through is None else f"reaches to {iso(reach.through, 'seconds')}"
        note(f"the index of words {through}: {counted(reach.behind, 'delivery')} still to come")


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
        "origin": summary.origin.value,
        "has_body": summary.has_body,
    }


def detail_fields(detail: DeliveryDetail) -> dict[str, Any]:
    """Return a delivery as the JSON of `events show` has it. What the body lacks is None, or 0 items."""
    content = _content(detail.body or b"")
    data = content.get("data")
    return summary_fields(detail.summary) | {
        "error": _writable(content.get("error")),
        "metadata": _writable(content.get("metadata")),
        "headers": _joined(detail),
        "items": len(data) if isinstance(data, list) else int(data is not None),
        "work": [progress_fields(work) for work in detail.work],
    }


def readable(detail: DeliveryDetail) -> list[str]:
    """Return lines for people, harmless to a terminal: envelope, headers, work items, the beginning of the body."""
    fields = detail_fields(detail)
    lines = [
        f"{name:<13}{_as_text(fields[name])}" for name in (*summary_fields(detail.summary), "error", "metadata")
    ]
    lines += [
        "",
        "headers",
        *(f"  {escape_controls(name)}: {_as_text(value)}" for name, value in fields["headers"].items()),
    ]
    lines += ["", "work", *(_work_line(work) for work in detail.work)]
    if not detail.work:
        lines.append("  no work item" + (" yet" if detail.summary.state == "new" else ": no handler wanted it"))
    return [*lines, "", "body", *_preview(detail)]


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


def _work_line(work: WorkSummary) -> str:
    line = f"  {work.id:<7} {escape_controls(work.handler):<40} {work.state.value:<8} attempts {work.attempts}"
    if work.due_at is not None:
        line += f"  due {iso(work.due_at, 'seconds')}"
    return line + (f"  {shown(words)}" if (words := told(work)) else "")


def _as_text(value: Any) -> str:
    """Return a value of the body on one line, not endless; `-` for what is missing."""
    return shown(value if value is None or isinstance(value, str) else encode(value).decode())


def _preview(detail: DeliveryDetail) -> list[str]:
    """Return the beginning of the body, pretty when it is JSON, cut in length and width."""
    if detail.body is None:
        return [f"  pruned; it had {detail.summary.size} bytes"]
    lines = _pretty(detail.body).splitlines()
    cut = len(lines) > _PREVIEW_LINES or any(len(line) > _PREVIEW_WIDTH for line in lines)
    shown = ["  " + escape_controls(shortened(line, _PREVIEW_WIDTH)) for line in lines[:_PREVIEW_LINES]]
    if cut:
        shown.append(f"  … cut; `receiver events raw {detail.summary.key}` writes all {len(detail.body)} bytes")
    return shown


def _pretty(body: bytes) -> str:
    try:
        return json.dumps(load_json(body), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "backslashreplace")


def _success(row: DeliverySummary) -> str:
    return "-" if row.success is None else "ok" if row.success else "failed"


_COLUMNS: tuple[Column[DeliverySummary], ...] = (
    Column(
        "received (UTC)",
        lambda row: iso(row.received_at, "seconds"),
        20,
        14,
        in_table=lambda row: clock(row.received_at),
    ),
    Column("type", lambda row: row.type, 24, 23),
    Column("id", lambda row: row.key, 36, 15, in_table=lambda row: short_id(row.key)),
    Column("job", lambda row: row.job_id or "-", 36, 8, most=36, rank=2),
    Column("state", lambda row: row.state.value, 7, 7),
    Column("success", _success, 7, 7),
    Column("size", lambda row: str(row.size), 9, 9, rank=1, right=True),
    Column("dup.", lambda row: f"+{row.duplicates}" if row.duplicates else "", 0, 4),
)
LISTING = Listing("delivery", _COLUMNS, summary_fields, lambda row: _STYLES.get(row.state, ""))
