"""`receiver alerts`: the group of its subcommands."""

import asyncio
import socket
import textwrap

import click

from receiver.cli.common.filters import json_option, store_option
from receiver.cli.common.lazy_group import LazyGroup
from receiver.cli.common.output import terminal_width, write_json
from receiver.cli.common.store import configured_store, now_of, read
from receiver.core.attention import Concern, concerns, late_workers, read_attention, switched_off
from receiver.core.clock import SystemClock
from receiver.core.ports.reports import Reports
from receiver.core.text import escape_controls
from receiver.settings import Settings, load_reading_settings
from receiver.settings.alerting import open_poster

_SUBCOMMANDS = {
    "list": "receiver.cli.alerts:list_",
    "test": "receiver.cli.alerts:test",
}


@click.group(cls=LazyGroup, subcommands=_SUBCOMMANDS)
def alerts() -> None:
    """Look at what needs somebody, and try whether alerts arrive.

    `receiver serve` and `receiver work` post alerts to RECEIVER_ALERT_URL: dead work, requests in quarantine, and
    what other settings name. `receiver check` says which.
    """


# FOLDED: `receiver alerts list`: what needs somebody now.
@click.command("list")
@json_option
@store_option
def list_(as_json: bool, store: str | None) -> None:
    """List what needs somebody now, as the first page of the console does.

    Alerts tell the same once it has lasted a minute; not handlers that are switched off and not late workers.
    Requests that were refused are counted only in the process that refused them.
    """
    settings = load_reading_settings(store=store)

    async def found(reports: Reports) -> list[Concern]:
        return await _found(settings, reports)

    for one in read(settings, found):
        if as_json:
            fields = {"kind": one.kind.value, "subject": one.subject, "count": one.count, "text": one.sentence}
            write_json(fields | {"reason": one.reason})
        else:
            click.echo(_line(one))


async def _found(settings: Settings, reports: Reports) -> list[Concern]:
    now = await now_of(configured_store(settings))
    attention = await read_attention(reports, now)
    return [
        *concerns(attention, settings.attention_limits(), now),
        *switched_off(await reports.handlers()),
        *late_workers(await reports.workers(), now),
    ]


def _line(concern: Concern) -> str:
    line = f"{concern.kind.value:<12} {escape_controls(concern.sentence)}"
    width = terminal_width()
    if width is None:
        return line
    return textwrap.fill(line, width, subsequent_indent=" " * 13, break_long_words=False, break_on_hyphens=False)


# FOLDED: `receiver alerts test`: posts a message that says that it is a test.
@click.command("test")
def test() -> None:
    """Post a test message to RECEIVER_ALERT_URL, once.

    It is signed as alerts are. The exit code is 0 if the answer is 2xx, and otherwise 1.
    """
    from receiver.signals.alerts.posting import message_of, trial  # few commands need it

    clock = SystemClock()
    poster = open_poster(load_reading_settings(), clock)
    message = message_of([trial(poster.host)], machine=socket.gethostname(), now=clock.now())
    asyncio.run(poster.post(message))
    click.echo(f"{poster.host} has taken the test message {message.id}.")
