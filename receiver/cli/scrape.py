"""`receiver scrape`: scrape one page now."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import json_option, text
from receiver.cli.common.output import note, write_json, write_line
from receiver.cli.common.service_calls import as_it_came, ask, build
from receiver.core.text import escape_controls
from receiver.settings import load_settings

_NAMES = {"screenshot@fullPage": ("screenshot",), "json": ("json", "extract", "llm_extraction")}
"""The keys of a format in the document, if they are not its name."""


@click.command()
@click.argument("url", type=text)
@click.option(
    "--format",
    "formats",
    type=text,
    multiple=True,
    default=("markdown",),
    metavar="NAME",
    help="Such as markdown, html or links; may be repeated.  [default: markdown]",
)
@json_option
def scrape(url: str, formats: tuple[str, ...], as_json: bool) -> int:
    """Scrape URL, and write each format of the page.

    With --json it writes the whole document. A page that answers 404 is written too, with a note. Exit code 1 if a
    format is missing. This costs credits, and needs RECEIVER_API_KEY.
    """
    settings = load_settings()
    settings.plain_api_key()  # a missing key is an error before the client is loaded
    from receiver.requests import ScrapeRequest
    from receiver.service.client import scrapes

    call = scrapes.scrape(build(ScrapeRequest, url=url, formats=formats))
    document = ask(settings, lambda client: client.send(as_it_came(call)))
    found = {name: _found(document, name) for name in formats}
    if as_json:
        write_json(document)
    else:
        for value in found.values():
            _write(value)
    missing = [name for name, value in found.items() if value is None]
    _note_problems(document, missing)
    return FAILED if missing else OK


def _found(document: Mapping[str, Any], name: str) -> Any:
    values = (document.get(key) for key in _NAMES.get(name, (name,)))
    return next((value for value in values if value is not None), None)


def _write(found: Any) -> None:
    """Write a text, with escapes for what could control a terminal; write anything else as JSON."""
    if isinstance(found, str):
        write_line(escape_controls(found, keep="\n\t"))
    elif found is not None:
        write_json(found)


def _note_problems(document: Mapping[str, Any], missing: Sequence[str]) -> None:
    """Say on standard error how the page answered, and which formats are missing."""
    metadata = document.get("metadata")
    status = metadata.get("statusCode") if isinstance(metadata, Mapping) else None
    if isinstance(status, int) and status >= 400:
        note(f"the page answered {status}")
    if isinstance(warning := document.get("warning"), str):
        note(escape_controls(warning))
    for name in missing:
        note(f"the document has no {name}")
