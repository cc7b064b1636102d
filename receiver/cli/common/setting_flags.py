"""Flags that set a setting, for the commands that run something."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_RUNNING = (
    click.option("--store", metavar="URL", help="The store, such as sqlite:///FILE."),
    click.option("--handlers", metavar="MODULE:ROUTER", help="The router with your handlers."),
    click.option("--concurrency", type=int, help="Handlers that run at one time."),
    click.option("--threads", type=int, help="Threads for handlers that are plain functions."),
    click.option("--log-level", metavar="LEVEL", help="Level of log lines: debug, info, warning or error."),
    click.option("--json-logs", is_flag=True, default=None, help="Write log lines as JSON objects."),
)
_LISTENING = (
    click.option("--host", help="Address to listen on; 0.0.0.0 for all."),
    click.option("--port", type=int, help="Port to listen on; 0 for a free one."),
    click.option("--path", help="Path of the endpoint."),
)


def running_flags(command: F) -> F:
    """Add the flags of the commands that run handlers."""
    for option in reversed(_RUNNING):
        command = option(command)
    return command


def listening_flags(command: F) -> F:
    """Add the flags of the commands that listen."""
    for option in reversed(_LISTENING):
        command = option(command)
    return command
