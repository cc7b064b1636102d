"""Agents without a key learn how to get one here."""

import pytest
from firecrawl import Firecrawl
from firecrawl.v2.utils.error_handler import FirecrawlError

from tests.emulator.answering import ORIGIN, Json, checked_service
from tests.emulator.schemas import Schema
from tests.emulator.shop import SHOP, shop

PATH = "/v2/agent-signup"
SIGNUP: Json = {"email": "ann@acme.test", "agent_name": "Crawler", "accept_terms": True}
NO_KEY = {"Authorization": ""}
ANY: Schema = {}


async def test_where_any_key_passes_an_agent_gets_one_of_its_own() -> None:
    async with checked_service(credits=70) as service:
        told = await service.http.get(PATH, headers=NO_KEY)
        made = await service.http.post(PATH, json=SIGNUP, headers=NO_KEY)
        key = made.json()["api_key"]
        mine = {"Authorization": f"Bearer {key}"}
        page = await service.http.post("/v2/scrape", json={"url": ORIGIN}, headers=mine)
        left = await service.http.get("/v2/team/credit-usage", headers=mine)

        assert (told.status_code, "/v2/agent-signup" in told.json()["message"]) == (200, True)
        assert (made.status_code, made.json()["credits_remaining"]) == (201, 70)
        assert (page.status_code, left.json()["data"]["remainingCredits"]) == (200, 69)


async def test_where_keys_are_configured_there_is_none_to_get() -> None:
    async with checked_service(keys=("fc-secret",)) as service:
        made = await service.http.post(PATH, json=SIGNUP, headers=NO_KEY)
        told = await service.http.get(PATH, headers=NO_KEY)

        assert (made.status_code, told.status_code) == (403, 200)
        for text in (made.text, told.text):
            assert "--key" in text
            assert "fc-secret" not in text


@pytest.mark.parametrize(
    "change", [{"email": "ann"}, {"email": 1}, {"agent_name": " "}, {"accept_terms": False}, {"accept_terms": None}]
)
async def test_a_wrong_signup_is_refused(change: Json) -> None:
    async with checked_service() as service:
        refused = await service.http.post(PATH, json=SIGNUP | change, headers=NO_KEY)

        assert (refused.status_code, refused.json()["code"]) == (400, "BAD_REQUEST")


async def test_a_call_without_a_key_is_told_what_to_do() -> None:
    """The SDK gives the hints to the agent that uses it."""
    async with shop(keys=("fc-secret",)) as made:
        made.client = Firecrawl(api_key="fc-wrong", api_url=made.address)
        with pytest.raises(FirecrawlError) as caught:
            await made.call("scrape", f"{SHOP}/")
        assert "receiver emulate --key" in caught.value.agent_hints[0]
