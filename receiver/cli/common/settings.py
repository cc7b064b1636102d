"""Settings of the commands that run something: their flags, and the log, from the first line on in its form."""

import functools
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from receiver.errors import ConfigurationError
from receiver.runtime.log_lines import event_log
from receiver.runtime.logs import configure_logs, log_crashes, logs_are_json
from receiver.settings import PREFIX, Settings, load_settings

Command = Callable[..., Any]

_Flags = Mapping[str, Mapping[str, Any]]

_RUNNING: _Flags = {
    "store": {"metavar": "URL"},
    "handlers": {"metavar": "MODULE:ROUTER"},
    "workers": {"type": int},
    "concurrency": {"type": int},
    "threads": {"type": int},
    "processes": {"type": int},
    "max_memory": {"metavar": "SIZE"},
    "lease": {"metavar": "TIME"},
    "grace": {"metavar": "TIME"},
    "log_level": {"metavar": "LEVEL"},
    "json_logs": {"is_flag": True, "default": None},
}
_LISTENING: _Flags = {
    "host": {"metavar": "ADDRESS"},
    "port": {"type": int},
    "path": {"metavar": "PATH"},
    "max_body": {"metavar": "SIZE"},
    "max_in_flight": {"metavar": "SIZE"},
    "ack_deadline": {"metavar": "TIME"},
    "read_timeout": {"metavar": "TIME"},
}
_CONSOLE: _Flags = {
    "store": {"metavar": "URL"},
    "console_host": {"metavar": "ADDRESS"},
    "console_port": {"type": int},
    "console_read_only": {"is_flag": True, "default": None},
    "log_level": {"metavar": "LEVEL"},
    "json_logs": {"is_flag": True, "default": None},
}
"""The settings that are flags, and what click needs to know of each. Names and texts are those of the settings."""


def _with_flags(settings: _Flags, command: Command) -> Command:
    @functools.wraps(command)
    def naming_flags(**given: Any) -> Any:
        try:
            return command(**given)
        except ConfigurationError as exc:
            typed = [name for name in settings if given[name] is not None]
            exc.args = (_with_flag_names(str(exc), typed),)
            raise

    decorated: Command = naming_flags
    for name, options in reversed(list(settings.items())):
        text = f"{Settings.model_fields[name].description}."
        decorated = click.option(_flag(name), help=text, **options)(decorated)
    return decorated


def _with_flag_names(error: str, typed: list[str]) -> str:
    """Return an error that names a setting as it was typed: `--max-body`, not `RECEIVER_MAX_BODY`."""
    for name in typed:
        error = re.sub(rf"\b{PREFIX}{name.upper()}\b", _flag(name), error)
    return error


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


running_flags = partial(_with_flags, _RUNNING)
listening_flags = partial(_with_flags, _LISTENING)
web_flags = partial(_with_flags, {"web_processes": {"type": int}})
console_flags = partial(_with_flags, _CONSOLE)

log = event_log(__name__)

_YES = frozenset({"1", "true", "t", "yes", "y", "on"})
"""What pydantic takes for True (its documentation, "Booleans")."""


def load_logged_settings(flags: Mapping[str, Any]) -> Settings:
    """Read the settings and set up the log as they say. From now on a crash is a line of the log too.

    An error in the settings is JSON if the flag or the variable says so; `.env` is not read yet.
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
