"""Ids that a command sends to the service, which takes only whole ones."""

import re
import uuid

import click

from receiver.cli.common.filter_options import text
from receiver.core.text import escape_controls

_HEX = re.compile(r"[0-9a-fA-F-]{1,35}")


def is_shortened(written: str) -> bool:
    """Tell whether this can only be the beginning of an id of the service, which is a UUID."""
    if not _HEX.fullmatch(written):
        return False
    try:
        uuid.UUID(written)
    except ValueError:
        return True
    return False


def monitor_id(written: str) -> str:
    """Accept the id of a monitor. The store does not know monitors, so a shortened id is refused."""
    if is_shortened(text(written)):
        raise click.BadParameter(
            f"{escape_controls(written)!r} is shortened, and the service takes only the whole id of a monitor: "
            "`receiver monitors list` shows it"
        )
    return written
