"""In one process, on a real SQLite file: from a signed request to the handler that ran."""
# ruff: noqa: ASYNC240 - looks at small files between two steps of a test, where nothing else runs

import asyncio
import logging
import random
import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from receiver.app import Receiver
from receiver.cli.common.store import open_reports
from receiver.core.deliveries import DeliveryFilter
from receiver.core.signing import sign
from receiver.core.types import DeliveryKey
from receiver.errors import ConfigurationError
from receiver.events import EVENT_CLASSES, Event, UnknownEvent
from receiver.routing import Router
from receiver.running import run_worker
from receiver.service.samples import encode, load_sample, sample_names
from receiver.settings import Settings
from receiver.worker.upkeep.supervisor import new_worker_id
from tests.doubles import SECRET, ask, body_of, eventually, soon

pytestmark = pytest.mark.usefixtures("bare_environment")

SAMPLES = resources.files("receiver.service.samples")
VECTORS = Path(__file__).parent.parent / "vectors" / "events"


@pytest.fixture
def settings(bare_environment: Path) -> Settings:
    """One secret and a file that does not exist yet."""
    return Settings(store=f"sqlite:///{bare_environment}/receiver.db", secrets=[SECRET])


def client_of(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://receiver.test")


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """Serve a receiver for the length of the block."""
    app = Receiver(settings)
    async with app.lifespan(), client_of(app) as client:
        yield client


async def post(client: httpx.AsyncClient, body: bytes, path: str = "/webhooks", **headers: str) -> httpx.Response:
    """Post a body, signed unless it brings headers of its own."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post(path, content=body, headers=named or {"X-Firecrawl-Signature": sign(body, SECRET)})


@asynccontextmanager
async def working(settings: Settings, router: Router) -> AsyncIterator[None]:
    """Run a worker on the same file for the length of the block."""
    stop = asyncio.Event()
    task = asyncio.create_task(run_worker(settings, router, stop, worker=new_worker_id()))
    try:
        yield
    finally:
        stop.set()
        assert await soon(task) == 0


def collecting() -> tuple[Router, list[Event]]:
    """Return a router whose handler keeps every event."""
    router, seen = Router(), []

    @router.on("*", name="keep")
    async def keep(event: Event) -> None:
        seen.append(event)

    return router, seen


async def test_a_signed_request_ends_in_a_handler(settings: Settings) -> None:
    """Through the endpoint, the file and the worker."""
    router, seen = collecting()
    body = body_of("crawl.page", id="job", webhookId="w-1")
    async with serving(settings) as client, working(settings, router):
        answer = await post(client, body)
        await eventually(lambda: seen)

    assert (answer.status_code, answer.json()) == (200, {"status": "accepted", "id": "w-1"})
    assert [(type(event).__name__, event.job_id) for event in seen] == [("CrawlPage", "job")]
    async with open_reports(settings) as reports:
        assert await reports.count_unfinished() == 0
        assert (await reports.detail(DeliveryKey("w-1"))).body == body


async def test_a_worker_may_start_before_the_endpoint(settings: Settings) -> None:
    """It makes the file and waits; then it notices the first delivery by itself."""
    router, seen = collecting()
    async with working(settings, router):
        await eventually(lambda: Path(settings.store.removeprefix("sqlite:///")).exists())
        async with serving(settings) as client:
            await post(client, body_of())
            await eventually(lambda: seen)


async def test_deliveries_received_without_a_worker_are_handled_later(settings: Settings) -> None:
    """Nothing but the file joins the two."""
    async with serving(settings) as client:
        for number in range(20):
            assert (await post(client, body_of(webhookId=str(number)))).status_code == 200
    router, seen = collecting()
    async with working(settings, router):
        await eventually(lambda: len(seen) == 20)

    assert [event.webhook_id for event in seen] == [str(number) for number in range(20)]


def bodies() -> Iterator[tuple[str, bytes]]:
    """Yield every sample and every odd form: as recorded, and compact as the sender writes it.

    Each is a delivery of its own; those that have no webhook id differ by the white space behind them.
    """
    found = [(f"compact {name}", encode(load_sample(name))) for name in sample_names()]
    found += [
        (path.name, path.read_bytes())
        for folder in (SAMPLES, VECTORS)
        for path in folder.iterdir()
        if path.name.endswith(".json")
    ]
    for number, (name, body) in enumerate(found):
        yield name, re.sub(rb'("webhookId": *)"[^"]*"', rb'\1"webhook-%d"' % number, body) + b" " * number


async def test_every_sample_and_every_odd_form_is_accepted_and_dispatched(settings: Settings) -> None:
    """P7: with the class of its type, once."""
    router, seen = collecting()
    types = []
    async with serving(settings) as client, working(settings, router):
        for name, body in bodies():
            answer = await post(client, body)
            assert (answer.status_code, answer.json()["status"]) == (200, "accepted"), name
            found = re.search(rb'"type": *"([a-z_.]+)"', body)
            assert found is not None, name
            types.append(found[1].decode())
        await eventually(lambda: len(seen) == len(types))

    assert len(types) >= 90
    assert sorted(event.type for event in seen) == sorted(types)
    for event in seen:
        assert type(event) is EVENT_CLASSES.get(event.type, UnknownEvent)


async def test_many_at_once_are_stored_once_each(settings: Settings) -> None:
    """In shared commits, with duplicates among them."""
    numbers = [number % 60 for number in range(180)]
    random.Random(1).shuffle(numbers)
    async with serving(settings) as client:
        answers = await asyncio.gather(*[post(client, body_of(webhookId=str(number))) for number in numbers])

    assert {answer.status_code for answer in answers} == {200}
    assert [answer.json()["status"] for answer in answers].count("accepted") == 60
    async with open_reports(settings) as reports:
        stored = [one async for one in reports.deliveries(DeliveryFilter())]
    assert len(stored) == 60
    assert {one.duplicates for one in stored} == {2}


@pytest.mark.parametrize("path", ["/webhooks", "/webhooks/"])
async def test_both_spellings_of_the_path_are_answered(settings: Settings, path: str) -> None:
    """Never by a redirect, which the sender would follow without the body."""
    async with serving(settings) as client:
        assert (await post(client, body_of(), path)).status_code == 200


@pytest.mark.parametrize(
    ("configured", "paths"),
    [("/", ["/", ""]), ("/a/b", ["/a/b", "/a/b/"]), ("hooks/", ["/hooks", "/hooks/"])],
)
async def test_another_path_can_be_configured(settings: Settings, configured: str, paths: list[str]) -> None:
    """And the default one is then nothing."""
    moved = Settings(**{**dict(settings), "path": configured})
    async with serving(moved) as client:
        for path in paths:
            assert (await post(client, body_of(), path)).status_code == 200
        answer = await post(client, body_of(), "/webhooks")

    assert (answer.status_code, answer.json()["error"]) == (404, "not_found")


async def test_a_delivery_to_an_unknown_path_is_logged(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """So that somebody who wrote a wrong address finds it. A request that is no POST is not a delivery."""
    async with serving(settings) as client:
        caplog.clear()
        await client.get("/elsewhere")
        await post(client, body_of(), "/elsewhere")

    (line,) = [vars(one) for one in caplog.records if vars(one).get("event") == "delivery_refused"]
    assert (line["reason"], line["path"]) == ("not_found", "/elsewhere")
    assert "RECEIVER_PATH" in str(line["msg"])


@pytest.mark.parametrize(
    "path", ["/webhooks", "/webhooks/", "/nowhere", "/", "/healthz/x", "/Webhooks", "//webhooks"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "OPTIONS", "PUT"])
async def test_nothing_is_ever_redirected(settings: Settings, method: str, path: str) -> None:
    """P6."""
    async with serving(settings) as client:
        answer = await client.request(method, f"http://receiver.test{path}", content=b"x")

    assert not answer.is_redirect
    assert answer.status_code in (401, 404, 405)


async def test_health_needs_no_credentials(settings: Settings) -> None:
    """For load balancers."""
    async with serving(settings) as client:
        assert (await client.get("/healthz")).json() == {"status": "alive"}
        assert (await client.get("/readyz")).json() == {"status": "ready"}


async def test_a_static_header_authenticates(settings: Settings) -> None:
    """The service's own `webhook.headers`, with two values during a rotation."""
    by_token = Settings(store=settings.store, token_header="X-Hook-Token", tokens=["tok-old", "tok-new"])
    async with serving(by_token) as client:
        good = [await post(client, body_of(n=n), X_Hook_Token=t) for n, t in enumerate(("tok-old", "tok-new"))]
        bad = [await post(client, body_of(n=9), **h) for h in ({"X_Hook_Token": "tok"}, {"X_Other": "tok-old"})]

    assert [answer.status_code for answer in good] == [200, 200]
    assert [answer.status_code for answer in bad] == [401, 401]
    assert b"tok-" not in Path(settings.store.removeprefix("sqlite:///")).read_bytes()


async def test_every_configured_secret_authenticates(settings: Settings) -> None:
    """During a rotation the sender may use either."""
    rotating = Settings(store=settings.store, secrets=["old-secret", "new-secret"])
    async with serving(rotating) as client:
        for number, secret in enumerate(("old-secret", "new-secret", "other-secret")):
            body = body_of(n=number)
            answer = await post(client, body, X_Firecrawl_Signature=sign(body, secret))
            assert answer.status_code == (401 if secret == "other-secret" else 200)


async def test_refused_and_contradicting_bodies_are_in_quarantine(settings: Settings) -> None:
    """With reason, key and exact bytes; what was not authenticated is nowhere."""
    first, other = body_of(webhookId="w"), body_of(webhookId="w", more=1)
    async with serving(settings) as client:
        await post(client, first)
        assert (await post(client, other)).json() == {"status": "duplicate", "id": "w"}
        assert (await post(client, b"\xff not json")).status_code == 400
        assert (await post(client, b"forged-bytes", X_Firecrawl_Signature=sign(b"x", SECRET))).status_code == 401
    path = settings.store.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection:
        kept = connection.execute("SELECT reason, key, body FROM quarantine ORDER BY id").fetchall()

    assert kept == [("conflict", "w", other), ("malformed", None, b"\xff not json")]
    assert b"forged-bytes" not in Path(path).read_bytes()


async def test_no_secret_is_stored_or_logged(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """P10: over a whole run, with credentials in many headers."""
    caplog.set_level(logging.DEBUG)
    router, seen = collecting()
    body = body_of()
    headers = {
        "X_Firecrawl_Signature": sign(body, SECRET),
        "Authorization": "Bearer hidden-credential",
        "Cookie": "session=hidden-credential",
        "X_Api_Key": "hidden-credential",
        "X_Copy": SECRET,
    }
    async with serving(settings) as client, working(settings, router):
        await post(client, body, **headers)
        await eventually(lambda: seen)
        await post(client, body, X_Firecrawl_Signature="sha256=" + "0" * 64)

    written = Path(settings.store.removeprefix("sqlite:///")).read_bytes()
    logged = "\n".join(repr(vars(record)) for record in caplog.records if record.name.startswith("receiver"))
    assert logged
    for hidden in (SECRET, "hidden-credential", sign(body, SECRET)):
        assert hidden.encode() not in written
        assert hidden not in logged


# --- mounting


async def test_a_receiver_is_mounted_in_starlette(settings: Settings) -> None:
    """With its lifespan handed to the outer app, beside that app's own routes."""
    receiver = Receiver(settings)

    async def home(request: Any) -> PlainTextResponse:
        return PlainTextResponse("home")

    app = Starlette(routes=[Route("/", home), Mount("/in", receiver)], lifespan=receiver.lifespan)
    async with app.router.lifespan_context(app), client_of(app) as client:
        assert (await client.get("/")).text == "home"
        assert (await client.get("/in/readyz")).json() == {"status": "ready"}
        for path in ("/in/webhooks", "/in/webhooks/"):
            assert (await post(client, body_of(), path)).status_code == 200
        assert (await post(client, body_of(), "/in/nowhere")).status_code == 404


async def test_a_receiver_without_its_lifespan_says_so(settings: Settings) -> None:
    """503, so that nothing is lost; before it began, and after it ended."""
    app = Receiver(settings)

    async def refused(reason: str) -> None:
        answer = await ask(app, headers=[(b"x-firecrawl-signature", sign(b"x", SECRET).encode())], chunks=[b"x"])
        assert answer.status == 503
        assert b"retry-after" in answer.headers
        assert reason in answer.content["detail"]

    await refused("lifespan")
    async with app.lifespan(), client_of(app) as client:
        assert (await post(client, body_of())).status_code == 200
    await refused("stopped")
    async with app.lifespan(), client_of(app) as client:
        assert (await post(client, body_of())).json()["status"] == "duplicate"


async def test_the_lifespan_runs_by_the_protocol_too(settings: Settings) -> None:
    """As any ASGI server drives it."""
    app = Receiver(settings)
    events: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    said: asyncio.Queue[Any] = asyncio.Queue()
    task = asyncio.create_task(app({"type": "lifespan", "asgi": {}, "state": {}}, events.get, said.put))
    events.put_nowait({"type": "lifespan.startup"})
    assert (await soon(said.get()))["type"] == "lifespan.startup.complete"
    async with client_of(app) as client:
        assert (await post(client, body_of())).status_code == 200
    events.put_nowait({"type": "lifespan.shutdown"})
    assert (await soon(said.get()))["type"] == "lifespan.shutdown.complete"
    await soon(task)


async def test_a_websocket_is_refused_in_its_own_way(settings: Settings) -> None:
    """Not with the messages of HTTP."""
    app = Receiver(settings)
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    scope = {"type": "websocket", "path": "/webhooks", "headers": [], "query_string": b"", "root_path": ""}
    async with app.lifespan():
        await app(dict(scope), receive, send)

    assert sent == ["websocket.close"]


async def test_a_store_that_cannot_be_opened_ends_the_start(settings: Settings, tmp_path: Path) -> None:
    """In the store's own words."""
    nowhere = Settings(store=f"sqlite:///{tmp_path}/no/such/folder/r.db", secrets=[SECRET])

    with pytest.raises(ConfigurationError, match="cannot create the database"):
        async with serving(nowhere):
            pass


async def test_a_receiver_without_authentication_does_not_start(tmp_path: Path) -> None:
    """Also in another app: neither a secret nor a token, and nobody has said that this is meant."""
    store = f"sqlite:///{tmp_path}/r.db"

    with pytest.raises(ConfigurationError, match="ALLOW_UNSIGNED"):
        async with serving(Settings(store=store)):
            pass
    async with serving(Settings(store=store, allow_unsigned=True)):
        pass


async def test_settings_can_be_made_from_other_settings(settings: Settings) -> None:
    """A receiver knows the settings it was made with."""
    assert Receiver(settings).settings is settings
