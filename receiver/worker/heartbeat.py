"""Shows others that a worker lives."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from receiver.core.clock import Clock
from receiver.core.log_lines import event_log
from receiver.core.ports.queue import WorkerSigns
from receiver.core.workers import WorkerSign
from receiver.errors import StoreError, StoreRefused
from receiver.worker.background import running_beside

log = event_log(__name__)

EVERY = timedelta(seconds=20)


@asynccontextmanager
async def shown_alive(queue: WorkerSigns, clock: Clock, sign: WorkerSign) -> AsyncIterator[None]:
    """Show for as long as the block lasts that this worker lives. Its work goes on if the store cannot show it."""
    async with running_beside(_beat(queue, clock, sign)):
        yield
    try:
        await queue.sign_off(sign.name)
    except (StoreError, StoreRefused) as exc:
        log.warning("worker_not_shown", extra={"reason": str(exc)})


async def _beat(queue: WorkerSigns, clock: Clock, sign: WorkerSign) -> None:
    while True:
        try:
            await queue.sign_on(sign, now=clock.now())
        except (StoreError, StoreRefused) as exc:
            log.warning("worker_not_shown", extra={"reason": str(exc)})
        except Exception:  # a bug of ours must not end the worker
            log.exception("worker_not_shown")
        await clock.sleep(EVERY)
