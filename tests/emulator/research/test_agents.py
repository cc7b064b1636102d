"""Agents: they look at pages step by step, until nothing is missing."""

import json
from typing import Any

import pytest

from tests.emulator.answering import HOOK, ORIGIN, Json, page
from tests.emulator.content.files import pdf
from tests.emulator.research.looking import COMPANY, LAMP, TEXT, UNKNOWN, done, research, started, urls


def kinds(events: list[Json]) -> list[str]:
    """Return the types of events without their family."""
    return [one["type"].partition(".")[2] for one in events]


async def test_an_agent_follows_links_until_nothing_is_missing() -> None:
    """Each step is an event with what was spent so far; a page that promises nothing is not looked at."""
    async with research() as service:
        prompt = "Find phone number, founding year and head office"
        job = await started(service, "/v2/agent", prompt=prompt, urls=urls("start"), schema=COMPANY)
        assert (await service.ask("GET", job))["status"] == "processing"
        events = await service.events()
        ended = await service.ask("GET", job)

        assert ended["data"] == {"phone": "+49 30 1234567", "founded": 1999, "head_office": "Berlin"}
        assert (ended["status"], ended["creditsUsed"], ended["model"]) == ("completed", 20, "spark-1-mini")
        assert kinds(events) == ["started", "action", "action", "action", "action", "completed"]
        steps = [one["data"][0] for one in events[1:-1]]
        assert [step["creditsUsed"] for step in steps] == [5, 10, 15, 20]
        visited = [step["input"]["url"] for step in steps]
        assert visited[0] == f"{ORIGIN}/start"
        assert sorted(visited[1:]) == sorted(urls("contact", "history", "offices"))
        assert events[-1]["data"] == [{"creditsUsed": 20, "data": ended["data"]}]


async def test_an_agent_goes_where_missing_properties_may_be() -> None:
    """By the words of their descriptions, too; the trace says which link is for which property."""
    async with research() as service:
        service.pages |= {
            "/begin": page("Phone: +49 30 1234567", "/phone-book", "/beginnings", "/phone-shop"),
            "/phone-book": page("Phone: +49 30 7654321"),
            "/beginnings": page("Founded: 1999"),
            "/phone-shop": page("Phone: none"),
        }
        founded = {"type": "integer", "description": "The year of our beginnings"}
        schema = {"type": "object", "properties": {"phone": TEXT, "founded": founded}}
        job = await started(service, "/v2/agent", prompt="phone", urls=urls("begin"), schema=schema)
        events = await service.events()
        ended = await service.ask("GET", job)
        trace = await service.ask("GET", f"{job}/trace")

    steps = [one["data"][0]["input"]["url"] for one in events if one["type"] == "agent.action"]
    results = [one["result"] for one in trace["events"] if one["type"] == "tool_call.finished"]
    assert ended["data"] == {"phone": "+49 30 1234567", "founded": 1999}
    assert steps == urls("begin", "beginnings")
    assert results[0]["linksToMissing"] == {f"{ORIGIN}/beginnings": ["founded"]}


async def test_an_agent_stops_when_it_has_everything() -> None:
    async with research() as service:
        schema = {"type": "object", "properties": {"phone": TEXT}}
        ended = await done(service, "/v2/agent", prompt="phone", urls=urls("contact"), schema=schema)

        assert (ended["data"], ended["creditsUsed"]) == ({"phone": "+49 30 1234567"}, 5)


async def test_a_strict_agent_stays_at_its_urls() -> None:
    async with research() as service:
        body: Json = {"prompt": "phone", "urls": urls("start", "legal"), "schema": COMPANY}
        ended = await done(service, "/v2/agent", **body, strictConstrainToURLs=True)

        assert (ended["status"], ended["data"], ended["creditsUsed"]) == ("completed", None, 10)
        assert "no value" in ended["warning"]


async def test_an_agent_whose_credits_do_not_suffice_fails_with_what_it_has() -> None:
    async with research() as service:
        body: Json = {"prompt": "all of it", "urls": urls("start"), "schema": COMPANY, "maxCredits": 12}
        job = await started(service, "/v2/agent", **body)
        last = (await service.events())[-1]
        ended = await service.ask("GET", job)

        assert (ended["status"], ended["error"]) == ("failed", "Max credits exceeded")
        assert ended["creditsUsed"] == 10
        assert any(value is not None for value in ended["partial"].values())
        assert "data" not in ended
        assert (last["type"], last["error"]) == ("agent.failed", "Max credits exceeded")
        assert last["data"] == [{"creditsUsed": 10}]


