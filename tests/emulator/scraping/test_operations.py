"""POST /v1/scrape, POST /v2/scrape and GET /v2/scrape/{id}, over the readers of requests."""

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Literal

import pytest
from jsonschema import validate

from receiver.emulator.api.calls import Answer, ApiCall
from receiver.emulator.api.scrape import ScrapeOperations
from receiver.emulator.failures import CallRefused, ScrapeFailed
from receiver.emulator.json_text import to_json
from receiver.emulator.scraping.cache import KeptScrapes
from receiver.emulator.wire.scrape import read_scrape
from tests.emulator import schemas
from tests.emulator.pages import HOME, TEAM, Purse, Scene, scene


class Desk:
    """Takes calls as the dispatcher does."""

    def __init__(self, one: Scene) -> None:
        self.scene = one
        self.purse = Purse()
        kept = KeptScrapes(one.database, one.clock)
        self.operations = ScrapeOperations(
            scraper=one.scraper, read=partial(read_scrape), account=self.purse, kept=kept
        )

    async def post(self, version: Literal[1, 2] = 2, **body: Any) -> Answer:
        return await self.operations.scrape(ApiCall(version=version, team=TEAM, body={"url": HOME, **body}))

    async def get(self, scrape_id: str, team: str = TEAM) -> Answer:
        return await self.operations.find(ApiCall(version=2, team=team, path={"id": scrape_id}))


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    async with scene() as one:
        one.web.show("text")
        yield Desk(one)


@pytest.mark.parametrize("version", [1, 2])
async def test_a_scrape_answers_with_its_document(version: Literal[1, 2]) -> None:
    async with desk() as one:
        answer = await one.post(version)

    assert (answer.status, answer.body["success"], answer.body["data"]["markdown"]) == (200, True, "text")
    assert one.purse.charged == [1]


@pytest.mark.parametrize(("version", "schema"), [(1, schemas.SCRAPE_V1), (2, schemas.SCRAPE_V2)])
async def test_the_answers_have_the_fields_of_the_interface(version: Literal[1, 2], schema: Any) -> None:
    """JSON Schemas, written from its tables, hold the answer for a new page, a changed one, one that is gone."""
    tracking: dict[str, Any] = {"formats": ["markdown", "html", "rawHtml", "links", "changeTracking"]}
    if version == 1:
        tracking["changeTrackingOptions"] = {"modes": ["git-diff"]}
    else:
        tracking["formats"][-1] = {"type": "changeTracking", "modes": ["git-diff", "json"], "prompt": "title"}
    async with desk() as one:
        answers = [await one.post(version, **tracking)]
        one.scene.web.show("other")
        answers.append(await one.post(version, **tracking))
        one.scene.web.pages.clear()
        answers.append(await one.post(version, **tracking))
        answers.append(await one.post(version, formats=["screenshot"]))

    for answer in answers:
        validate(answer.body, schema)
    statuses = [answer.body["data"]["changeTracking"]["changeStatus"] for answer in answers[:3]]
    assert statuses == ["new", "changed", "removed"]


async def test_a_failure_answers_with_its_code_and_status() -> None:
    async with desk() as one:
        one.scene.web.failures[HOME] = ScrapeFailed("SCRAPE_DNS_RESOLUTION_ERROR", "no such host")
        answer = await one.post()

    assert answer.status == 200
    assert answer.body == {"success": False, "code": "SCRAPE_DNS_RESOLUTION_ERROR", "error": "no such host"}
    assert one.purse.charged == []


async def test_a_lockdown_miss_is_charged() -> None:
    async with desk() as one:
        answer = await one.post(lockdown=True)

    assert (answer.status, one.purse.charged) == (404, [1])


async def test_a_warning_stands_beside_the_data_too() -> None:
    async with desk() as one:
        answer = await one.post(formats=["screenshot"])

    assert answer.body["warning"] == answer.body["data"]["warning"]


async def test_a_document_is_kept_for_a_day() -> None:
    """After it the answer says that it has expired, and a day later nobody knows it."""
    async with desk() as one:
        body = (await one.post()).body["data"]
        scrape_id = body["metadata"]["scrapeId"]
        found = await one.get(scrape_id.upper())
        one.scene.clock.advance(timedelta(hours=24))
        with pytest.raises(CallRefused, match="Job expired") as expired:
            await one.get(scrape_id)
        one.scene.clock.advance(timedelta(hours=24, seconds=1))
        await one.post()
        with pytest.raises(CallRefused, match="Job not found"):
            await one.get(scrape_id)

    assert json.loads(to_json(found.body)) == {"success": True, "data": body}
    assert expired.value.status == 404


async def test_a_scrape_of_another_team_is_unknown() -> None:
    async with desk() as one:
        scrape_id = (await one.post()).body["data"]["metadata"]["scrapeId"]
        with pytest.raises(CallRefused, match="Job not found"):
            await one.get(scrape_id, team="other")


@pytest.mark.parametrize(("scrape_id", "status"), [("", 400), ("x", 400), (str(uuid.UUID(int=1)), 404)])
async def test_an_unknown_id_is_refused(scrape_id: str, status: int) -> None:
    async with desk() as one:
        with pytest.raises(CallRefused) as refused:
            await one.get(scrape_id)

    assert refused.value.status == status


async def test_zero_data_retention_keeps_no_document() -> None:
    async with desk() as one:
        scrape_id = (await one.post(zeroDataRetention=True)).body["data"]["metadata"]["scrapeId"]
        with pytest.raises(CallRefused, match="Job not found"):
            await one.get(scrape_id)


async def test_a_document_with_any_text_is_kept() -> None:
    """A page can hold what no UTF-8 can, by a character reference or an escape."""
    async with desk() as one:
        one.scene.web.pages[HOME] = '{"a": "\\ud800"}'
        one.scene.web.types[HOME] = "application/json"
        body = (await one.post(formats=["markdown", {"type": "json", "schema": {"properties": {"a": {}}}}])).body
        found = await one.get(body["data"]["metadata"]["scrapeId"])

    assert json.loads(to_json(found.body))["data"] == body["data"]
