"""The log of programs that run until they are stopped: from the first line on in the form that was asked for."""

import os
from collections.abc import Mapping
from typing import Any

import click

from receiver.core.log_lines import event_log
from receiver.core.logs import configure_logs, log_crashes, logs_are_json
from receiver.settings import PREFIX, Settings, load_settings

log = event_log(__name__)

_YES = frozenset({"1", "true", "t", "yes", "y", "on"})
"""What pydantic takes for True (its documentation, "Booleans")."""


def load_logged_settings(flags: Mapping[str, Any]) -> Settings:
    """Read the settings and set up the log as they say. From now on a crash is a line of the log too.

    An error in the settings is JSON if the flag or the variable says so; nobody knows yet what `.env` says.
    """
    asked = os.environ.get(f"{PREFIX}JSON_LOGS", "").lower() in _YES
    configure_logs(level="INFO", as_json=bool(flags.get("json_logs")) or asked)
    log_crashes()
    settings = load_settings(**flags)
    configure_logs(level=settings.log_level, as_json=settings.json_logs)
    return settings


def show_error(text: str) -> None:
    """Write an error of this program to standard error in one line, which is JSON if the log is."""
    if logs_are_json():
        log.error("command_failed", extra={"reason": text})
    else:
        click.echo(f"receiver: {text}", err=True)
