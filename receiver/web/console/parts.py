"""What the pages of the console share."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from receiver.core.attention import AttentionLimits
from receiver.core.clock import Clock
from receiver.core.work import HandlerReport
from receiver.web.console.actions import ActionRuns
from receiver.web.console.filters import Query
from receiver.web.console.gate import Sessions, scope_root
from receiver.web.console.job_results import JobComparisons, ResultSource
from receiver.web.console.rendering import PageRenderer
from receiver.web.console.reports import BackgroundReport, CountedDrift, ShownActivity, ShownCheck, SlowWork
from receiver.web.console.store import StoreAccess, StoreChanges

Page = Callable[[Request], Awaitable[Response]]


def get(path: str, page: Page) -> Route:
    """Return the route of a page."""
    return Route(path, page, methods=["GET"])


def post(path: str, action: Page) -> Route:
    """Return the route of an action."""
    return Route(path, action, methods=["POST"])


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """A row of the page of settings. Secrets are masked already."""

    name: str
    value: str
    source: str
    description: str


@dataclass(frozen=True, slots=True)
class CheckedPart:
    """What `receiver check` says of one part."""

    part: str
    ok: bool
    text: str
    """Why, or what to do."""


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """What a deployment decides about its console."""

    password: str | None = None
    names: Collection[str] = ()
    read_only: bool = False
    version: str = ""
    settings: Sequence[ShownSetting] = ()
    webhook_url: str = ""
    """Where deliveries are received, for commands to copy."""
    check: Callable[[], Awaitable[Sequence[CheckedPart]]] | None = None
    """Checks the deployment as `receiver check` does. None where that is not possible."""
    results: ResultSource | None = None
    """Asks the service for the results of jobs. None without an API key."""
    sign: Callable[[bytes], dict[str, str]] | None = None
    """Returns the headers that authenticate a body, for a request to copy. None without secrets."""
    limits: AttentionLimits = field(default_factory=AttentionLimits)
    """From when on something needs attention; alerts use the same limits."""


@dataclass(frozen=True, slots=True)
class ConsoleParts:
    """What the pages use."""

    access: StoreAccess
    pages: PageRenderer
    clock: Clock
    sessions: Sessions
    runs: ActionRuns
    options: ConsoleOptions
    changes: StoreChanges
    slow: SlowWork
    """For work that would hold up other pages."""
    handlers: BackgroundReport[Sequence[HandlerReport]]
    """The state of the handlers: counting their work takes long in a large store."""
    activity: BackgroundReport[Sequence[ShownActivity]]
    """What all handlers did in the last hour and day."""
    checks: BackgroundReport[Sequence[ShownCheck]]
    """The newest checks of monitors."""
    drift: BackgroundReport[CountedDrift]
    """Unknown types and fields in the newest deliveries."""
    comparisons: JobComparisons
    """The results that the service has of jobs."""
    examined: int
    """Rows that a list examines for one page."""

    def query(self, request: Request) -> Query:
        """Return the query of a page."""
        return Query(dict(request.query_params))

    def form(self, request: Request) -> Query:
        """Return the first value of each field of the form that was sent."""
        form: dict[str, list[str]] = request.state.form or {}
        return Query({name: values[0] for name, values in form.items()})


class ConsolePages:
    """The pages of one subject."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the routes of these pages."""
        raise NotImplementedError


def go_to(request: Request, target: str) -> Response:
    """Return an answer that leads to a page of the console, after an action."""
    return RedirectResponse(scope_root(request.scope) + target, 303)


def actor_of(request: Request) -> str:
    """Return who asks for an action, as it is recorded."""
    return f"console {client_of(request)}"


def client_of(request: Request) -> str:
    """Return the address from which a request came."""
    return request.client.host if request.client else "unknown"
