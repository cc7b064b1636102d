"""`receiver quarantine`: requests that were authentic but refused."""

from collections.abc import Sequence
from typing import Any

import click

from receiver.cli.common.confirm import say
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filters import REQUEST_ID, json_option, list_limit_option, span_options, store_option
from receiver.cli.common.lazy_group import CommandGroup
from receiver.cli.common.output import (
    force_option,
    refuse_terminal,
    shown,
    with_local_times,
    write_bytes,
    write_json,
    write_line,
)
from receiver.cli.common.store import configured_store, decide, read, recording
from receiver.cli.common.tables import NOTHING, Column, ListForm, Listing, form_options, moment_column
from receiver.core.deliveries import KINDS, QuarantinedSummary, QuarantineFilter
from receiver.core.envelope import read_envelope
from receiver.core.ports.store import Controls
from receiver.core.text import escape_controls, short_id, shortened
from receiver.core.types import AppendOutcome
from receiver.core.views import quarantined_detail, quarantined_summary
from receiver.errors import Malformed, UnknownRequest
from receiver.settings import Settings, load_reading_settings, load_settings


@click.group(cls=CommandGroup)
def quarantine() -> None:
    """Look at requests that were authentic but refused.

    A request is malformed if its body has no envelope. It is a conflict if its id was known with another body.
    """


@quarantine.command("list")
@click.option("--kind", type=click.Choice(KINDS), help="Only this kind.")
@span_options
@list_limit_option
@form_options(lambda: _COLUMNS)
@store_option
def list_(form: ListForm, store: str | None, kind: str | None, **wanted: Any) -> None:
    """List requests in quarantine, the newest first."""
    chosen = QuarantineFilter(reason=kind, **wanted)
    read(
        load_reading_settings(store=store),
        lambda reports: _REQUESTS.write(reports.quarantined_requests, chosen, form),
    )


_COLUMNS: tuple[Column[QuarantinedSummary], ...] = (
    Column("id", lambda row: str(row.id), 7, 3, most=12),
    moment_column("received", lambda row: row.received_at),
    Column("kind", lambda row: row.reason, 10, 10),
    Column("size", lambda row: str(row.size), 9, 9, right=True),
    Column(
        "delivery_id",
        lambda row: row.key or NOTHING,
        36,
        8,
        most=15,
        rank=1,
        in_table=lambda row: NOTHING if row.key is None else short_id(row.key),
    ),
    Column("detail", lambda row: row.detail, 0, 16, most=60),
)
_REQUESTS = Listing("request in quarantine", _COLUMNS, quarantined_summary, lambda _: "")


_PREVIEW = 2_000
"""Characters of the body."""


@quarantine.command()
@click.argument("request_id", metavar="ID", type=REQUEST_ID)
@json_option
@store_option
def show(request_id: int, as_json: bool, store: str | None) -> None:
    """Show a request: reason, headers, and the body's beginning."""
    request = read(load_reading_settings(store=store), lambda reports: reports.quarantined_request(request_id))
    fields = quarantined_detail(request_id, request)
    if as_json:
        write_json(fields)
        return
    headers = fields.pop("headers")
    for name, value in with_local_times(fields).items():
        write_line(f"{name:<13}{shown(value)}")
    write_line("\nheaders")
    for name, value in headers:
        write_line(f"  {escape_controls(name)}: {shown(value)}")
    body = request.body[: 4 * _PREVIEW].decode("utf-8", "backslashreplace")
    write_line("\nbody")
    write_line(escape_controls(shortened(body, _PREVIEW), keep="\n\t"))


@quarantine.command()
@click.argument("request_id", metavar="ID", type=REQUEST_ID)
@force_option
@store_option
def raw(request_id: int, force: bool, store: str | None) -> None:
    """Write the exact bytes of a request's body to standard output.

    Nothing is added or changed, so a terminal is refused unless you add --force: the body could control it.
    """
    refuse_terminal(force=force)
    write_bytes(
        read(load_reading_settings(store=store), lambda reports: reports.quarantined_request(request_id)).body
    )


@quarantine.command()
@click.argument("request_ids", metavar="ID...", nargs=-1, required=True, type=REQUEST_ID)
@store_option
def release(request_ids: Sequence[int], store: str | None) -> int:
    """Read requests again, and store those that this version accepts.

    Their handlers then run. Other requests stay in quarantine, and the exit code is 1.
    """
    settings = load_settings(store=store)
    stayed = [one for one in dict.fromkeys(request_ids) if not _release(settings, one)]
    return FAILED if stayed else OK


def _release(settings: Settings, request_id: int) -> bool:
    """Release one request and say the result; return whether it left quarantine."""
    try:
        request = read(settings, lambda reports: reports.quarantined_request(request_id))
        delivery = read_envelope(request.headers, request.body, received_at=request.received_at)

        async def decision(controls: Controls) -> AppendOutcome:
            about, store = f"request {request_id} as delivery {delivery.key}", configured_store(settings)
            async with recording(controls, store, "release", about, planned=1) as recorded:
                outcome = (await controls.release_request(request_id, delivery)).outcome
                await recorded.add(seen=1, changed=int(outcome is not AppendOutcome.CONFLICT))
            return outcome

        outcome = decide(settings, decision)
    except (Malformed, UnknownRequest) as exc:
        say(f"{request_id}  stays: {escape_controls(str(exc))}")
        return False
    if outcome is AppendOutcome.CONFLICT:
        say(f"{request_id}  stays: delivery {escape_controls(delivery.key)} is stored with another body")
        return False
    say(f"{request_id}  {outcome.value} as delivery {escape_controls(delivery.key)}")
    return True
