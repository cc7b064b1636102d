"""An emulator whose every answer and every webhook is held to the schemas of the interface specification."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import jsonschema

from receiver.core.signing import verify
from receiver.emulator.api.calls import ApiOperation
from receiver.emulator.api.dispatch import RouteTable
from receiver.emulator.api.search import ABSENT
from receiver.emulator.app import Emulator, operations_of
from receiver.emulator.options import EmulatorOptions
from receiver.testing import SteppedClock
from tests.emulator import schemas
from tests.emulator.content.files import pdf
from tests.emulator.research import schemas as research
from tests.emulator.schemas import Schema

Json = dict[str, Any]

ORIGIN = "https://docs.acme.test"
SECRET = "example-secret-1"
METADATA = {"order": 17, "parts": ["a", None], "note": None}
HOOK = {"url": "http://127.0.0.1:9/webhooks", "headers": {"X-Token": "t"}, "metadata": METADATA}
HEAD = (
    '<title>Acme</title><meta name="description" content="All of it"><meta name="keywords" content="a, b">'
    '<meta property="og:locale:alternate" content="de"><meta property="article:tag" content="x">'
    '<meta property="article:tag" content="y"><meta name="statusCode" content="999">'
)
SHOP = '<script type="application/ld+json">{"@type": "Product", "name": "Lamp", "price": 12}</script>'


def page(text: str, *links: str, head: str = HEAD) -> str:
    """Return a page with links."""
    listed = "".join(f'<a href="{link}">Go to {link}</a> ' for link in links)
    return f'<html lang="en"><head>{head}</head><body><main><h1>Acme</h1><p>{text}</p>{listed}</main></body></html>'


def site() -> dict[str, str | bytes]:
    """Return a site with pages of every kind."""
    return {
        "/": page('Start <img src="/logo.png">', "/guide", "/lamp", "/guide/more", "/private/x", "/loop", "/gone"),
        "/guide": page("The guide says how lamps are lit.", "/guide/more"),
        "/guide/more": page("More of it."),
        "/lamp": page("A lamp for 12 euros.", head=f"<title>Lamp</title>{SHOP}"),
        "/private/x": page("Nobody reads this."),
        "/two.pdf": pdf("One", "Two", title="Two pages"),
        "/data.json": '{"a": 1}',
        "/program.exe": b"MZ\x00\x01",
        "/robots.txt": "User-agent: *\nDisallow: /private/",
        "/_redirects": "/loop /loop2 302!\n/loop2 /loop 302!\n",
    }


ONCE: dict[tuple[str, str], Schema] = {
    ("POST", "/v1/scrape"): schemas.SCRAPE_V1,
    ("POST", "/v2/scrape"): schemas.SCRAPE_V2,
    ("GET", "/v2/scrape/{id}"): schemas.SCRAPE_V2,
    ("POST", "/v1/search"): schemas.SEARCH_V1,
    ("POST", "/v2/search"): schemas.SEARCH_V2,
    ("POST", "/v2/parse"): schemas.PARSE,
    ("GET", "/v2/parse/formats"): schemas.PARSE_FORMATS,
    ("POST", "/v2/parse/upload-url"): schemas.UPLOAD_URL,
    ("PUT", "/v2/parse/upload/{ref}"): schemas.SUCCESS,
    ("POST", "/v2/search/{id}/feedback"): schemas.FEEDBACK,
    ("POST", "/v2/feedback"): schemas.FEEDBACK,
    ("POST", "/v2/search/gov"): schemas.GOV_SEARCH,
    ("POST", "/v2/search/developer"): schemas.DEVELOPER_SEARCH,
    **dict.fromkeys(ABSENT, schemas.NEVER),
    ("GET", "/v2/search/research/github"): schemas.NEVER,
    ("POST", "/v1/map"): schemas.MAP_V1,
    ("POST", "/v2/map"): schemas.MAP_V2,
    ("POST", "/v2/crawl/params-preview"): schemas.PREVIEW,
    ("POST", "/v2/monitor"): schemas.MONITOR_ANSWER,
    ("GET", "/v2/monitor"): schemas.MONITOR_LIST,
    ("GET", "/v2/monitor/{id}"): schemas.MONITOR_ANSWER,
    ("PATCH", "/v2/monitor/{id}"): schemas.MONITOR_ANSWER,
    ("DELETE", "/v2/monitor/{id}"): schemas.SUCCESS,
    ("POST", "/v2/monitor/{id}/run"): schemas.MONITOR_RUN,
    ("GET", "/v2/monitor/{id}/checks"): schemas.CHECK_LIST,
    ("GET", "/v2/monitor/{id}/checks/{checkId}"): schemas.CHECK_ANSWER,
    ("POST", "/v2/agent"): research.AGENT_STARTED,
    ("GET", "/v2/agent"): research.AGENT_LIST,
    ("GET", "/v2/agent/{id}"): research.AGENT_STATUS,
    ("DELETE", "/v2/agent/{id}"): schemas.SUCCESS,
    ("GET", "/v2/agent/{id}/trace"): research.AGENT_TRACE,
    ("GET", "/v2/agent/{id}/snapshots/{snapshotId}"): research.AGENT_SNAPSHOT,
    ("GET", "/v2/agent/threads/{id}"): research.AGENT_THREAD,
    ("GET", "/v1/team/credit-usage"): schemas.usage(
        "remaining_credits", "plan_credits", "billing_period_start", "billing_period_end"
    ),
    ("GET", "/v2/team/credit-usage"): schemas.usage(
        "remainingCredits", "planCredits", "billingPeriodStart", "billingPeriodEnd"
    ),
    ("GET", "/v1/team/token-usage"): schemas.usage(
        "remaining_tokens", "plan_tokens", "billing_period_start", "billing_period_end"
    ),
    ("GET", "/v2/team/token-usage"): schemas.usage(
        "remainingTokens", "planTokens", "billingPeriodStart", "billingPeriodEnd"
    ),
}
"""The answers of operations that one version has, or that differ by version."""


def of_version(version: str, document: Schema) -> dict[tuple[str, str], Schema]:
    """Return the answers of the operations that both versions have, with the documents of one of them."""
    found: dict[tuple[str, str], Schema] = {
        ("POST", f"/{version}/extract"): research.EXTRACT_STARTED,
        ("GET", f"/{version}/extract/{{id}}"): research.EXTRACT_STATUS,
        ("GET", f"/{version}/crawl/active"): schemas.ACTIVE_CRAWLS,
        ("GET", f"/{version}/crawl/ongoing"): schemas.ACTIVE_CRAWLS,
        ("GET", f"/{version}/team/credit-usage/historical"): schemas.history("creditsUsed"),
        ("GET", f"/{version}/team/token-usage/historical"): schemas.history("tokensUsed"),
        ("GET", f"/{version}/team/queue-status"): schemas.QUEUE,
        ("GET", f"/{version}/concurrency-check"): schemas.CONCURRENCY,
    }
    for path in (f"/{version}/crawl", f"/{version}/batch/scrape"):
        found |= {
            ("POST", path): schemas.JOB_STARTED,
            ("GET", f"{path}/{{id}}"): schemas.job_status(document),
            ("DELETE", f"{path}/{{id}}"): schemas.CANCELLED,
            ("GET", f"{path}/{{id}}/errors"): schemas.JOB_ERRORS,
        }
    return found


SESSIONS: dict[tuple[str, str], Schema] = {
    ("POST", "/v2/scrape/{id}/interact"): schemas.CODE_RUN,
    ("DELETE", "/v2/scrape/{id}/interact"): schemas.SESSION_ENDED,
}
for _path in ("/v2/browser", "/v2/interact"):
    SESSIONS |= {
        ("POST", _path): schemas.SESSION,
        ("GET", _path): schemas.SESSIONS,
        ("POST", f"{_path}/{{id}}/execute"): schemas.CODE_RUN,
        ("DELETE", f"{_path}/{{id}}"): schemas.SESSION_ENDED,
    }
ANSWERS = {**ONCE, **SESSIONS, **of_version("v1", schemas.DOCUMENT_V1), **of_version("v2", schemas.DOCUMENT_V2)}
"""The answer of each operation that succeeds."""
EVENTS = {
    "v1": schemas.events(schemas.DOCUMENT_V1) | research.EVENTS,
    "v2": schemas.events(schemas.DOCUMENT_V2) | research.EVENTS,
}


def _is_integer(checker: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)
"""For JSON Schema 1.0 is an integer; for strict readers of answers it is not."""


def hold(value: object, schema: Schema) -> None:
    """Fail if a value breaks the schema, and say where."""
    errors = list(_Validator(schema).iter_errors(value))
    if errors:
        worst = jsonschema.exceptions.best_match(errors)
        raise AssertionError(f"{worst.json_path}: {worst.message}\nin {json.dumps(value, indent=1)[:3000]}")


@dataclass
class CheckedService:
    """Calls an emulator, and holds what comes back to the schema of the operation."""

    emulator: Emulator
    clock: SteppedClock
    pages: dict[str, str | bytes]
    http: httpx.AsyncClient
    sent: list[httpx.Request]
    operations: list[ApiOperation] = field(default_factory=list)
    asked: set[tuple[str, str]] = field(default_factory=set)
    """The operations that have succeeded."""

    async def ask(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        status: int = 200,
        schema: Schema | None = None,
        **more: Any,
    ) -> Any:
        """Make a call and return its answer; one of status 4xx or 5xx has the form of an error."""
        response = await self.http.request(method, path, json=body, **more)
        answer = response.json()
        assert response.status_code == status, answer
        if status >= 400:
            hold(answer, schema or schemas.ERROR)
            return answer
        found = RouteTable(self.operations).find(method, urlsplit(path).path).operation
        assert found is not None
        self.asked.add((method, found.path))
        hold(answer, schema or ANSWERS[method, found.path])
        return answer

    async def events(self, version: str = "v2") -> list[Json]:
        """Let everything happen, and return the events since the last time; each is signed and fits its schema."""
        await self.clock.settle()
        arrived, self.sent[:] = list(self.sent), []
        found = []
        for request in arrived:
            assert verify(request.content, request.headers["x-firecrawl-signature"], [SECRET])
            assert (request.headers["content-type"], request.headers["x-token"]) == ("application/json", "t")
            event = json.loads(request.content)
            hold(event, EVENTS[version][event["type"]])
            assert event["metadata"] == METADATA
            found.append(event)
        return found

    def family(self, *names: str) -> set[tuple[str, str]]:
        """Return the operations of families, by the second part of their paths."""
        return {(one.method, one.path) for one in self.operations if one.path.split("/")[2] in names}


@asynccontextmanager
async def checked_service(**options: Any) -> AsyncIterator[CheckedService]:
    """Run an emulator with the site, on a clock that stands still."""
    clock, pages, sent = SteppedClock(), site(), list[httpx.Request]()

    def answer(request: httpx.Request) -> httpx.Response:
        if str(request.url) != HOOK["url"]:
            raise httpx.ConnectError("nobody is there in a test", request=request)
        sent.append(request)
        return httpx.Response(200)

    sites: Mapping[str, Any] = {ORIGIN: pages}
    given: Json = {"sites": sites, "webhook_secret": SECRET, "seed": 1, "bundled_site": False, "browser": False}
    transport = httpx.MockTransport(answer)
    emulator = Emulator(EmulatorOptions(**(given | options)), clock=clock, transport=transport)
    async with emulator.lifespan() as parts:
        operations = [one for one in operations_of(parts) if one.path != "/v2/agent-signup"]
        asgi = httpx.ASGITransport(emulator, raise_app_exceptions=False)
        key = {"Authorization": "Bearer fc-test"}
        async with httpx.AsyncClient(transport=asgi, base_url="http://emulator.test", headers=key) as http:
            with clock.moving_with(emulator.settled):
                yield CheckedService(emulator, clock, pages, http, sent, operations)
