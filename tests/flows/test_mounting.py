"""A receiver in another app, behind a proxy that cuts a prefix off the path, or leaves it there."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from receiver.app import Receiver
from receiver.core.signing import sign
from receiver.settings import Settings
from tests.doubles import SECRET, ask, body_of, event_of

pytestmark = pytest.mark.usefixtures("bare_environment")


@pytest.fixture
def receiver(bare_environment: Path) -> Receiver:
    """One that takes deliveries at the usual path."""
    return Receiver(Settings(store=f"sqlite:///{bare_environment}/receiver.db", secrets=[SECRET]))


async def status_of(app: Any, receiver: Receiver, path: str, *, root_path: str = "") -> int:
    """Return how a delivery to this path is answered."""
    async with receiver.lifespan(app):
        return await posted(app, path, root_path=root_path)


async def posted(app: Any, path: str, *, root_path: str = "") -> int:
    """Return how a delivery to this path is answered."""
    body = body_of()
    transport = httpx.ASGITransport(app, root_path=root_path)
    async with httpx.AsyncClient(transport=transport, base_url="http://outer.test") as client:
        answer = await client.post(path, content=body, headers={"X-Firecrawl-Signature": sign(body, SECRET)})
        return answer.status_code


async def test_under_a_mount_of_fastapi(receiver: Receiver) -> None:
    """As the guide shows it."""
    app = FastAPI()
    app.mount("/hooks", receiver)

    assert await status_of(app, receiver, "/hooks/webhooks") == 200
    assert await status_of(app, receiver, "/webhooks") == 404


PREFIX = pytest.mark.parametrize("prefix", ["", "/api"], ids=["cut off", "left"])


@PREFIX
@pytest.mark.filterwarnings("ignore:The `root_path` parameter")  # deprecated since FastAPI 0.165, and much in use
async def test_fastapi_may_know_the_prefix(receiver: Receiver, prefix: str) -> None:
    """By its own setting, for a proxy that has cut it off or not."""
    app = FastAPI(root_path="/api")
    app.mount("/hooks", receiver)

    assert await status_of(app, receiver, f"{prefix}/hooks/webhooks") == 200
    assert await status_of(app, receiver, f"{prefix}/webhooks") == 404


@PREFIX
async def test_the_server_may_know_the_prefix(receiver: Receiver, prefix: str) -> None:
    """As with `uvicorn --root-path`."""
    app = Starlette(routes=[Mount("/hooks", receiver)])

    assert await status_of(app, receiver, f"{prefix}/hooks/webhooks", root_path="/api") == 200


async def test_a_mount_may_be_in_a_mount(receiver: Receiver) -> None:
    """Behind a prefix that is in the path; Starlette itself finds no inner mount when that has been cut off."""
    app = Starlette(routes=[Mount("/in", Starlette(routes=[Mount("/hooks", receiver)]))])

    assert await status_of(app, receiver, "/in/hooks/webhooks") == 200
    assert await status_of(app, receiver, "/api/in/hooks/webhooks", root_path="/api") == 200


@PREFIX
@pytest.mark.parametrize("root_path", ["/api", "/web"])
async def test_a_receiver_alone_may_be_behind_a_prefix(receiver: Receiver, prefix: str, root_path: str) -> None:
    """Also behind one that its own path happens to begin with."""
    path = "/webhooks" if not prefix else f"{root_path}/webhooks"

    assert await status_of(receiver, receiver, path, root_path=root_path) == 200


@pytest.mark.parametrize("outer", [FastAPI, Starlette])
async def test_the_path_of_a_mount_is_served_with_and_without_a_slash(bare_environment: Path, outer: Any) -> None:
    """A redirect would lose the delivery. It costs no other route, also after a second start."""
    receiver = Receiver(Settings(store=f"sqlite:///{bare_environment}/receiver.db", secrets=[SECRET], path="/"))
    app = outer(routes=[Mount("/hooks", receiver), Mount("/in", Starlette(routes=[Mount("/deep", receiver)]))])

    for path in ("/hooks", "/hooks/", "/in/deep", "/in/deep/", "/hooks"):
        assert await status_of(app, receiver, path) == 200, path
    assert await status_of(app, receiver, "/api/hooks", root_path="/api") == 200
    assert await status_of(app, receiver, "/hooks/other") == 404
    assert len(app.routes) <= 7  # FastAPI has four of its own


async def test_a_receiver_without_its_lifespan_says_what_to_write(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """In the answer, and once in the log."""
    app = FastAPI()
    app.mount("/hooks", receiver)

    assert [await posted(app, "/hooks/webhooks") for _ in range(2)] == [503, 503]

    [line] = [record for record in caplog.records if record.name.startswith("receiver")]
    assert line.levelname == "ERROR"
    assert line.getMessage().startswith("lifespan_not_entered")
    assert "FastAPI(lifespan=receiver.lifespan)" in vars(line)["advice"]


async def test_a_receiver_that_has_stopped_asks_for_a_retry(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing was forgotten then, so the log has nothing to say."""
    async with receiver.lifespan():
        pass

    assert await posted(receiver, "/webhooks") == 503
    assert "lifespan_not_entered" not in caplog.text


async def test_a_body_that_another_server_has_not_read_is_asked_for_again(receiver: Receiver) -> None:
    """uvicorn's own protocol on httptools stops before it when there is an Upgrade header; ours reads it."""
    body = body_of()
    headers = [(b"x-firecrawl-signature", sign(body, SECRET).encode()), (b"upgrade", b"h2c")]
    async with receiver.lifespan():
        answer = await ask(receiver, headers=headers, chunks=[b""])

    assert (answer.status, answer.content["error"]) == (503, "unavailable")


async def test_a_mounted_receiver_warns_of_a_short_secret(
    bare_environment: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As `receiver serve` does, which enters the lifespan itself and does not say it twice."""
    receiver = Receiver(Settings(store=f"sqlite:///{bare_environment}/receiver.db", secrets=["qq"]))
    for outer in (None, FastAPI()):
        async with receiver.lifespan(outer):
            pass

    assert [record.levelname for record in caplog.records if event_of(record) == "secret_too_short"] == ["WARNING"]
