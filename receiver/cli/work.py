"""`receiver work`: one worker."""

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
from pathlib import Path
from typing import NoReturn

import click

from receiver.app import new_worker_id, run_worker
from receiver.cli.common.event_loop import run
from receiver.cli.common.exit_codes import FAILED, OK, exit_code
from receiver.cli.common.interrupt import stop_signals
from receiver.cli.common.setting_flags import running_flags
from receiver.cli.common.store import open_reports
from receiver.core.clock import SystemClock
from receiver.core.logs import configure_logs
from receiver.core.types import WorkerId
from receiver.errors import HandlerError, ReceiverError
from receiver.routing import Router
from receiver.routing.loader import load_router
from receiver.settings import Settings, export_env_file, load_settings
from receiver.worker.exhaustion import Exhaustion
from receiver.worker.parent_death import end_after_parent

log = logging.getLogger(__name__)

_MARGIN = timedelta(seconds=4)
"""Time after the grace time for cancelled handlers to end and leases to be released. A supervisor waits longer."""


@click.command()
@running_flags
@click.option("--name", hidden=True, help="Name of this worker, given by a supervisor.")
@click.option(
    "--takes-over", multiple=True, hidden=True, help="Name of a dead worker whose work is claimed at once."
)
@click.option("--with-parent", is_flag=True, hidden=True, help="Stop when standard input ends.")
def work(name: str | None, takes_over: tuple[str, ...], with_parent: bool, **flags: object) -> None:
    """Run your handlers on stored deliveries.

    This is a worker alone, beside `receiver serve --no-worker` or one more beside the others.
    Stops cleanly on Ctrl-C, SIGTERM or SIGHUP: what runs may finish, the rest goes back to be claimed again.
    """
    settings = load_settings(**flags)
    configure_logs(level=settings.log_level, as_json=settings.json_logs)
    settings.require_safe_metrics()
    ending = _Ending(within=settings.grace + _MARGIN)
    if with_parent:
        end_after_parent(settings.grace + _MARGIN)
        threading.Thread(target=ending.begin_at_end_of_input, daemon=True).start()
    export_env_file()
    router = _load(settings)
    worker = WorkerId(name) if name else new_worker_id()
    dead = [WorkerId(name) for name in takes_over]
    exhaustion = Exhaustion(settings.max_memory)
    try:
        left_behind = run(_work(settings, router, worker, dead, ending, exhaustion, careful=not with_parent))
    except ReceiverError as exc:
        if isinstance(exc, HandlerError) and exc.__cause__ is not None:
            log.error("resource_not_made", exc_info=exc.__cause__)
        click.echo(f"receiver: {exc}", err=True)
        # What a resource needs may be there in a moment, so a supervisor shall not take it for a wrong use.
        _leave(FAILED if with_parent else exit_code(exc))
    except Exception:
        log.exception("worker_failed")
        _leave(FAILED)
    if left_behind:
        advice = "they had not ended after the grace time; they are cut off now and will run again"
        log.warning("handlers_left_behind", extra={"count": left_behind, "advice": advice})
    if left_behind or exhaustion.found:
        _leave(FAILED if exhaustion.found else OK)


def _leave(code: int) -> NoReturn:
    """End at once. The interpreter would wait for the threads of plain handlers, which cannot be cancelled."""
    logging.shutdown()
    os._exit(code)


def _load(settings: Settings) -> Router:
    try:
        return load_router(settings.handlers, folder=Path.cwd())
    except HandlerError as exc:
        if exc.__cause__ is not None:
            log.error("handlers_do_not_import", exc_info=exc.__cause__)
        raise


async def _work(
    settings: Settings,
    router: Router,
    worker: WorkerId,
    dead: Sequence[WorkerId],
    ending: "_Ending",
    exhaustion: Exhaustion,
    *,
    careful: bool,  # nobody tells a worker without a supervisor whether another has died before
) -> int:
    stop = asyncio.Event()
    ending.attach(asyncio.get_running_loop(), stop)
    # Not the event loop's own handlers: a handler that blocks the loop would block them too.
    for signal_number in stop_signals():
        signal.signal(signal_number, ending.begin)
    log.info("worker_started", extra={"handlers": len(router), "worker": worker})
    await _tell_left_waiting(settings, router)
    watching = asyncio.create_task(exhaustion.watch(stop, SystemClock()))
    try:
        return await run_worker(settings, router, stop, worker=worker, takes_over=dead, careful=careful)
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _tell_left_waiting(settings: Settings, router: Router) -> None:
    """Warn once about work for handlers that are no longer in the code, since no worker will run it."""
    try:
        async with open_reports(settings) as reports:
            waiting = await reports.waiting()
    except ReceiverError:
        return  # there is no store yet, or opening it for work says what is wrong
    names = {handler.name for handler in router}
    if left := {name: count for name, count in sorted(waiting.items()) if name not in names}:
        advice = "bring the handlers back, or `receiver work-items bury --handler NAME --reason TEXT`"
        log.warning("work_without_handler", extra={"waiting": left, "advice": advice})


class _Ending:
    """Asks the worker to stop, and ends the process if it cannot hear that.

    It cannot while handlers are being imported, when it holds no work, and while one blocks the event loop.
    """

    def __init__(self, *, within: timedelta) -> None:
        self._within = within
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._begun = threading.Event()
        # Started now: a signal handler must not start a thread, it may have interrupted the start of another.
        threading.Thread(target=self._watch, daemon=True).start()

    def attach(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        """Set the event loop and the event that `begin` uses from now on."""
        self._loop, self._stop = loop, stop

    def begin(self, *_: object) -> None:
        """Ask; from any thread, or as a signal handler."""
        if self._loop is not None and self._stop is not None:
            with suppress(RuntimeError):  # the loop is closed: the end has come already
                self._loop.call_soon_threadsafe(self._stop.set)
        self._begun.set()

    def begin_at_end_of_input(self) -> None:
        """Ask when the supervisor has died: only it held the other end of our standard input."""
        while os.read(sys.stdin.fileno(), 1024):
            pass
        self.begin()

    def _watch(self) -> None:
        self._begun.wait()
        if self._loop is not None:
            time.sleep(self._within.total_seconds())
        log.error("worker_blocked", extra={"advice": "a handler or a resource blocks it; its work will run again"})
        logging.shutdown()
        os._exit(1)
