"""`receiver scrape`: one page, now."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import json_option, text
from receiver.cli.common.output import note, write_bytes, write_line
from receiver.cli.common.service_calls import as_it_came, ask, build
from receiver.core.text import escape_controls
from receiver.service.samples import encode
from receiver.settings import load_settings

_NAMES = {"screenshot@fullPage": ("screenshot",), "json": ("json", "extract", "llm_extraction")}
"""Where a format is found in the document, if not under its own name."""


@click.command()
@click.argument("url", type=text)
@click.option(
    "--format",
    "formats",
    type=text,
    multiple=True,
    default=("markdown",),
    metavar="NAME",
    help="As markdown (the default), html, links; several.",
)
@json_option
def scrape(url: str, formats: tuple[str, ...], as_json: bool) -> int:
    """Scrape URL and write what was found, one format after the other; with --json the whole document.

    Needs RECEIVER_API_KEY, and costs credits. A page that answers 404 is found too; that is said beside it. Exit
    code 1 when a format is missing.
    """
    settings = load_settings()
    settings.plain_api_key()  # what is missing is said before anything is loaded
    from receiver.requests import ScrapeRequest
    from receiver.service.client import scrapes

    call = scrapes.scrape(build(ScrapeRequest, url=url, formats=formats))
    document = ask(settings, lambda client: client.send(as_it_came(call)))
    found = {name: _found(document, name) for name in formats}
    if as_json:
        write_bytes(encode(document) + b"\n")
    else:
        for value in found.values():
            _write(value)
    missing = [name for name, value in found.items() if value is None]
    _tell(document, missing)
    return FAILED if missing else OK


def _found(document: Mapping[str, Any], name: str) -> Any:
    values = (document.get(key) for key in _NAMES.get(name, (name,)))
    return next((value for value in values if value is not None), None)


def _write(found: Any) -> None:
    """Write a text as it is, but for what could steer a terminal; anything else as JSON."""
    if isinstance(found, str):
        write_line(escape_controls(found, keep="\n\t"))
    elif found is not None:
        write_bytes(encode(found) + b"\n")


def _tell(document: Mapping[str, Any], missing: Sequence[str]) -> None:
    """Say beside the output what is worth knowing of the page."""
    metadata = document.get("metadata")
    status = metadata.get("statusCode") if isinstance(metadata, Mapping) else None
    if isinstance(status, int) and status >= 400:
        note(f"the page answered {status}")
    if isinstance(warning := document.get("warning"), str):
        note(escape_controls(warning))
    for name in missing:
        note(f"there is no {name} of it")
