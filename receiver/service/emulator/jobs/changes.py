"""Tells watchers of a job that something has changed."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class JobWatch:
    """One watcher of one job."""

    def __init__(self) -> None:
        self._news = asyncio.Event()

    def notify(self) -> None:
        """Let `changed` return."""
        self._news.set()

    async def changed(self) -> None:
        """Return when the job has changed since the last return, or since the watch began."""
        await self._news.wait()
        self._news.clear()


class JobChanges:
    """The watchers of all jobs."""

    def __init__(self) -> None:
        self._watches: dict[str, set[JobWatch]] = defaultdict(set)

    def notify(self, job_id: str) -> None:
        """Tell all that watch a job."""
        for watch in self._watches.get(job_id, ()):
            watch.notify()

    @contextmanager
    def watch(self, job_id: str) -> Iterator[JobWatch]:
        """Watch a job for as long as the block lasts."""
        watch = JobWatch()
        self._watches[job_id].add(watch)
        try:
            yield watch
        finally:
            self._watches[job_id].discard(watch)
            if not self._watches[job_id]:
                del self._watches[job_id]
