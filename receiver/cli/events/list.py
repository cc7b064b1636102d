"""`receiver events list`, `show` and `raw`: the stored events."""

import json
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import click

from receiver.cli.common.filters import (
    event_list_options,
    hint,
    json_option,
    store_option,
    text,
    text_option,
    with_whole_job_id,
)
from receiver.cli.common.lazy_group import LazyGroup
from receiver.cli.common.output import (
    force_option,
    note,
    refuse_terminal,
    shown,
    terminal_width,
    with_local_times,
    write_bytes,
    write_json,
    write_line,
)
from receiver.cli.common.store import read
from receiver.cli.common.tables import (
    NOTHING,
    Column,
    ListForm,
    Listing,
    cells,
    cut,
    form_options,
    job_column,
    moment_column,
    wrapped,
)
from receiver.core.clock import local_time
from receiver.core.deliveries import DeliveryDetail, DeliveryFilter
from receiver.core.envelope import load_json
from receiver.core.ports.reports import Reports
from receiver.core.text import counted, escape_controls, short_id, short_job_id, shortened
from receiver.core.types import DeliveryState
from receiver.core.views import EventRow, event_detail, event_rows, event_summary, explanation
from receiver.core.work import WorkSummary
from receiver.errors import ReceiverError, UnreadableBody
from receiver.service.samples import encode
from receiver.settings import load_reading_settings

_STYLES = {DeliveryState.NEW: "yellow", DeliveryState.WORKING: "cyan", DeliveryState.DEAD: "red"}


@click.group(
    cls=LazyGroup,
    subcommands={
        "export": "receiver.cli.events.bundles:export",
        "import": "receiver.cli.events.bundles:import_",
        "prune": "receiver.cli.events.prune:prune",
    },
)
def events() -> None:
    """Look at stored events, export, import and prune them.

    Each event is one delivery as it was received. An ID may be shortened to any beginning that only one event has.
    """


def reported(success: bool | None) -> str:
    """Return what the service reports about its page or job. Whether handlers succeeded is the state."""
    return NOTHING if success is None else "ok" if success else "error"


def _subject(row: EventRow) -> str:
    return row.subject.text or ("(pruned)" if not row.summary.has_body else NOTHING)


def _subject_in_table(row: EventRow) -> str:
    """Return a URL without its scheme; a job is named by the beginning of its id, which `--job` takes."""
    job_id = row.summary.job_id
    if job_id is None or row.subject.url is not None:
        return _subject(row).removeprefix("https://")
    return _subject(row).replace(f"of job {job_id}", f"of job {short_job_id(job_id)}", 1)


_COLUMNS: tuple[Column[EventRow], ...] = (
    moment_column("received", lambda row: row.summary.received_at),
    Column("type", lambda row: row.summary.type, 24, 15, most=23),
    Column("id", lambda row: row.summary.key, 36, 8, most=15, in_table=lambda row: short_id(row.summary.key)),
    job_column(lambda row: row.summary.job_id, rank=3),
    Column("state", lambda row: row.summary.state.value, 7, 7),
    Column(
        "reported",
        lambda row: reported(row.summary.success),
        8,
        8,
        rank=1,
        below=lambda row: "the service reported an error" if row.summary.success is False else None,
    ),
    Column(
        "duplicates",
        lambda row: f"+{row.summary.duplicates}" if row.summary.duplicates else NOTHING,
        10,
        10,
        rank=2,
        right=True,
        below=lambda row: counted(row.summary.duplicates, "duplicate") if row.summary.duplicates else None,
    ),
    Column("size", lambda row: str(row.summary.size), 9, 9, rank=4, right=True),
    Column("subject", _subject, 0, 12, most=48, in_table=_subject_in_table, head=0.5),
)
EVENTS = Listing("event", _COLUMNS, event_summary, lambda row: _STYLES.get(row.summary.state, ""))


_NOT_ROUTED = "new: not routed yet; a worker chooses the handlers of a new event"


@events.command("list")
@event_list_options
@text_option
@form_options(lambda: EVENTS.columns)
@store_option
def list_(wanted: DeliveryFilter, words: str | None, form: ListForm, store: str | None) -> None:
    """List events, the newest first.

    --text finds events whose URLs, titles or errors have all of these words. "Quotes" make a phrase, as a
    URL does. word* finds every word with this beginning. --text needs RECEIVER_SEARCH=true at the worker.
    """

    async def report(reports: Reports) -> None:
        chosen = await with_whole_job_id(reports, replace(wanted, text=words))
        has_new = False

        async def rows(wanted: DeliveryFilter) -> AsyncIterator[EventRow]:
            nonlocal has_new
            async for row in event_rows(reports, wanted):
                has_new = has_new or row.summary.state is DeliveryState.NEW
                yield row

        await EVENTS.write(rows, chosen, form, lambda wanted: hint(reports, wanted))
        if has_new and not form.as_json and sys.stdout.isatty():
            note(_NOT_ROUTED)
        if words is not None:
            await _note_unindexed(reports)

    read(load_reading_settings(store=store), report)