async def test_of_a_long_file_an_agent_reads_what_it_can_pay_for() -> None:
    """Each page of a PDF costs a credit; the bound of the agent holds, whatever it meets."""
    async with research() as service:
        service.pages["/long.pdf"] = pdf(*(f"Page {number}" for number in range(30)))
        body: Json = {"prompt": "isbn", "urls": urls("long.pdf"), "schema": {"properties": {"isbn": TEXT}}}
        ended = await done(service, "/v2/agent", **body, maxCredits=12, strictConstrainToURLs=True)
        whole = await done(service, "/v2/agent", **body, strictConstrainToURLs=True)

        assert (ended["status"], ended["creditsUsed"]) == ("completed", 12)
        assert whole["creditsUsed"] == 34


async def test_a_search_is_paid_for_too() -> None:
    async with research() as service:
        ended = await done(service, "/v2/agent", prompt="phone", maxCredits=1)

        assert (ended["status"], ended["creditsUsed"]) == ("failed", 0)


async def test_an_agent_ends_when_the_account_is_empty() -> None:
    async with research(credits=21) as service:
        body: Json = {"prompt": "all of it", "urls": urls("start", "lamp", "two.pdf", "guide", "shop", "legal")}
        job = await started(service, "/v2/agent", **body, schema=COMPANY)
        await service.clock.settle()
        ended = await service.ask("GET", job)

        assert (ended["status"], ended["error"]) == ("failed", "Insufficient credits")
        assert ended["creditsUsed"] <= 21


async def test_an_agent_is_cancelled() -> None:
    """The status has no word for it, the event has; nothing follows it."""
    async with research() as service:
        body: Json = {"prompt": "all of it", "urls": urls("start"), "schema": COMPANY}
        job = await started(service, "/v2/agent", **body)
        await service.ask("DELETE", job)
        await service.ask("DELETE", job, status=409)
        events = await service.events()
        ended = await service.ask("GET", job)

        assert (ended["status"], ended["error"]) == ("failed", "The agent was cancelled")
        assert kinds(events)[0] == "started"
        assert kinds(events)[-1] == "cancelled"
        assert "error" not in events[-1]
        assert await service.events() == []


async def test_an_ended_agent_cannot_be_cancelled() -> None:
    async with research() as service:
        job = await started(service, "/v2/agent", prompt="phone", urls=urls("contact"))
        await service.clock.settle()
        assert "ended" in (await service.ask("DELETE", job, status=409))["error"]
        await service.ask("DELETE", f"/v2/agent/{UNKNOWN}", status=404)


async def test_agents_are_listed_newest_first() -> None:
    """Twenty in one answer, and all of them over all answers, although they were started at the same moment."""
    async with research() as service:
        made = [
            (await service.ask("POST", "/v2/agent", {"prompt": f"lamp {n}", "urls": urls("lamp")}))["id"]
            for n in range(25)
        ]
        first = await service.ask("GET", "/v2/agent")
        second = await service.ask("GET", first["next"].removeprefix("http://emulator.test"))
        await service.clock.settle()

        assert [one["id"] for one in (*first["agents"], *second["agents"])] == made[::-1]
        assert len(first["agents"]) == 20
        assert "next" not in second
        assert first["agents"][0]["targetHint"] == f"{ORIGIN}/lamp"
        await service.ask("GET", "/v2/agent?before=soon", status=400)


