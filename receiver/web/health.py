"""Health checks: is the process alive, and can it store a delivery now?"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from receiver.errors import StoreError
from receiver.runtime.log_lines import event_log
from receiver.web.intake import Intake
from receiver.web.replies import Reply, method_not_allowed, reply, send_reply, unavailable

log = event_log(__name__)


class Liveness:
    """Answers 200 to show that the process is alive and its event loop runs."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer = reply(200, {"status": "alive"}) if _is_read(scope) else method_not_allowed("GET")
        await send_reply(answer, send)


class Readiness:
    """Answers 200 if a write to the store succeeds within the deadline, else 503.

    Requests at the same time share one write. With `?worker=1` in the query, the worker must be alive too.
    """

    def __init__(
        self, intake: Intake, *, deadline: timedelta, worker_lives: Callable[[], bool] | None = None
    ) -> None:
        self._intake = intake
        self._worker_lives = worker_lives
        self._deadline = deadline
        self._probe: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if not _is_read(scope):
            answer = method_not_allowed("GET")
        elif not await self._ready():
            answer = unavailable("the store cannot be written")
        elif b"1" in parse_qs(scope.get("query_string", b"")).get(b"worker", ()):
            answer = self._worker_reply()
        else:
            answer = reply(200, {"status": "ready"})
        await send_reply(answer, send)

    def _worker_reply(self) -> Reply:
        if self._worker_lives is None:
            return unavailable("this process does not run a worker; ask without worker=1")
        if not self._worker_lives():
            return unavailable("the worker has ended and will be restarted; the log shows why it ended")
        return reply(200, {"status": "ready", "worker": "alive"})

    async def _ready(self) -> bool:
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._intake.probe())
            self._probe.add_done_callback(_retrieve_exception)
        done, _ = await asyncio.wait([self._probe], timeout=self._deadline.total_seconds())
        if not done:
            return False
        error = self._probe.exception() if not self._probe.cancelled() else None
        if isinstance(error, StoreError):
            log.warning("not_ready", extra={"reason": str(error)})
        elif error is not None:
            log.error("not_ready", exc_info=error)
        return error is None and not self._probe.cancelled()


def _retrieve_exception(probe: "asyncio.Task[None]") -> None:
    """Retrieve the exception: the request that began the probe may have been answered already."""
    if not probe.cancelled():
        probe.exception()


def _is_read(scope: Scope) -> bool:
    return scope["method"] in ("GET", "HEAD")
