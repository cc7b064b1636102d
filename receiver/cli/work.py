"""`receiver work`: one worker, or several that are supervised."""

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NoReturn

import click

from receiver.cli.common.exit_codes import FAILED, OK, exit_code
from receiver.cli.common.interrupt import stop_signals
from receiver.cli.common.settings import load_logged_settings, running_flags, show_error
from receiver.cli.common.store import open_reports
from receiver.cli.common.supervised import supervise_until_stopped, worker_supervisors
from receiver.core.clock import SystemClock
from receiver.core.types import WorkerId
from receiver.errors import HandlerError, ReceiverError, StoreRefused
from receiver.routing import Router
from receiver.routing.loader import load_router, watched_import
from receiver.running import run_worker
from receiver.runtime.log_lines import event_log
from receiver.runtime.processes import end_after_parent, run, tell_exit_code
from receiver.settings import Settings, export_env_file
from receiver.worker.trial import RoutingWatch
from receiver.worker.upkeep.strain import LoopWatch, UsageWatch
from receiver.worker.upkeep.supervisor import new_worker_id

log = event_log(__name__)


class Stopper:
    """Asks the worker to stop, and ends the process if the worker does not react.

    A worker cannot react while it imports handlers (it has no work then), or while a handler blocks the event loop.
    """

    def __init__(self, *, within: timedelta) -> None:
        self._within = within
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._process = os.getpid()
        self.asked, self._ask = os.pipe()
        """A descriptor that can be read once the worker was asked to stop."""
        os.set_blocking(self._ask, False)

    def start(self) -> None:
        """Start the thread that passes the request on. It waits until there is one."""
        # A signal handler must not start this thread: it may have interrupted the start of another thread.
        threading.Thread(target=self._watch, daemon=True).start()

    def attach(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        """Set the event loop, and the event in it that a request sets from now on."""
        self._loop, self._stop = loop, stop

    def ask(self, *_: object) -> None:
        """Ask the worker to stop. This works from any thread and as a signal handler, also inside of itself."""
        # A second signal may interrupt this anywhere. A lock, as in threading.Event, would then wait for ever for
        # the same thread; a byte in a pipe needs none.
        if os.getpid() != self._process:
            return  # a handler has forked, and its child must not stop this worker
        with suppress(OSError):  # the pipe is full of such requests
            os.write(self._ask, b"\0")

    def ask_at_end_of_input(self) -> None:
        """Ask the worker to stop when the standard input ends, because the supervisor has died."""
        while os.read(sys.stdin.fileno(), 1024):
            pass
        self.ask()

    def _watch(self) -> None:
        os.read(self.asked, 1)
        if self._loop is not None and self._stop is not None:
            with suppress(RuntimeError):  # the loop is closed: the worker has stopped already
                self._loop.call_soon_threadsafe(self._stop.set)
            time.sleep(self._within.total_seconds())
        log.error("worker_blocked", extra={"advice": "a handler or a resource blocks it; its work will run again"})
        logging.shutdown()
        os._exit(1)


_MARGIN = timedelta(seconds=4)
"""Time after the grace time to cancel handlers and release leases. A supervisor waits longer than this."""


class _WorkCommand(click.Command):
    """Names `receiver work-items` in the error for `receiver work list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as exc:
            if "unexpected extra argument" not in exc.message:
                raise
            elsewhere = "this command runs handlers, and work items have `receiver work-items`"
            raise click.UsageError(f"{exc.message}; {elsewhere}", ctx) from None


@click.command(cls=_WorkCommand)
@running_flags
@click.option("--name", hidden=True, help="Name of this worker, given by a supervisor.")
@click.option(
    "--takes-over", multiple=True, hidden=True, help="Name of a dead worker whose work is claimed at once."
)
@click.option("--with-parent", is_flag=True, hidden=True, help="Stop when standard input ends.")
@click.option("--stubs", is_flag=True, hidden=True, help="Log a handler to paste for events without one.")
@click.option(
    "--store-refusal-told", is_flag=True, hidden=True, help="Do not report again that the store is refused."
)
def work(
    name: str | None,
    takes_over: tuple[str, ...],
    with_parent: bool,
    stubs: bool,
    store_refusal_told: bool,
    **flags: object,
) -> int:
    """Run your handlers on stored deliveries.

    Use it beside `receiver serve --no-worker`, or to add another worker. Ctrl-C, SIGTERM or SIGHUP stops the
    command cleanly: running handlers may finish, and other workers can claim the rest of the work. With --workers
    it starts several worker processes; one that dies is started again.
    """
    settings = load_logged_settings(flags)
    settings.require_safe_metrics()
    if settings.workers > 1 and not with_parent:
        return run(supervise_until_stopped(worker_supervisors(settings, flags)))
    stopper = Stopper(within=settings.grace + _MARGIN)
    stopper.start()
    if with_parent:
        end_after_parent(settings.grace + _MARGIN)
        threading.Thread(target=stopper.ask_at_end_of_input, daemon=True).start()
    export_env_file()
    router = _load(settings)
    worker = WorkerId(name) if name else new_worker_id()
    dead = [WorkerId(name) for name in takes_over]
    usage = UsageWatch(settings.max_memory)
    watch = RoutingWatch(partial(_leave, FAILED) if with_parent else _start_again)
    try:
        left_behind = run(
            _work(settings, router, worker, dead, stopper, usage, watch, careful=not with_parent, stubs=stubs)
        )
    except ReceiverError as exc:
        if isinstance(exc, HandlerError) and exc.__cause__ is not None:
            log.error("resource_not_made", exc_info=exc.__cause__)
        is_refused = isinstance(exc, StoreRefused)
        if not (is_refused and store_refusal_told):
            show_error(str(exc))
        # A resource may become available soon, so a supervisor shall restart this worker: WRONG_USE would end it.
        _leave(FAILED if with_parent and not is_refused else exit_code(exc))
    except Exception:
        log.exception("worker_failed")
        _leave(FAILED)
    if left_behind:
        advice = "they did not finish within the grace time; they are stopped now and will run again"
        log.warning("handlers_left_behind", extra={"count": left_behind, "advice": advice})
    if left_behind or usage.found:
        _leave(FAILED if usage.found else OK)
    return OK


def _leave(code: int) -> NoReturn:
    """End the process at once. Otherwise it would wait for threads of plain handlers, which nothing can cancel."""
    logging.shutdown()
    tell_exit_code(code)
    os._exit(code)


def _start_again() -> None:
    """Replace this process by a new one with the same command. This works from any thread."""
    logging.shutdown()
    try:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - the command of this process
    except OSError:
        os._exit(FAILED)


def _load(settings: Settings) -> Router:
    def tell(where: str) -> None:
        fields = {"handlers": settings.handlers, "where": where, "advice": "no handler runs before it has ended"}
        log.warning("handlers_still_importing", extra=fields)

    try:
        with watched_import(tell):
            return load_router(settings.handlers, folder=Path.cwd())
    except HandlerError as exc:
        if exc.__cause__ is not None and not isinstance(exc.__cause__, HandlerError):  # its text says everything
            log.error("handlers_do_not_import", exc_info=exc.__cause__)
        raise


async def _work(
    settings: Settings,
    router: Router,
    worker: WorkerId,
    dead: Sequence[WorkerId],
    stopper: Stopper,
    usage: UsageWatch,
    watch: RoutingWatch,
    *,
    careful: bool,  # a worker without a supervisor cannot know whether another worker has died
    stubs: bool,
) -> int:
    stop = asyncio.Event()
    stopper.attach(asyncio.get_running_loop(), stop)
    # The event loop's own signal handlers would not run while a handler blocks the loop.
    for signal_number in stop_signals():
        signal.signal(signal_number, stopper.ask)
    log.info("worker_started", extra={"handlers": len(router), "worker": worker})
    await _warn_of_work_without_handler(settings, router)
    watching = asyncio.create_task(usage.watch(stop, SystemClock()))
    watch.start()
    LoopWatch.of_running_loop(SystemClock()).start()
    try:
        return await run_worker(
            settings,
            router,
            stop,
            worker=worker,
            takes_over=dead,
            careful=careful,
            watch=watch,
            stubs=stubs,
            started=usage.note,
        )
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _warn_of_work_without_handler(settings: Settings, router: Router) -> None:
    """Log a warning about work for handlers that are no longer in the code: no worker will run it."""
    try:
        async with open_reports(settings) as reports:
            waiting = await reports.waiting()
    except ReceiverError:
        return  # the store does not exist yet, or the worker will report the error
    names = {handler.name for handler in router}
    if left := {name: count for name, count in sorted(waiting.items()) if name not in names}:
        advice = "restore the handlers, or use `receiver work-items bury --handler NAME --reason TEXT`"
        log.warning("work_without_handler", extra={"waiting": left, "advice": advice})
