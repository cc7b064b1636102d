"""Extractions and agents with a language model behind an endpoint: what it answers, and what goes wrong with it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.doubles import eventually
from tests.emulator.answering import Json
from tests.emulator.research.looking import COMPANY, done, research, urls


@asynccontextmanager
async def model(answer: Callable[[str], Response]) -> AsyncIterator[str]:
    """Run an endpoint for chat completions, which answers by the text of the question. Yield its URL."""

    async def complete(request: Request) -> Response:
        return answer((await request.json())["messages"][1]["content"])

    app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        await serving


def said(value: Any, **more: Any) -> Response:
    """Return the answer of an endpoint whose model says this."""
    content = value if isinstance(value, str) else json.dumps(value)
    return JSONResponse({"choices": [{"message": {"content": content, **more}}]})


def by_page(question: str) -> Response:
    """Answer with what each page of the shop says."""
    if "/contact" in question:
        return said({"phone": "from the model", "founded": None, "head_office": None})
    if "/history" in question:
        return said({"phone": None, "founded": 2001, "head_office": None})
    return said({"phone": None, "founded": None, "head_office": "Model City"})


@pytest.mark.parametrize("path", ["/v1/extract", "/v2/extract", "/v2/agent"])
async def test_what_a_model_says_of_each_page_becomes_one_result(path: str) -> None:
    async with model(by_page) as url, research(model_url=url) as service:
        pages = urls("contact", "history", "offices")
        ended = await done(service, path, urls=pages, schema=COMPANY, prompt="the company")

        assert ended["data"] == {"phone": "from the model", "founded": 2001, "head_office": "Model City"}
        assert "warning" not in ended


HUGE = "x" * 5_000_000


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda question: Response(status_code=500), "answered 500"),
        (lambda question: Response(b"{"), "not a chat completion"),
        (lambda question: said("Certainly! Here you are."), "not JSON"),
        (lambda question: said("", refusal="I will not"), "refused: I will not"),
        (lambda question: said(HUGE), "too long"),
    ],
    ids=["error", "no completion", "bad JSON", "refusal", "huge"],
)
@pytest.mark.parametrize("path", ["/v2/extract", "/v2/agent"])
async def test_rules_stand_in_for_a_model_that_fails(
    path: str, answer: Callable[[str], Response], words: str
) -> None:
    """The result says why, once for all pages."""
    async with model(answer) as url, research(model_url=url) as service:
        pages = urls("contact", "history", "offices")
        ended = await done(service, path, urls=pages, schema=COMPANY, prompt="the company")

        assert ended["status"] == "completed"
        assert ended["data"] == {"phone": "+49 30 1234567", "founded": 1999, "head_office": "Berlin"}
        assert ended["warning"].count(words) == 1
        assert "rules were used instead" in ended["warning"]


async def test_a_model_cannot_break_the_form_of_a_result() -> None:
    """What does not fit the schema is null, whatever the page told the model to say."""

    def answer(question: str) -> Response:
        return said({"phone": 5, "founded": "long ago", "head_office": "Hull", "admin": True})

    async with model(answer) as url, research(model_url=url) as service:
        ended: Json = await done(service, "/v2/extract", urls=urls("contact"), schema=COMPANY)

        assert ended["data"]["phone"] is None
        assert ended["data"]["founded"] is None
        assert ended["data"]["head_office"] == "Hull"
        assert "does not fit its schema" in ended["warning"]
