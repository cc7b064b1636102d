"""Extractions: data of several pages, put together into one result."""

from typing import Any

import pytest

from tests.emulator.answering import HOOK, ORIGIN, Json
from tests.emulator.research.looking import COMPANY, LAMP, NUMBER, TEXT, UNKNOWN, done, research, started, urls

LAMPS = {"type": "object", "properties": {"lamps": {"type": "array", "items": LAMP}}}


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_values_of_several_pages_become_one_result(version: str) -> None:
    """Each value names its page; the cost is that of the pages, also in tokens."""
    async with research() as service:
        pages = urls("contact", "history", "offices")
        job = await started(service, f"/{version}/extract", urls=pages, schema=COMPANY, showSources=True)
        running = await service.ask("GET", job)
        assert (running["status"], running["data"]) == ("processing", [])
        first, last = await service.events()
        ended = await service.ask("GET", job)

        assert (ended["status"], ended["data"]) == (
            "completed",
            {"phone": "+49 30 1234567", "founded": 1999, "head_office": "Berlin"},
        )
        assert ended["sources"] == {"phone": [pages[0]], "founded": [pages[1]], "head_office": [pages[2]]}
        assert (ended["creditsUsed"], ended["tokensUsed"]) == (15, 225)
        assert "warning" not in ended
        assert [first["type"], last["type"]] == ["extract.started", "extract.completed"]
        (result,) = last["data"]
        assert (result["data"], result["totalUrlsScraped"]) == (ended["data"], 3)
        assert (result["creditsBilled"], result["sources"]) == (15, ended["sources"])
        used = await service.ask("GET", "/v2/team/credit-usage")
        assert used["data"]["planCredits"] - used["data"]["remainingCredits"] == 15


async def test_answers_say_that_the_operation_is_only_maintained() -> None:
    async with research() as service:
        body = {"urls": urls("lamp"), "schema": LAMP}
        response = await service.http.post("/v2/extract", json=body)
        status = await service.http.get(f"/v2/extract/{response.json()['id']}")

        for one in (response, status):
            assert one.headers["deprecation"] == "true"
            assert one.headers["warning"].startswith("299 - ")
            assert one.json()["warnings"]
            assert "/v2/agent" in one.json()["replacement"]
        await service.clock.settle()


async def test_a_wildcard_stands_for_the_pages_below() -> None:
    async with research() as service:
        ended = await done(service, "/v2/extract", urls=[f"{ORIGIN}/shop/*"], schema=LAMPS, showSources=True)

        lamps = sorted(ended["data"]["lamps"], key=lambda one: str(one["name"]))
        assert lamps == [{"name": "Elm", "price": 30}, {"name": "Oak", "price": 40}]
        assert {url for found in ended["sources"].values() for url in found} == set(urls("shop/elm", "shop/oak"))


async def test_what_is_not_there_is_null_and_named() -> None:
    async with research() as service:
        schema = {"type": "object", "properties": {"phone": TEXT, "isbn": TEXT}}
        ended = await done(service, "/v2/extract", urls=urls("contact", "loop"), schema=schema)

        assert ended["data"] == {"phone": "+49 30 1234567", "isbn": None}
        assert "no value for isbn" in ended["warning"]
        assert f"{ORIGIN}/loop: " in ended["warning"]


async def test_a_prompt_alone_takes_what_it_names() -> None:
    """Pages that have nothing of it do not add their titles."""
    async with research() as service:
        prompt = "When was the company founded, and what is its phone number?"
        ended = await done(service, "/v2/extract", urls=urls("legal", "contact", "history"), prompt=prompt)

        assert ended["data"] == {"phone": "+49 30 1234567", "founded": "1999"}


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_an_extraction_without_a_page_fails(version: str) -> None:
    async with research() as service:
        job = await started(service, f"/{version}/extract", urls=urls("loop"), schema=LAMP)
        failed = (await service.events())[-1]
        ended = await service.ask("GET", job)

        assert (ended["status"], ended["success"], ended["data"]) == ("failed", False, [])
        assert failed["type"] == "extract.failed"
        assert failed["error"] == ended["error"]
        assert "No page could be scraped" in ended["error"]


async def test_links_to_other_sites_are_followed_if_asked_for() -> None:
    other = "https://other.test"
    pages = {"/": '<main><a href="https://other.test/phone">Our phone</a></main>'}
    sites = {"https://own.test": pages, other: {"/phone": "<main><p>Phone: 112</p></main>"}}
    schema = {"type": "object", "properties": {"phone": TEXT}}
    async with research(sites=sites) as service:
        own = ["https://own.test/"]
        kept = await done(service, "/v2/extract", urls=own, schema=schema)
        followed = await done(service, "/v2/extract", urls=own, schema=schema, allowExternalLinks=True)

        assert (kept["data"], followed["data"]) == (None, {"phone": "112"})


