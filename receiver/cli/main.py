"""The `receiver` command: finds the command, runs it, and turns every error into one line and an exit code."""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from receiver.cli.common.exit_codes import FAILED, INTERRUPTED, OK, exit_code
from receiver.cli.common.stdout import StdoutFailed, drop_stdout, guard_stdout
from receiver.errors import ReceiverError

_COMMANDS = {
    "serve": "receiver.cli.serve:serve",
    "work": "receiver.cli.work:work",
    "demo": "receiver.cli.demo:demo",
    "new": "receiver.cli.new:new",
    "check": "receiver.cli.check:check",
    "send": "receiver.cli.send:send",
    "tail": "receiver.cli.tail.command:tail",
    "simulate": "receiver.cli.simulate.command:simulate",
    "events": "receiver.cli.events.group:events",
    "jobs": "receiver.cli.jobs.group:jobs",
    "start": "receiver.cli.start:start",
    "scrape": "receiver.cli.scrape:scrape",
    "monitors": "receiver.cli.monitors:monitors",
    "backfill": "receiver.cli.backfill:backfill",
    "drift": "receiver.cli.drift:drift",
    "quarantine": "receiver.cli.quarantine:quarantine",
    "work-items": "receiver.cli.work_items.group:work_items",
    "handlers": "receiver.cli.handlers:handlers",
    "replay": "receiver.cli.replay.command:replay",
    "sign": "receiver.cli.signing:sign",
    "verify": "receiver.cli.signing:verify",
}


@contextmanager
def _read_enough() -> Iterator[None]:
    """End the command as done when its output is closed: click would turn that into exit code 1."""
    try:
        yield
    except BrokenPipeError:
        drop_stdout()
        raise click.exceptions.Exit(OK) from None


class _LazyGroup(click.Group):
    """Imports a command's module when it is asked for, so that `receiver sign` does not load a web server."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{_COMMANDS[cmd_name]} is no command")
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _read_enough():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _read_enough():
            return super().invoke(ctx)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="crawl-receiver", prog_name="receiver")
def receiver() -> None:
    """Receive webhooks of a crawl service, keep every delivery, and run your handlers on them."""


def main() -> None:
    """Run the command line and leave with its exit code."""
    guard_stdout()
    sys.exit(run(receiver.main))


def run(command: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Run a click command and return its exit code; errors are told in one line on standard error.

    Standard output that was closed was read enough of; one that cannot be written, as on a full disk, is an error.
    """
    try:
        code = _run(command, *args, **kwargs)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_stdout()
        return OK
    except StdoutFailed as exc:
        drop_stdout()
        click.echo(f"receiver: cannot write to standard output: {exc.strerror or exc}", err=True)
        return FAILED
    return code


def _run(command: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    try:
        result = command(*args, **kwargs, standalone_mode=False)
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except click.ClickException as exc:
        exc.show()
        return exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except ReceiverError as exc:
        click.echo(f"receiver: {exc}", err=True)
        return exit_code(exc)
    return result if isinstance(result, int) else OK
