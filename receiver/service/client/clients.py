"""The two clients: the same operations with and without an event loop.

`scrapes`, `jobs` and `monitors` say what each operation sends and reads, `retrying` how often it is tried. This
module does only the I/O.
"""

import asyncio
import inspect
import random
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from types import TracebackType
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    get_args,
    get_type_hints,
    is_typeddict,
)
from urllib.parse import urlencode, urlsplit

import httpx
from pydantic import SecretStr

from receiver.core.clock import BlockingClock, Clock, SystemClock, time_limit
from receiver.errors import ServiceError, UnexpectedAnswer
from receiver.service.client import jobs, scrapes
from receiver.service.client import monitors as watching
from receiver.service.client.calls import ServiceCall, ServiceResponse
from receiver.service.client.retrying import DEFAULT_PATIENCE, Pause, RetryPolicy, Script, call_steps
from receiver.service.client.transport import (
    FAULTS,
    GET_WITHIN,
    Body,
    CallDeadlines,
    as_service_error,
    no_whole_answer,
    options,
    refuse_other_codings,
    request,
)
from receiver.signals.traces.switch import call_span

T = TypeVar("T")

MAX_ADDRESS_LENGTH = 8000
MAX_PAGES = 10_000
"""The most pages of one operation: a million results, by the service's 100 at once."""


class Pages(Generic[T]):
    """Finds the call for the next page. `call` is the one to make now, None after the last page.

    Only path and query of an answer's `next` are used: its host may be another one, and that must not get our key.
    A running job always names a next page, sometimes the page that was just read. An address that was read before
    is the end. A service that always names a new one is an error: UnexpectedAnswer.
    """

    def __init__(self, first: ServiceCall[T], *, base_path: str) -> None:
        self.call: ServiceCall[T] | None = first
        self._base_path = base_path.rstrip("/")
        query = urlencode(first.query)
        self._seen = {f"{first.path}?{query}" if query else first.path}
        self._last: Sequence[Any] = ()

    def turn(self, page: T) -> None:
        """Go on after this page."""
        call, self.call = self.call, None
        address = call.next(page) if call is not None and call.next is not None else None
        if call is None or not address:
            return
        items = call.items(page) if call.items is not None else ()
        if items and items == self._last:
            raise UnexpectedAnswer(f"{call.method} {call.path}: the same results as on the page before")
        self._last = items
        target = self._target(call, address)
        if target in self._seen:
            return
        if len(self._seen) == MAX_PAGES:
            raise UnexpectedAnswer(f"{call.method} {call.path}: after {MAX_PAGES:,} pages it names a next one")
        self._seen.add(target)
        self.call = replace(call, path=target, query={})

    def _target(self, call: ServiceCall[T], address: str) -> str:
        """Return path and query, relative to the service's address."""
        try:
            if not address.isascii() or not address.isprintable() or len(address) > MAX_ADDRESS_LENGTH:
                raise ValueError("not a form that can be asked for")
            parts = urlsplit(address)
        except ValueError:
            raise UnexpectedAnswer(f"{call.method} {call.path}: its next page has no address") from None
        path = "/" + parts.path.lstrip("/")
        if path.startswith(f"{self._base_path}/"):
            path = path.removeprefix(self._base_path)
        return f"{path}?{parts.query}" if parts.query else path


F = TypeVar("F", bound=Callable[..., Any])


class _Unset:
    """Stands for an option that is not given; the service decides about it then."""

    def __repr__(self) -> str:
        return "unset"


UNSET: Final = _Unset()


def describe(method: F, build: Callable[..., Any], *, yields: Any = None) -> F:
    """Return the method with name, docstring and signature of the function that builds its call.

    Keyword options are listed one by one. The method returns the call's result; with `yields`, such as Iterator, it
    yields one for each page.
    """
    hints = get_type_hints(build)
    (found,) = get_args(hints.pop("return"))
    parameters = list(_parameters(build, hints))
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    returns = found if yields is None else yields[found]
    attributes = {
        "__name__": build.__name__,
        "__qualname__": build.__name__,
        "__doc__": build.__doc__,
        "__annotations__": {one.name: one.annotation for one in parameters} | {"return": returns},
        "__signature__": inspect.Signature([first, *parameters], return_annotation=returns),
        "__wrapped__": build,
    }
    for name, value in attributes.items():
        setattr(method, name, value)
    return method


