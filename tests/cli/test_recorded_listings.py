"""Listings, byte for byte as they were recorded: in a pipe, and on terminals of several widths and colours."""

import asyncio
import sys
import time
from pathlib import Path

import pytest

from receiver.cli.main import receiver, run
from receiver.core.deliveries import Quarantined
from tests.cli.kept import DEAD, DONE, HEADERS, NOON, QUEUED, SAVE, TELL, WAITING, Filling, delivery, ended, filling
from tests.doubles import appended

RECORDED = Path(__file__).parent / "recorded_listings.txt"
LISTINGS = (
    "events list",
    "events list --columns state,id,subject",
    "events list --type no.such",
    "work-items list",
    "jobs list",
    "jobs list --columns warnings,state",
    "handlers list",
    "quarantine list",
    "drift",
    "tail --limit 3",
)
FORMS = ("pipe", "40", "59", "60", "80", "120", "200", "80 --wide", "80 colour", "120 no colour")
"""The width of a terminal, and what else is special about it."""
LINE = "$ "
HOSTILE = (
    "[bold]x[/] \x1b[31mred\r\n\x07 :smile: https://example.com/a?b=c 'q' 日本語のとても長い説明 👩‍🚀 é e\u0301 "
    * 3
)


async def fill_store() -> None:
    """Keep texts in wide characters, with control characters, markup, numbers and addresses."""
    async with filling() as store:
        await store.item(DONE, SAVE, type="monitor.check.completed", job_id="日本語のジョブ")
        await store.item(DEAD, TELL, attempt=ended(HOSTILE), success=False)
        await store.item(DEAD, type="crawl.page", job_id="0123456789abcdef-0123-4567-89ab-cdef01234567")
        await store.item(WAITING, note="waits for [red]pages[/red]")
        await store.item(QUEUED, SAVE, lane="lane-1")
        await other_deliveries(store)


async def other_deliveries(store: Filling) -> None:
    """Keep deliveries without work: a duplicate, an unknown type, pages with addresses, requests in quarantine."""
    page = b'{"data": [{"metadata": {"sourceURL": "https://example.com/%s"}, "new_field": 1}], "other": {"a": 2}}'
    long = page % (b"path/" * 30)
    for one in (
        delivery("long-id-" * 8, 1, body=long),
        delivery("twice", 2, body=page % b"a"),
        delivery("twice", 3, body=page % b"a"),
        delivery("new-type", 4, type="crawl.\x1bnew", job_id=None, body=page % b"\xe6\x97\xa5"),
        delivery("e\u0301-🚲🚲", 5, type="agent.action", success=None, body=page % b"[link=x]y[/link]"),
    ):
        await appended(store.log, one)
    for number, body in enumerate((b"no json", b"[1, 2]", b"\x1b[2J" + b"\xff" * 2_000)):
        await store.log.quarantine(Quarantined(NOON, "malformed", f"{number} {HOSTILE}", None, HEADERS, body))


def test_listings_are_as_recorded(
    configured: None, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The widths of columns, their cut cells, what stands below a row, and what is left out."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        assert output_of_all(capsysbinary, monkeypatch) == RECORDED.read_bytes()
    finally:
        monkeypatch.undo()
        time.tzset()


def output_of_all(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Return what every listing writes in every form, each below a line with its name."""
    asyncio.run(fill_store())
    code = "from receiver import Router\nrouter = Router()\nrouter.add(print, '*')\n"
    Path("listed_handlers.py").write_text(code)
    monkeypatch.setenv("RECEIVER_HANDLERS", "listed_handlers:router")
    parts = []
    for listing in LISTINGS:
        for form in FORMS:
            with monkeypatch.context() as patch:
                width, _, special = form.partition(" ")
                patch.setenv("COLUMNS", "80" if width == "pipe" else width)
                patch.setenv("TERM", "xterm-256color")
                patch.delenv("NO_COLOR", raising=False)
                if "colour" in special:
                    patch.setenv("FORCE_COLOR", "1")
                if special == "no colour":
                    patch.setenv("NO_COLOR", "1")
                patch.setattr(sys.stdout, "isatty", lambda width=width: width != "pipe")
                more = ["--wide"] if special == "--wide" else []
                assert run(receiver.main, [*listing.split(), *more]) == 0
            written = capsysbinary.readouterr()
            parts.append(f"{LINE}{listing} # {form}\n".encode() + written.out + b"\n" + written.err + b"\n")
    return b"".join(parts)
