"""`receiver scrape`: scrape one page now."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filters import json_option, text
from receiver.cli.common.output import note, write_json, write_line
from receiver.cli.common.service import as_it_came, ask, build
from receiver.cli.common.service_fields import Given, field_options, require_argument, write_estimate
from receiver.core.text import escape_controls
from receiver.settings import load_settings

if TYPE_CHECKING:  # the models take long to load
    from receiver.requests import ScrapeRequest, ScrapeRequestV2

_NAMES = {
    "screenshot@fullPage": ("screenshot",),
    "json": ("json", "extract", "llm_extraction"),
    "deterministicJson": ("json",),
    "question": ("answer",),
    "query": ("answer",),
}
"""The keys of a format in the document, if they are not its name."""


@click.command()
@click.argument("url", type=text, required=False)
@click.option(
    "--format",
    "formats",
    type=text,
    multiple=True,
    metavar="NAME",
    help="Such as markdown, html or links; may be repeated.  [default: markdown]",
)
@click.option(
    "--v2", is_flag=True, help="Use version 2 of the operation, as `receiver start` does, in place of version 1."
)
@field_options
@json_option
def scrape(url: str | None, formats: tuple[str, ...], v2: bool, given: Given, as_json: bool) -> int:
    """Scrape URL, and write each format of the page.

    With --json it writes the whole document. A page that answers 404 is written too, with a note. Exit code 1 if a
    format is missing. This costs credits, and needs RECEIVER_API_KEY.
    """
    fields = given.but(url=url, formats=formats)
    require_argument(fields, "url", "URL")
    if given.estimate:
        write_estimate(_request(fields, v2=v2), as_json=as_json)
        return OK
    settings = load_settings()
    settings.plain_api_key()  # a missing key is an error before the client is loaded
    from receiver.service.client import scrapes

    request = _request(fields, v2=v2)
    document = ask(settings, lambda client: client.send(as_it_came(scrapes.scrape(request))))
    found = {name: _found(document, name) for name in request.format_names or ("markdown",)}
    if as_json:
        write_json(document)
    else:
        for value in found.values():
            _write(value)
    missing = [name for name, value in found.items() if value is None]
    _note_problems(document, missing)
    return FAILED if missing else OK


def _request(fields: Mapping[str, Any], *, v2: bool) -> "ScrapeRequest | ScrapeRequestV2":
    from receiver.requests import ScrapeRequest, ScrapeRequestV2

    return build(ScrapeRequestV2, **fields) if v2 else build(ScrapeRequest, **fields)


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