def _parameters(build: Callable[..., Any], hints: dict[str, Any]) -> Iterator[inspect.Parameter]:
    for one in inspect.signature(build).parameters.values():
        hint = hints[one.name]
        if one.kind is not inspect.Parameter.VAR_KEYWORD:
            yield one.replace(annotation=hint)
            continue
        (options,) = (part for part in get_args(hint) if is_typeddict(part))
        for name, form in get_type_hints(options).items():
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=UNSET, annotation=form)


P = ParamSpec("P")

SERVICE = "https://api.firecrawl.dev"
MAX_REQUESTS = 32
"""The most requests at one time. Others wait outside of httpx's pool, which gets slow when many wait in it."""


def _in_async(
    build: Callable[P, ServiceCall[T]],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    """Return the method of AsyncClient that makes this call."""

    async def operation(client: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client.send(build(*args, **kwargs))

    return describe(operation, build)


def _pages_in_async(
    build: Callable[P, ServiceCall[T]],
) -> Callable[Concatenate["AsyncClient", P], AsyncIterator[T]]:
    """Return the method of AsyncClient that makes this call for each page."""

    def operation(client: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return client.pages(build(*args, **kwargs))

    return describe(operation, build, yields=AsyncIterator)


def _in_plain(build: Callable[P, ServiceCall[T]]) -> Callable[Concatenate["Client", P], T]:
    """Return the method of Client that makes this call."""

    def operation(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client.send(build(*args, **kwargs))

    return describe(operation, build)


def _pages_in_plain(build: Callable[P, ServiceCall[T]]) -> Callable[Concatenate["Client", P], Iterator[T]]:
    """Return the method of Client that makes this call for each page."""

    def operation(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        pages = Pages(build(*args, **kwargs), base_path=client.http.base_url.path)
        while pages.call is not None:
            page = client.send(pages.call)
            yield page
            pages.turn(page)

    return describe(operation, build, yields=Iterator)


async def _refuse_other_codings(response: httpx.Response) -> None:
    refuse_other_codings(response)


class AsyncClient:
    """The service's API for async code. Close it, or use it in `async with`; many tasks can share one client.

    Its methods raise a ServiceError by the status of the answer, and a ValueError for a request that the service
    would refuse. A call that was certainly not carried out is made again, another one only if repeating it does no
    harm; `patience` says how often. `get` and the httpx client `http` reach operations that have no method here. An
    unusable key or address is a ConfigurationError.
    """

    def __init__(
        self,
        api_key: str,
        base_url: str = SERVICE,
        *,
        patience: RetryPolicy = DEFAULT_PATIENCE,
        concurrency: int = MAX_REQUESTS,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        certificates: ssl.SSLContext | None = None,
    ) -> None:
        given = options(base_url, api_key, places=concurrency)
        hooks = {"response": [_refuse_other_codings]}
        self.http = httpx.AsyncClient(transport=transport, verify=certificates or True, event_hooks=hooks, **given)
        self._key = SecretStr(api_key)
        self._patience = patience
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()  # noqa: S311 - spreads retries, protects nothing
        self._places = asyncio.Semaphore(concurrency)

    def __repr__(self) -> str:
        return f"AsyncClient({str(self.http.base_url)!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self.http.aclose()

    async def get(self, path: str, *, params: dict[str, str] | None = None) -> httpx.Response:
        """Get any path of the service and return the answer as it came, within a minute.

        Errors are those of httpx.
        """
        async with self._places:
            try:
                async with time_limit(self._clock, GET_WITHIN):
                    asked = self.http.build_request("GET", path, params=params)
                    with call_span(asked.method, str(asked.url), asked.headers) as span:
                        response = await self.http.send(asked)
                        if span is not None:
                            span.note_status(response.status_code)
                        return response
            except TimeoutError:
                raise no_whole_answer(path) from None

    async def send(self, call: ServiceCall[T]) -> T:
        """Make a call, repeat it if necessary, and return its result."""
        steps: Script[T] = call_steps(call, self._patience, key=self._key, clock=self._clock, rng=self._rng)
        step = next(steps)
        try:
            while True:
                if isinstance(step, Pause):
                    await self._clock.sleep(step.duration)
                    step = next(steps)
                else:
                    step = steps.send(await self._attempt(call))
        except StopIteration as end:
            result: T = end.value
            return result

    async def pages(self, call: ServiceCall[T]) -> AsyncIterator[T]:
        """Make a call and one more for each next page; yield the result of each."""
        pages = Pages(call, base_path=self.http.base_url.path)
        while pages.call is not None:
            page = await self.send(pages.call)
            yield page
            pages.turn(page)

    async def _attempt(self, call: ServiceCall[Any]) -> ServiceResponse | ServiceError:
        async with self._places:
            body = Body(call)
            try:
                async with time_limit(self._clock, call.answered_within):
                    asked = request(self.http, call)
                    with call_span(asked.method, str(asked.url), asked.headers) as span:
                        response = await self.http.send(asked, stream=True)
                        if span is not None:
                            span.note_status(response.status_code)
                    try:
                        async for chunk in response.aiter_bytes():
                            body.add(chunk)
                    finally:
                        await response.aclose()
                return body.answer(response)
            except (ServiceError, *FAULTS) as error:
                return as_service_error(error, call, self.http.base_url)

    scrape = _in_async(scrapes.scrape)
    parse = _in_async(scrapes.parse)
    map = _in_async(scrapes.map)
    search = _in_async(scrapes.search)
    queue_status = _in_async(scrapes.queue_status)
    crawl = _in_async(jobs.crawl)
    crawl_status = _in_async(jobs.crawl_status)
    crawl_pages = _pages_in_async(jobs.crawl_pages)
    crawl_errors = _in_async(jobs.crawl_errors)
    cancel_crawl = _in_async(jobs.cancel_crawl)
    active_crawls = _in_async(jobs.active_crawls)
    batch_scrape = _in_async(jobs.batch_scrape)
    batch_status = _in_async(jobs.batch_status)
    batch_pages = _pages_in_async(jobs.batch_pages)
    batch_errors = _in_async(jobs.batch_errors)
    cancel_batch = _in_async(jobs.cancel_batch)
    extract = _in_async(jobs.extract)
    extract_status = _in_async(jobs.extract_status)
    agent = _in_async(jobs.agent)
    agent_status = _in_async(jobs.agent_status)
    cancel_agent = _in_async(jobs.cancel_agent)
    monitor = _in_async(watching.monitor)
    monitors = _in_async(watching.monitors)
    create_monitor = _in_async(watching.create_monitor)
    update_monitor = _in_async(watching.update_monitor)
    delete_monitor = _in_async(watching.delete_monitor)
    run_monitor = _in_async(watching.run_monitor)
    checks = _in_async(watching.checks)
    check = _in_async(watching.check)
    check_pages = _pages_in_async(watching.check_pages)


class Client:
    """The service's API for plain code; several threads can share one client. Otherwise it is like AsyncClient."""

    def __init__(
        self,
        api_key: str,
        base_url: str = SERVICE,
        *,
        patience: RetryPolicy = DEFAULT_PATIENCE,
        concurrency: int = MAX_REQUESTS,
        clock: BlockingClock | None = None,
        rng: random.Random | None = None,
        transport: httpx.BaseTransport | None = None,
        certificates: ssl.SSLContext | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._deadlines = CallDeadlines(self._clock)
        given = options(base_url, api_key, places=concurrency)
        self.http = httpx.Client(
            transport=transport,
            verify=certificates or True,
            event_hooks={"request": [self._deadlines.watch], "response": [refuse_other_codings]},
            **given,
        )
        self._key = SecretStr(api_key)
        self._patience = patience
        self._rng = rng or random.Random()  # noqa: S311 - as above
        self._places = threading.BoundedSemaphore(concurrency)

    def __repr__(self) -> str:
        return f"Client({str(self.http.base_url)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.http.close()

    def get(self, path: str, *, params: dict[str, str] | None = None) -> httpx.Response:
        """Get any path of the service and return the answer as it came, within a minute.

        Errors are those of httpx.
        """
        with self._places:
            try:
                with self._deadlines.within(GET_WITHIN):
                    asked = self.http.build_request("GET", path, params=params)
                    with call_span(asked.method, str(asked.url), asked.headers) as span:
                        response = self.http.send(asked)
                        if span is not None:
                            span.note_status(response.status_code)
                        return response
            except TimeoutError:
                raise no_whole_answer(path) from None

    def send(self, call: ServiceCall[T]) -> T:
        """Make a call, repeat it if necessary, and return its result."""
        steps: Script[T] = call_steps(call, self._patience, key=self._key, clock=self._clock, rng=self._rng)
        step = next(steps)
        try:
            while True:
                if isinstance(step, Pause):
                    self._clock.block(step.duration)
                    step = next(steps)
                else:
                    step = steps.send(self._attempt(call))
        except StopIteration as end:
            result: T = end.value
            return result

    def _attempt(self, call: ServiceCall[Any]) -> ServiceResponse | ServiceError:
        with self._places:
            body = Body(call)
            try:
                with self._deadlines.within(call.answered_within):
                    asked = request(self.http, call)
                    with call_span(asked.method, str(asked.url), asked.headers) as span:
                        response = self.http.send(asked, stream=True)
                        if span is not None:
                            span.note_status(response.status_code)
                    try:
                        for chunk in response.iter_bytes():
                            body.add(chunk)
                    finally:
                        response.close()
                return body.answer(response)
            except (ServiceError, *FAULTS) as error:
                return as_service_error(error, call, self.http.base_url)

    scrape = _in_plain(scrapes.scrape)
    parse = _in_plain(scrapes.parse)
    map = _in_plain(scrapes.map)
    search = _in_plain(scrapes.search)
    queue_status = _in_plain(scrapes.queue_status)
    crawl = _in_plain(jobs.crawl)
    crawl_status = _in_plain(jobs.crawl_status)
    crawl_pages = _pages_in_plain(jobs.crawl_pages)
    crawl_errors = _in_plain(jobs.crawl_errors)
    cancel_crawl = _in_plain(jobs.cancel_crawl)
    active_crawls = _in_plain(jobs.active_crawls)
    batch_scrape = _in_plain(jobs.batch_scrape)
    batch_status = _in_plain(jobs.batch_status)
    batch_pages = _pages_in_plain(jobs.batch_pages)
    batch_errors = _in_plain(jobs.batch_errors)
    cancel_batch = _in_plain(jobs.cancel_batch)
    extract = _in_plain(jobs.extract)
    extract_status = _in_plain(jobs.extract_status)
    agent = _in_plain(jobs.agent)
    agent_status = _in_plain(jobs.agent_status)
    cancel_agent = _in_plain(jobs.cancel_agent)
    monitor = _in_plain(watching.monitor)
    monitors = _in_plain(watching.monitors)
    create_monitor = _in_plain(watching.create_monitor)
    update_monitor = _in_plain(watching.update_monitor)
    delete_monitor = _in_plain(watching.delete_monitor)
    run_monitor = _in_plain(watching.run_monitor)
    checks = _in_plain(watching.checks)
    check = _in_plain(watching.check)
    check_pages = _pages_in_plain(watching.check_pages)


_PATIENCE = RetryPolicy(budget=timedelta(seconds=20))
"""A short budget: handlers have a time-out of their own, and their attempts are repeated later."""


@dataclass(frozen=True, slots=True)
class ServiceClients:
    """One client for async handlers and one for plain functions."""

    for_async: AsyncClient
    """For async handlers."""
    for_plain: Client
    """For plain functions."""


@asynccontextmanager
async def open_clients(base_url: str, api_key: str) -> AsyncIterator[ServiceClients]:
    """Open clients of the service at `base_url`; they are closed at the end of the block.

    Raises ConfigurationError for an unusable address or key.
    """
    certificates = httpx.create_ssl_context()
    async with AsyncClient(api_key, base_url, patience=_PATIENCE, certificates=certificates) as for_async:
        with Client(api_key, base_url, patience=_PATIENCE, certificates=certificates) as for_plain:
            yield ServiceClients(for_async, for_plain)
