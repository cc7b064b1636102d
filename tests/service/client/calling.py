"""A service with scripted answers, and both clients that call it."""

import functools
import itertools
import json
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

from receiver.core.clock import VirtualClock
from receiver.service.client import AsyncClient, Client, RetryPolicy
from receiver.service.client.retrying import DEFAULT_PATIENCE
from tests.cases import arguments_of, named, without_arguments
from tests.doubles import NOON

KEY = "fc-0123456789abcdef-sentinel"
BASE = "https://api.example.com"

PAGE = "https://example.com/"
JOB = "019f2c10-0000-7000-8000-000000000001"
MONITOR_ID = "019f2c10-0000-7000-8000-0000000000aa"
CHECK_ID = "019f2c10-0000-7000-8000-0000000000bb"
DOCUMENT = {"markdown": "# Hi", "metadata": {"sourceURL": PAGE, "statusCode": 200, "title": ["Hi", "Ho"]}}
STARTED = {"success": True, "id": JOB, "url": f"{BASE}/v2/crawl/{JOB}"}

EndpointReply = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


def said(status: int = 200, /, **body: Any) -> httpx.Response:
    """Return an answer with a JSON object."""
    return httpx.Response(status, json=body)


class Ticking(VirtualClock):
    """A clock on which every wait is over at once; it moves by as much."""

    async def sleep(self, duration: Any) -> None:
        """Move on."""
        self.advance(duration)


class Steady(random.Random):
    """No jitter."""

    def uniform(self, a: float, b: float) -> float:
        """Return the middle for retries' own pauses, the shortest for what the service asks for."""
        return 1.0


@dataclass
class Service:
    """Gives its answers in order, the last one for ever, and keeps the requests."""

    replies: list[EndpointReply] = field(default_factory=list)
    requests: list[httpx.Request] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, httpx.Response):
            # A response is read once; the same answer can be given again.
            return httpx.Response(reply.status_code, headers=reply.headers, content=reply.content)
        return reply(request)

    @property
    def sent(self) -> list[tuple[str, str, Any]]:
        """Method, path with query, and JSON body of each request."""
        return [
            (one.method, one.url.raw_path.decode(), json.loads(one.content) if one.content else None)
            for one in self.requests
        ]


class Caller:
    """One of the two clients, called by the names of its operations."""

    def __init__(
        self, kind: str, service: Service, *, base: str = BASE, patience: RetryPolicy = DEFAULT_PATIENCE
    ) -> None:
        self.kind = kind
        self.clock = Ticking(NOON)
        self.service = service
        transport = httpx.MockTransport(service)
        made: dict[str, Any] = {"clock": self.clock, "rng": Steady(), "patience": patience, "transport": transport}
        self.client: AsyncClient | Client = (AsyncClient if kind == "async" else Client)(KEY, base, **made)

    async def call(self, name: str, *args: Any, **options: Any) -> Any:
        """Call an operation and return its result."""
        result = getattr(self.client, name)(*args, **options)
        return await result if self.kind == "async" else result

    async def pages(self, name: str, *args: Any, **options: Any) -> list[Any]:
        """Go through all pages of an operation."""
        found = getattr(self.client, name)(*args, **options)
        return [page async for page in found] if self.kind == "async" else list(found)

    @property
    def waited(self) -> float:
        """Seconds that have passed."""
        return (self.clock.now() - NOON).total_seconds()


Test = Callable[..., Awaitable[None]]


def for_both_clients(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run the test for each case with each client, every time with a new service that has no answers yet."""
    listed = arguments_of(names, cases)

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        async def run(**fixtures: Any) -> None:
            for kind, case in itertools.product(("async", "plain"), listed):
                with named((kind, case)):
                    service = Service()
                    await test(caller=Caller(kind, service), service=service, **fixtures, **case)

        return without_arguments(run, test, ["caller", "service", *listed[0]])

    return decorate
