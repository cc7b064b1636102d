"""`receiver quarantine`: look at requests that were refused, and release those that can be read by now."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from receiver.cli.common.confirm import say
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import json_option, limit_option, span_options, store_option, text
from receiver.cli.common.output import clock, iso, shown, write_bytes, write_line
from receiver.cli.common.store import decide, read
from receiver.cli.common.tables import Column, Listing
from receiver.core.envelope import read_envelope
from receiver.core.ports.controls import Controls
from receiver.core.quarantine import Quarantined, QuarantinedSummary, QuarantineFilter
from receiver.core.text import escape_controls, shortened
from receiver.core.types import AppendOutcome
from receiver.errors import Malformed, UnknownRequest
from receiver.service.samples import encode
from receiver.settings import Settings, load_settings

_REQUEST_ID = click.IntRange(min=0, max=2**63 - 1)
_PREVIEW = 2_000
"""Characters of a body that are shown."""


@click.group()
def quarantine() -> None:
    """Look at authentic requests that were refused: no envelope, or another body under a known id."""


@quarantine.command("list")
@click.option("--reason", type=text, metavar="WORD", help="Only these: malformed or conflict.")
@span_options
@limit_option
@json_option
@store_option
def list_(as_json: bool, store: str | None, **wanted: Any) -> None:
    """List refused requests, the newest first."""
    chosen = QuarantineFilter(**wanted)
    settings = load_settings(store=store)
    if as_json:
        read(settings, lambda reports: _LISTING.write_json(reports.quarantined_requests(chosen)))
    else:
        read(settings, lambda reports: _LISTING.write(reports.quarantined_requests, chosen))


@quarantine.command()
@click.argument("request_id", metavar="ID", type=_REQUEST_ID)
@json_option
@store_option
def show(request_id: int, as_json: bool, store: str | None) -> None:
    """Show a refused request: why, its headers, and the beginning of its body."""
    request = read(load_settings(store=store), lambda reports: reports.quarantined_request(request_id))
    fields = _fields(request_id, request)
    if as_json:
        write_bytes(encode(fields | {"headers": [list(header) for header in request.headers]}) + b"\n")
        return
    for name, value in fields.items():
        write_line(f"{name:<13}{shown(value)}")
    write_line("\nheaders")
    for name, value in request.headers:
        write_line(f"  {escape_controls(name)}: {shown(value)}")
    body = request.body[: 4 * _PREVIEW].decode("utf-8", "backslashreplace")
    write_line("\nbody")
    write_line(escape_controls(shortened(body, _PREVIEW), keep="\n\t"))


@quarantine.command()
@click.argument("request_id", metavar="ID", type=_REQUEST_ID)
@store_option
def raw(request_id: int, store: str | None) -> None:
    """Write the exact bytes of a refused body to standard output, nothing added.

    On a terminal control characters are shown as escapes.
    """
    body = read(load_settings(store=store), lambda reports: reports.quarantined_request(request_id)).body
    if sys.stdout.isatty():
        write_line(escape_controls(body.decode("utf-8", "backslashreplace"), keep="\n\t"))
    else:
        write_bytes(body)


@quarantine.command()
@click.argument("request_ids", metavar="ID...", nargs=-1, required=True, type=_REQUEST_ID)
@store_option
def release(request_ids: Sequence[int], store: str | None) -> int:
    """Read refused requests again, and keep as deliveries those that are accepted by this version.

    Their handlers run then. Those that are still refused stay, and the exit code is 1.
    """
    settings = load_settings(store=store)
    stayed = [one for one in dict.fromkeys(request_ids) if not _release(settings, one)]
    return FAILED if stayed else OK


def _release(settings: Settings, request_id: int) -> bool:
    """Release one request and say what became of it; return whether it left quarantine."""
    try:
        request = read(settings, lambda reports: reports.quarantined_request(request_id))
        delivery = read_envelope(request.headers, request.body, received_at=request.received_at)

        async def decision(controls: Controls) -> AppendOutcome:
            return (await controls.release_request(request_id, delivery)).outcome

        outcome = decide(settings, decision)
    except (Malformed, UnknownRequest) as exc:
        say(f"{request_id}  stays: {escape_controls(str(exc))}")
        return False
    if outcome is AppendOutcome.CONFLICT:
        say(f"{request_id}  stays: delivery {escape_controls(delivery.key)} has another body, and is kept as it is")
        return False
    say(f"{request_id}  {outcome.value} as delivery {escape_controls(delivery.key)}")
    return True


def _fields(request_id: int, request: Quarantined) -> dict[str, Any]:
    return _summary_fields(
        QuarantinedSummary(
            request_id, request.received_at, request.reason, request.detail, request.key, len(request.body)
        )
    )


def _summary_fields(summary: QuarantinedSummary) -> dict[str, Any]:
    return {
        "id": summary.id,
        "received_at": iso(summary.received_at),
        "reason": summary.reason,
        "detail": summary.detail,
        "delivery": summary.key,
        "size": summary.size,
    }


_COLUMNS: tuple[Column[QuarantinedSummary], ...] = (
    Column("id", lambda row: str(row.id), 7, 7),
    Column(
        "received (UTC)",
        lambda row: iso(row.received_at, "seconds"),
        20,
        14,
        in_table=lambda row: clock(row.received_at),
    ),
    Column("reason", lambda row: row.reason, 10, 10),
    Column("size", lambda row: str(row.size), 9, 9, right=True),
    Column("delivery", lambda row: row.key or "-", 36, 15, most=36, rank=1),
    Column("detail", lambda row: row.detail, 0, 30, most=60),
)
_LISTING = Listing("refused request", _COLUMNS, _summary_fields, lambda _: "")