async def _note_unindexed(reports: Reports) -> None:
    """Say on standard error how many events the search index does not have yet."""
    reach = await reports.search_reach()
    if reach is not None and reach.behind:
        through = "is empty" if reach.through is None else f"ends at {local_time(reach.through)}"
        note(f"the search index {through}: it lacks {counted(reach.behind, 'event')}")


_BELOW = ("headers", "items", "unreadable", "work")
"""Fields that have their own part below, or that the part of the body shows."""
_PREVIEW_LINES = 60
_PREVIEW_WIDTH = 160


@events.command()
@click.argument("delivery_id", metavar="ID", type=text)
@json_option
@store_option
def show(delivery_id: str, as_json: bool, store: str | None) -> None:
    """Show everything that is known of one event."""
    detail = read(load_reading_settings(store=store), lambda reports: find(reports, delivery_id))
    if as_json:
        write_json(event_detail(detail))
        return
    for line in readable(detail, terminal_width()):
        write_line(line)


async def find(reports: Reports, prefix: str) -> DeliveryDetail:
    """Return the one event whose id begins with the prefix, or raise UnknownDelivery."""
    return await reports.detail(await reports.resolve(prefix))


def readable(detail: DeliveryDetail, width: int | None = None) -> list[str]:
    """Return lines for people, safe for a terminal: envelope, headers, work items, the beginning of the body.

    With a width, the lines of work items are wrapped, and those of the body cut.
    """
    fields = with_local_times(event_detail(detail))
    lines = [f"{name:<13}{_as_text(fields[name])}" for name in fields if name not in _BELOW]
    lines += [
        "",
        "headers",
        *(f"  {escape_controls(name)}: {_as_text(value)}" for name, value in fields["headers"].items()),
    ]
    lines += ["", "work", *(line for work in detail.work for line in _work_lines(work, width))]
    if not detail.work:
        is_new = detail.summary.state is DeliveryState.NEW
        lines.append("  no work item yet" if is_new else "  no work item: no handler matched")
    return [*lines, "", "body", *_preview(detail, width)]


def _work_lines(work: WorkSummary, width: int | None) -> list[str]:
    line = f"{escape_controls(work.handler):<40} {work.state.value:<8} attempts {work.attempts}"
    if work.due_at is not None:
        line += f"  due {local_time(work.due_at)}"
    line += f"  {shown(reason)}" if (reason := explanation(work)) else ""
    return wrapped(f"  {work.id:<7} ", line, width, below=" " * 12)


def _as_text(value: Any) -> str:
    """Return a value of the body on one line, cut if it is long; `-` for None."""
    return shown(value if value is None or isinstance(value, str) else encode(value).decode())


def _preview(detail: DeliveryDetail, width: int | None) -> list[str]:
    """Return the beginning of the body, indented if it is JSON, cut in length and width."""
    if detail.unreadable:
        return [f"  {escape_controls(detail.unreadable)}"]
    if detail.body is None:
        return [f"  pruned; it had {detail.summary.size} bytes"]
    lines = _indented(detail.body).splitlines()
    whole = ["  " + escape_controls(line) for line in lines[:_PREVIEW_LINES]]
    short = [shortened(line, _PREVIEW_WIDTH) for line in whole]
    preview = [line if width is None or cells(line) <= width else cut(line, width) for line in short]
    if len(lines) > _PREVIEW_LINES or preview != whole:
        preview.append(
            f"  … cut; `receiver events raw {detail.summary.key} > FILE` writes all {len(detail.body)} bytes"
        )
    return preview


def _indented(body: bytes) -> str:
    try:
        return json.dumps(load_json(body), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "backslashreplace")


@events.command()
@click.argument("delivery_id", metavar="ID", type=text)
@force_option
@store_option
def raw(delivery_id: str, force: bool, store: str | None) -> None:
    """Write the exact bytes of an event's body to standard output.

    Nothing is added or changed, so a terminal is refused unless you add --force: the body could control it.
    """
    refuse_terminal(force=force)
    detail = read(load_reading_settings(store=store), lambda reports: find(reports, delivery_id))
    if detail.unreadable:
        raise UnreadableBody(detail.unreadable)
    body = detail.body
    if body is None:
        raise ReceiverError(
            f"the body of event {detail.summary.key} was pruned; `events show` shows the other fields"
        )
    write_bytes(body)
