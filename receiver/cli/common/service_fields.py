"""The fields of a request on the command line, and its webhook: this receiver unless the fields name another."""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NoReturn

import click

from receiver.cli.common.filters import Command, text, together
from receiver.cli.common.output import write_json, write_line
from receiver.cli.common.service import build, pairs
from receiver.core.text import counted, escape_controls
from receiver.settings import Settings

if TYPE_CHECKING:  # the models take long to load
    from receiver.requests.costs import Estimated


@dataclass(frozen=True, slots=True)
class Given:
    """What the options say about a request."""

    fields: Mapping[str, Any]
    """Those of `--json-body`, and over them those of `--set`."""
    estimate: bool
    """Whether the request is only to be estimated."""

    def but(self, **arguments: Any) -> dict[str, Any]:
        """Return the fields, with those arguments in their place that were given."""
        return {**self.fields, **{name: value for name, value in arguments.items() if value not in (None, ())}}


def field_options(command: Command) -> Command:
    """Add `--set`, `--json-body` and `--estimate` as one argument `given`."""

    @functools.wraps(command)
    def with_fields(
        *args: Any, assignments: tuple[str, ...], body: IO[bytes] | None, estimate: bool, **kwargs: Any
    ) -> Any:
        fields = {} if body is None else _object_in(body)
        for written in assignments:
            _assign(fields, written)
        return command(*args, given=Given(fields, estimate), **kwargs)

    return together(
        click.option(
            "--set",
            "assignments",
            type=text,
            multiple=True,
            metavar="KEY=VALUE",
            help="Set any field of the service's request; a dot in KEY leads into an object. VALUE is JSON, or "
            "else a text. May be repeated.",
        ),
        click.option(
            "--json-body",
            "body",
            type=click.File("rb"),
            metavar="FILE",
            help="Take fields from this JSON object; - is standard input.",
        ),
        click.option("--estimate", is_flag=True, help="Show what it may cost, and send nothing."),
    )(with_fields)


def require_argument(fields: Mapping[str, Any], name: str, metavar: str) -> None:
    """Raise UsageError if neither the argument nor an option gives this field."""
    if name not in fields:
        raise click.UsageError(f"Missing argument '{metavar}'.")


def write_estimate(request: "Estimated", *, as_json: bool) -> None:
    """Write the fewest and the most credits that a request costs, and why."""
    from receiver.requests.costs import estimate_credits

    found = estimate_credits(request)
    if as_json:
        write_json({"low": found.low, "high": found.high, "reasons": found.reasons})
        return
    if found.high is None:
        write_line(f"{counted(found.low, 'credit')} or more")
    elif found.high == found.low:
        write_line(counted(found.low, "credit"))
    else:
        write_line(f"{found.low:,} to {counted(found.high, 'credit')}")
    for reason in found.reasons:
        write_line(f"  {reason}")


def _object_in(file: IO[bytes]) -> dict[str, Any]:
    try:
        found = _from_json(file.read().decode())
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise click.BadParameter("there is no JSON object in this file", param_hint="'--json-body'")
    return found


def _assign(fields: dict[str, Any], written: str) -> None:
    """Put one KEY=VALUE into the fields; a dot in the key leads into an object."""
    key, equals, value = written.partition("=")
    *path, last = key.split(".")
    if not equals or not all((*path, last)):
        raise click.BadParameter(f"{escape_controls(written)!r} is not KEY=VALUE", param_hint="'--set'")
    place: Any = fields
    for name in path:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise click.BadParameter(f"{escape_controls(key)}: {name} is no object", param_hint="'--set'")
    place[last] = _value(value)


def _value(written: str) -> Any:
    try:
        return _from_json(written)
    except (ValueError, RecursionError):
        return written


def _from_json(written: str) -> Any:
    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is no JSON")

    return json.loads(written, parse_constant=refuse)


@dataclass(frozen=True, slots=True)
class Hook:
    """What `--event` and `--metadata` say about the webhook."""

    events: tuple[str, ...]
    metadata: Mapping[str, str]

    def added_to(self, fields: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
        """Return the fields with a webhook. Raises UsageError if they have one, and the options too."""
        if "webhook" not in fields:
            return {**fields, "webhook": build(settings.webhook, events=self.events, metadata=self.metadata)}
        if self.events or self.metadata:
            raise click.UsageError("--event and --metadata are for this receiver, and the fields have a webhook")
        return dict(fields)


def hook_options(command: Command) -> Command:
    """Add `--event` and `--metadata` as one argument `hook`."""

    @functools.wraps(command)
    def with_hook(*args: Any, events: tuple[str, ...], metadata: tuple[str, ...], **kwargs: Any) -> Any:
        return command(*args, hook=Hook(events, pairs(metadata)), **kwargs)

    return together(
        click.option(
            "--event",
            "events",
            type=text,
            multiple=True,
            metavar="NAME",
            help="Only these events, such as page; may be repeated.",
        ),
        click.option(
            "--metadata",
            type=text,
            multiple=True,
            metavar="NAME=VALUE",
            help="Returned in every event; may be repeated.",
        ),
    )(with_hook)
