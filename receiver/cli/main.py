"""The `receiver` command: it runs a subcommand, and turns every error into one line and an exit code."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import click

from receiver.cli.common.exit_codes import FAILED, INTERRUPTED, OK, exit_code
from receiver.cli.common.lazy_group import LazyGroup
from receiver.cli.common.stdout import (
    StdoutClosed,
    StdoutFailed,
    drop_stdout,
    guard_stderr,
    guard_stdout,
    open_standard_files,
)
from receiver.errors import ReceiverError
from receiver.runtime.processes import find_supervisor, tell_exit_code

_READERS = frozenset({"events export", "events list", "jobs list", "store copy"})
"""Commands of groups that only read, and may go through a whole store."""
_WRITING = frozenset({"--enqueue", "--record"})
"""Options with which `replay` writes."""
_READER_NICENESS = 10
_WORKER_NICENESS = 5
"""Linux gives a worker a third of the time that a program of niceness 0 has, while both want the same processor."""


def give_way(arguments: Sequence[str]) -> None:
    """Lower the priority of a command below that of the endpoint, also for its threads and processes.

    Stored deliveries can wait, and a sender does not wait for long. On a machine whose processors are all busy, the
    lower priority of a worker is worth about 10 % of the acks at 1 KB. A worker that has work again also does not
    interrupt what runs, which is worth about 5 %: Linux calls that SCHED_BATCH (sched(7)). A worker keeps a
    priority or a policy that was chosen for it.
    """
    if is_reader(arguments):
        _add_niceness(_READER_NICENESS)
    if arguments[:1] != ["work"]:
        return
    if os.getpriority(os.PRIO_PROCESS, 0) == 0:
        _add_niceness(_WORKER_NICENESS)
    if sys.platform == "linux":
        # Some sandboxes forbid it, and musl does not have it (sched_getscheduler.c: ENOSYS). Nothing depends on it.
        with suppress(OSError):
            if os.sched_getscheduler(0) == os.SCHED_OTHER:
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _add_niceness(more: int) -> None:
    with suppress(OSError):  # a sandbox may forbid it
        os.nice(more)


def is_reader(arguments: Sequence[str]) -> bool:
    """Return whether a command only reads, and may do so for long.

    A command that writes many deliveries in a transaction keeps its priority: the endpoint would wait for its lock
    while it waits for a processor. The transactions of a worker are short.
    """
    if arguments[:1] == ["replay"]:
        return not _WRITING.intersection(arguments)
    return arguments[:1] == ["backup"] or " ".join(arguments[:2]) in _READERS


_COMMANDS = {
    "serve": "receiver.cli.serve:serve",
    "work": "receiver.cli.work:work",
    "dev": "receiver.cli.dev:dev",
    "demo": "receiver.cli.demo.command:demo",
    "new": "receiver.cli.scaffold:new",
    "check": "receiver.cli.check:check",
    "guide": "receiver.cli.guide:guide",
    "backup": "receiver.cli.backup:backup",
    "restore": "receiver.cli.backup:restore",
    "store": "receiver.cli.store:store",
    "send": "receiver.cli.send:send",
    "emulate": "receiver.cli.emulate.command:emulate",
    "console": "receiver.cli.console:console",
    "tail": "receiver.cli.tail:tail",
    "simulate": "receiver.cli.simulate.command:simulate",
    "events": "receiver.cli.events.list:events",
    "jobs": "receiver.cli.jobs:jobs",
    "start": "receiver.cli.start:start",
    "scrape": "receiver.cli.scrape:scrape",
    "monitors": "receiver.cli.monitors:monitors",
    "backfill": "receiver.cli.backfill:backfill",
    "drift": "receiver.cli.drift:drift",
    "alerts": "receiver.cli.alerts:alerts",
    "quarantine": "receiver.cli.quarantine:quarantine",
    "actions": "receiver.cli.actions:actions",
    "work-items": "receiver.cli.work_items:work_items",
    "handlers": "receiver.cli.handlers:handlers",
    "replay": "receiver.cli.replay.command:replay",
    "sign": "receiver.cli.sign:sign",
    "verify": "receiver.cli.sign:verify",
}


class _Receiver(LazyGroup):
    """The group of all commands."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. A broken pipe, such as a file that is one, is an error: click would say nothing."""
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

    A closed standard output is success, since its reader has seen enough. A standard output that cannot be written,
    as on a full disk, is an error.
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
        from receiver.cli.common.settings import show_error  # loads the settings, which few errors need

        show_error(str(exc))
        return exit_code(exc)
    return result if isinstance(result, int) else OK
