"""`receiver handlers pause`: let the work of handlers wait."""

from collections.abc import Sequence

import click

from receiver.cli.handlers.rows import chosen_rows, deployment_options, names_argument
from receiver.cli.handlers.switching import switch
from receiver.core.types import HandlerSwitch
from receiver.settings import load_settings


@click.command()
@names_argument
@deployment_options
def pause(names: Sequence[str], **flags: str | None) -> None:
    """Let the work of handlers wait until a resume.

    A NAME may be a glob. Work that runs now runs to its end. New work waits, and nothing is lost.
    """
    settings = load_settings(**flags)
    switch(settings, chosen_rows(settings, names), HandlerSwitch.PAUSED)
