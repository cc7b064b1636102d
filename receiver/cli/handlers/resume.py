"""`receiver handlers resume`: run the work of handlers again."""

from collections.abc import Sequence

import click

from receiver.cli.handlers.rows import chosen_rows, deployment_options, names_argument
from receiver.cli.handlers.switching import switch
from receiver.core.types import HandlerSwitch
from receiver.settings import load_settings


@click.command()
@names_argument
@deployment_options
def resume(names: Sequence[str], **flags: str | None) -> None:
    """Let handlers run again, with the work that waited.

    A NAME may be a glob.
    """
    settings = load_settings(**flags)
    switch(settings, chosen_rows(settings, names), HandlerSwitch.ON)