REFUSED: list[tuple[Json, str]] = [
    ({}, 'Either "urls" or "prompt" must be provided'),
    ({"urls": []}, 'Either "urls" or "prompt" must be provided'),
    ({"urls": ["ftp://a.test"]}, "No valid URLs provided"),
    ({"urls": ["ftp://a.test"], "prompt": "x", "ignoreInvalidURLs": False}, "unsupported protocol"),
    ({"urls": [f"{ORIGIN}/{n}" for n in range(11)]}, "Bad Request"),
    ({"urls": [ORIGIN], "schema": {"type": "nonsense"}}, "Invalid JSON schema"),
    ({"urls": [ORIGIN], "unknown": 1}, "Unrecognized key"),
    ({"urls": [ORIGIN], "webhook": {**HOOK, "events": ["nothing"]}}, "nothing"),
    ({"urls": [ORIGIN], "scrapeOptions": {"timeout": "soon"}}, "Bad Request"),
]


@pytest.mark.parametrize(("body", "words"), REFUSED, ids=str)
async def test_wrong_bodies_are_refused(body: Json, words: str) -> None:
    async with research() as service:
        refused = await service.ask("POST", "/v2/extract", body, status=400)

        assert words in refused["error"]
        if "Either" not in words:
            await service.ask("POST", "/v1/extract", body, status=400)


async def test_invalid_urls_are_left_out_and_listed() -> None:
    async with research() as service:
        answer = await service.ask("POST", "/v2/extract", {"urls": [*urls("lamp"), "ftp://x.test"], "prompt": "x"})
        assert answer["invalidURLs"] == ["ftp://x.test"]
        await service.clock.settle()


async def test_results_are_there_for_a_day_and_for_their_team() -> None:
    async with research() as service:
        job = await started(service, "/v2/extract", urls=urls("lamp"), schema=LAMP)
        await service.clock.settle()
        other = {"Authorization": "Bearer fc-another"}
        assert (await service.ask("GET", job, status=404, headers=other))["error"] == "Job not found"
        await service.ask("GET", f"/v2/extract/{UNKNOWN}", status=404)
        await service.ask("GET", "/v2/extract/1", status=400)
        await service.ask("GET", job.replace("extract", "agent"), status=404)
        await service.clock.advance(hours=24)
        assert (await service.ask("GET", job, status=404))["error"] == "Job expired"


async def test_the_filter_of_a_webhook_chooses_events() -> None:
    async with research() as service:
        for names in (["completed"], ["extract.completed"]):
            body: dict[str, Any] = {"urls": urls("lamp"), "schema": LAMP, "webhook": {**HOOK, "events": names}}
            await service.ask("POST", "/v2/extract", body)
            assert [one["type"] for one in await service.events()] == ["extract.completed"]


async def test_an_account_needs_twenty_credits() -> None:
    async with research(credits=19) as service:
        await service.ask("POST", "/v2/extract", {"urls": urls("lamp"), "schema": LAMP}, status=402)
        await service.ask("POST", "/v2/agent", {"prompt": "lamps"}, status=402)


async def test_options_of_pages_are_used() -> None:
    """The formats of scrapeOptions give way to those that an extraction needs."""
    schema = {"type": "object", "properties": {"price": NUMBER}}
    async with research() as service:
        options = {"onlyMainContent": False, "formats": ["html"], "redactPII": True}
        ended = await done(service, "/v2/extract", urls=urls("lamp"), schema=schema, scrapeOptions=options)
        assert (ended["data"], ended["creditsUsed"]) == ({"price": 12}, 9)


async def test_hostile_texts_of_pages_are_kept_and_told() -> None:
    """Half of a surrogate pair, which JSON for programs may hold, is in the answer and in the event."""
    async with research() as service:
        head = '<script type="application/ld+json">{"@type": "Product", "name": "a\\ud800b", "price": 1}</script>'
        service.pages["/odd"] = f"<html><head>{head}</head><body><main>x</main></body></html>"
        job = await started(service, "/v2/extract", urls=urls("odd"), schema=LAMP, showSources=True)
        last = (await service.events())[-1]
        ended = await service.ask("GET", job)

        assert ended["data"] == last["data"][0]["data"] == {"name": "a\ud800b", "price": 1}
