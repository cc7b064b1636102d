"""Extraction by a model: the protocol, and everything that can go wrong with it."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from receiver.emulator.extraction.evidence import ExtractionSource
from receiver.emulator.extraction.extractor import Extraction, Extractor, Wish
from receiver.emulator.extraction.model import MAX_ANSWER, LanguageModel, ModelFailed
from tests.emulator.pages import model_that, said

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "price": {"type": "number"}}}
PAGE = ExtractionSource(
    url="https://shop.example/", markdown="# Bike\n\nPrice: 5", html="<h1>Bike</h1><p>Price: 5</p>"
)


async def extracted(model: LanguageModel, wish: Wish | None = None, seconds: float | None = None) -> Extraction:
    return await Extractor(model).extract(PAGE, wish or Wish(SCHEMA), seconds=seconds)


async def test_the_request_is_a_chat_completion_with_the_schema() -> None:
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return said('{"name": "Bike", "price": 5}')

    result = await extracted(model_that(answer), Wish(SCHEMA, "the price", "Be brief."))

    assert result == Extraction({"name": "Bike", "price": 5})
    assert str(requests[0].url) == "http://model.test/v1/chat/completions"
    assert requests[0].headers["authorization"] == "Bearer k"
    body = json.loads(requests[0].content)
    assert (body["model"], body["temperature"]) == ("m", 0)
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert body["messages"][0]["content"].startswith("Be brief.")
    assert "the price" in body["messages"][1]["content"]
    assert "Price: 5" in body["messages"][1]["content"]


async def test_an_answer_in_a_fence_is_read() -> None:
    fenced = model_that(lambda request: said('```json\n{"name": "Bike"}\n```'))

    assert (await extracted(fenced, Wish(None, "name"))).data == {"name": "Bike"}


async def test_what_breaks_the_schema_is_dropped() -> None:
    result = await extracted(model_that(lambda request: said('{"name": 7, "price": 5}')))

    assert result.data == {"name": None, "price": 5}
    assert "does not fit its schema: name" in result.warnings[0]


def unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused with a secret")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda request: httpx.Response(500), "answered 500"),
        (lambda request: httpx.Response(307, headers={"location": "http://other.test"}), "answered 307"),
        (lambda request: httpx.Response(200, content=b"{"), "not a chat completion"),
        (lambda request: httpx.Response(200, content=b"[" * 100_000), "not a chat completion"),
        (lambda request: httpx.Response(200, json={"choices": []}), "not a chat completion"),
        (lambda request: httpx.Response(200, json={"choices": [{"message": "x"}]}), "not a chat completion"),
        (lambda request: httpx.Response(200, content=b" " * (MAX_ANSWER + 1)), "too long"),
        (lambda request: said(None), "empty"),
        (lambda request: said("", refusal="I cannot do that"), "refused: I cannot do that"),
        (lambda request: said("Sure! The name is Bike."), "not JSON"),
        (lambda request: said('{"name": NaN}'), "not JSON"),
        (lambda request: said("[" * 100_000), "not JSON"),
        (unreachable, "cannot be reached: ConnectError"),
    ],
)
async def test_a_fault_of_the_model_is_a_warning_and_rules_stand_in(answer: Any, words: str) -> None:
    result = await extracted(model_that(answer))

    assert result.data == {"name": "Bike", "price": 5}
    assert words in result.warnings[0]
    assert "secret" not in result.warnings[0]


async def test_a_model_that_takes_too_long_is_given_up() -> None:
    async def never(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    model = LanguageModel("http://model.test/v1/chat/completions/", name="m", transport=httpx.MockTransport(never))
    result = await extracted(model, seconds=0.001)

    assert "did not answer within" in result.warnings[0]
    with pytest.raises(ModelFailed):
        await model.say("", "", seconds=0.001)
    await model.close()
