"""Agents and extractions that are given no pages: they search the sites of the emulator."""

from tests.emulator.answering import Json
from tests.emulator.research.looking import COMPANY, TEXT, done, research, started, urls


async def test_an_agent_without_urls_finds_its_pages() -> None:
    """The search is its first step."""
    async with research() as service:
        body: Json = {"prompt": "contact phone", "schema": {"type": "object", "properties": {"phone": TEXT}}}
        job = await started(service, "/v2/agent", **body)
        events = await service.events()
        ended = await service.ask("GET", job)

        assert (ended["status"], ended["data"]) == ("completed", {"phone": "+49 30 1234567"})
        steps = [one["data"][0] for one in events if one["type"] == "agent.action"]
        assert (steps[0]["action"], steps[0]["input"]) == ("search", {"query": "contact phone"})
        assert {"url": urls("contact")[0], "formats": ["json", "markdown"]} in [step["input"] for step in steps[1:]]
        assert ended["creditsUsed"] == 2 + 5 * (len(steps) - 1)


async def test_an_extraction_searches_for_more_pages() -> None:
    async with research() as service:
        body: Json = {"prompt": "history offices founded", "schema": COMPANY, "enableWebSearch": True}
        ended = await done(service, "/v2/extract", urls=urls("contact"), **body)

        assert ended["data"] == {"phone": "+49 30 1234567", "founded": 1999, "head_office": "Berlin"}


async def test_what_nobody_can_find_fails() -> None:
    async with research() as service:
        ended = await done(service, "/v2/agent", prompt="zyzzyva", schema=COMPANY)

        assert ended["status"] == "failed"
        assert "No page was found" in ended["error"]
