"""The `receiver` command: it runs a subcommand, and turns every error into one line and an exit code."""

import sys
from collections.abc import Callable
from typing import Any

import click

from receiver.cli.common.exit_codes import FAILED, INTERRUPTED, OK, exit_code
from receiver.cli.common.giving_way import give_way
from receiver.cli.common.lazy_group import LazyGroup
from receiver.cli.common.stdout import (
    StdoutClosed,
    StdoutFailed,
    drop_stdout,
    guard_stderr,
    guard_stdout,
    open_standard_files,
)
from receiver.core.process_ends import find_supervisor, tell_exit_code
from receiver.errors import ReceiverError

_COMMANDS = {
    "serve": "receiver.cli.serve:serve",
    "work": "receiver.cli.work:work",
    "dev": "receiver.cli.dev:dev",
    "demo": "receiver.cli.demo.command:demo",
    "new": "receiver.cli.new:new",
    "check": "receiver.cli.check:check",
    "guide": "receiver.cli.guide:guide",
    "backup": "receiver.cli.backup:backup",
    "restore": "receiver.cli.restore:restore",
    "store": "receiver.cli.store.group:store",
    "send": "receiver.cli.send:send",
    "emulate": "receiver.cli.emulate.command:emulate",
    "console": "receiver.cli.console:console",
    "tail": "receiver.cli.tail.command:tail",
    "simulate": "receiver.cli.simulate.command:simulate",
    "events": "receiver.cli.events.group:events",
    "jobs": "receiver.cli.jobs.group:jobs",
    "start": "receiver.cli.start.group:start",
    "scrape": "receiver.cli.scrape:scrape",
    "monitors": "receiver.cli.monitors.group:monitors",
    "backfill": "receiver.cli.backfill:backfill",
    "drift": "receiver.cli.drift:drift",
    "alerts": "receiver.cli.alerts.group:alerts",
    "quarantine": "receiver.cli.quarantine.group:quarantine",
    "actions": "receiver.cli.actions:actions",
    "work-items": "receiver.cli.work_items.group:work_items",
    "handlers": "receiver.cli.handlers.group:handlers",
    "replay": "receiver.cli.replay.command:replay",
    "sign": "receiver.cli.sign:sign",
    "verify": "receiver.cli.verify:verify",
}


class _Receiver(LazyGroup):
    """The group of all commands."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. A broken pipe, such as a file that is one, is an error: click would end without a word."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as exc:
            raise ReceiverError(f"the reader of a pipe has gone: {exc.strerror or exc}") from exc


@click.group(cls=_Receiver, subcommands=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="crawl-receiver", prog_name="receiver")
def receiver() -> None:
    """Receive webhooks of a crawl service, keep every delivery, and run your handlers on them."""


def main() -> None:
    """Run the command line and leave with its exit code."""
    find_supervisor()
    open_standard_files()
    guard_stdout()
    guard_stderr()
    give_way(sys.argv[1:])
    code = run(receiver.main)
    tell_exit_code(code)
    sys.exit(code)


def run(command: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Run a click command and return its exit code; an error becomes one line on standard error.

    A closed standard output is success, since its reader has seen enough. One that cannot be written, as on a
    full disk, is an error.
    """
    try:
        code = _run(command, *args, **kwargs)
        sys.stdout.flush()
    except StdoutClosed:
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
        from receiver.cli.common.logging_setup import show_error  # loads the settings, which few errors need

        show_error(str(exc))
        return exit_code(exc)
    return result if isinstance(result, int) else OK
