"""`receiver events show`: everything that is known of one event."""

import json
from typing import Any

import click

from receiver.cli.common.columns import cells, cut, wrapped
from receiver.cli.common.filter_options import json_option, store_option, text
from receiver.cli.common.output import shown, terminal_width, with_local_times, write_json, write_line
from receiver.cli.common.store import read
from receiver.core.clock import local_time
from receiver.core.deliveries import DeliveryDetail
from receiver.core.lenient_json import load_json
from receiver.core.ports.reports import Reports
from receiver.core.text import escape_controls, shortened
from receiver.core.types import DeliveryState
from receiver.core.views import event_detail, explanation
from receiver.core.work import WorkSummary
from receiver.service.samples import encode
from receiver.settings import load_reading_settings

_BELOW = ("headers", "items", "unreadable", "work")
"""Fields that have their own part below, or that the body tells."""
_PREVIEW_LINES = 60
_PREVIEW_WIDTH = 160


@click.command()
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
    preview = [_cut(line, width) for line in whole]
    if len(lines) > _PREVIEW_LINES or preview != whole:
        preview.append(
            f"  … cut; `receiver events raw {detail.summary.key} > FILE` writes all {len(detail.body)} bytes"
        )
    return preview


def _cut(line: str, width: int | None) -> str:
    line = shortened(line, _PREVIEW_WIDTH)
    return line if width is None or cells(line) <= width else cut(line, width)


def _indented(body: bytes) -> str:
    try:
        return json.dumps(load_json(body), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "backslashreplace")
