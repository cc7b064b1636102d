"""The bodies of a live run: for each arrival the next event of its job's story."""

import random
from collections.abc import Iterator, Sequence

from receiver.service.samples import Payload, encode, job_story, sample
from receiver.service.simulator.arrivals import FIRST_JOB
from receiver.service.simulator.scenario import Job

_PAGES = 20


class Stories:
    """The stories of a scenario's jobs. Exact moments and steady traffic get crawls of 20 pages."""

    def __init__(self, jobs: Sequence[Job], rng: random.Random) -> None:
        self._rng = rng
        self._crawls = _endless(rng)
        self._jobs = [job_story(job.family, job.pages, rng) for job in jobs]

    def body(self, job: int) -> bytes:
        """Return the body of the next delivery of an Arrival's job."""
        return encode(next(self._crawls if job < FIRST_JOB else self._jobs[job - FIRST_JOB]))

    def invented(self) -> bytes:
        """Return the body of an invented delivery, for a forged request."""
        return encode(sample("crawl.page", rng=self._rng))


def _endless(rng: random.Random) -> Iterator[Payload]:
    while True:
        yield from job_story("crawl", _PAGES, rng)
