"""The webhook of a new job or monitor on the command line: this receiver, unless the fields name another one."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from receiver.cli.common.filter_options import text
from receiver.cli.common.service_calls import build, pairs
from receiver.settings import Settings


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


def hook_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--event` and `--metadata` as one argument `hook`."""

    @functools.wraps(command)
    def with_hook(*args: Any, events: tuple[str, ...], metadata: tuple[str, ...], **kwargs: Any) -> Any:
        return command(*args, hook=Hook(events, pairs(metadata)), **kwargs)

    decorated: Callable[..., Any] = with_hook
    for option in (
        click.option(
            "--metadata",
            type=text,
            multiple=True,
            metavar="NAME=VALUE",
            help="Returned in every event; may be repeated.",
        ),
        click.option(
            "--event",
            "events",
            type=text,
            multiple=True,
            metavar="NAME",
            help="Only these events, such as page; may be repeated.",
        ),
    ):
        decorated = option(decorated)
    return decorated