async def test_a_conversation_goes_on() -> None:
    async with research() as service:
        first = await service.ask("POST", "/v2/agent", {"prompt": "lamp", "urls": urls("lamp")})
        body = {"prompt": "its price", "urls": urls("lamp"), "threadId": first["threadId"]}
        second = await service.ask("POST", "/v2/agent", body)
        await service.ask("POST", "/v2/agent", {**body, "threadId": UNKNOWN}, status=404)
        await service.clock.settle()

        assert (first["threadTurn"], second["threadTurn"]) == (1, 2)
        assert second["threadId"] == first["threadId"]
        thread = (await service.ask("GET", f"/v2/agent/threads/{first['threadId']}?includeData=true"))["thread"]
        assert [(run["id"], run["turn"]) for run in thread["runs"]] == [(first["id"], 1), (second["id"], 2)]
        assert (thread["status"], bool(thread["runs"][0]["data"])) == ("idle", True)
        assert [run["status"] for run in thread["runs"]] == ["succeeded", "succeeded"]
        await service.ask("GET", f"/v2/agent/threads/{UNKNOWN}", status=404)


async def test_a_trace_tells_what_an_agent_did() -> None:
    """Its calls in their order, and the result, which has an id of its own."""
    async with research() as service:
        job = await started(service, "/v2/agent", prompt="the phone", urls=urls("start"), schema=COMPANY)
        begun = await service.ask("GET", f"{job}/trace")
        await service.clock.settle()
        events = (await service.ask("GET", f"{job}/trace"))["events"]
        (artifact,) = [one["artifact"] for one in events if one["type"] == "artifact.updated"]
        snapshot = await service.ask("GET", f"{job}/snapshots/{artifact['snapshotId']}")

        assert [one["type"] for one in begun["events"][:2]] == ["run.started", "agent.started"]
        calls = [one["parameters"]["url"] for one in events if one["type"] == "tool_call.started"]
        assert calls[0] == f"{ORIGIN}/start"
        assert len(calls) == 4
        assert [one["producerSequence"] for one in events] == list(range(1, len(events) + 1))
        assert (events[-1]["type"], events[-1]["outcome"]) == ("run.finished", "succeeded")
        assert json.loads(snapshot["snapshot"])["founded"] == 1999
        await service.ask("GET", f"{job}/snapshots/{UNKNOWN}", status=404)
        await service.ask("GET", f"/v2/agent/{UNKNOWN}/trace", status=404)


@pytest.mark.parametrize(
    ("more", "cancel", "outcome"),
    [
        ({"maxCredits": 7}, False, "credit_limit_reached"),
        ({}, True, "cancelled"),
        ({"urls": urls("loop"), "strictConstrainToURLs": True}, False, "failed"),
    ],
)
async def test_a_trace_tells_how_an_agent_ended(more: Json, cancel: bool, outcome: str) -> None:
    async with research() as service:
        body: Json = {"prompt": "all of it", "urls": urls("start"), "schema": COMPANY, **more}
        job = await started(service, "/v2/agent", **body)
        if cancel:
            await service.ask("DELETE", job)
        await service.clock.settle()
        events = (await service.ask("GET", f"{job}/trace"))["events"]
        thread_id = (await service.ask("GET", job))["threadId"]
        thread = (await service.ask("GET", f"/v2/agent/threads/{thread_id}"))["thread"]

        assert [run["status"] for run in thread["runs"]] == [outcome]
        assert (events[-1]["type"], events[-1]["outcome"]) == ("run.finished", outcome)
        assert events[-1]["error"]["message"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "Bad Request"),
        ({"prompt": ""}, "Bad Request"),
        ({"prompt": "x" * 10_001}, "Bad Request"),
        ({"prompt": "x", "model": "gpt"}, "Bad Request"),
        ({"prompt": "x", "maxCredits": 0}, "Bad Request"),
        ({"prompt": "x", "strictConstrainToURLs": True}, "it needs urls"),
        ({"prompt": "x", "urls": ["ftp://a.test"]}, "unsupported protocol"),
        ({"prompt": "x", "webhook": {**HOOK, "events": ["page"]}}, "page"),
    ],
    ids=str,
)
async def test_wrong_bodies_are_refused(body: dict[str, Any], words: str) -> None:
    async with research() as service:
        assert words in (await service.ask("POST", "/v2/agent", body, status=400))["error"]


async def test_a_fault_of_a_page_is_no_fault_of_the_agent() -> None:
    async with research() as service:
        ended = await done(service, "/v2/agent", prompt="lamp", urls=urls("loop", "gone", "lamp"), schema=LAMP)

        assert (ended["status"], ended["data"]) == ("completed", {"name": "Lamp", "price": 12})
        assert "/gone: the page answered 404" in ended["warning"]
