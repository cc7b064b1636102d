"""Every answer of the admin API has its form, and the API explains itself."""

import pytest

from receiver.emulator.api.admin import MANUAL
from tests.emulator.answering import HOOK, ORIGIN, CheckedService, Json, checked_service, hold
from tests.emulator.api.calling import echo_world
from tests.emulator.schemas import ADMIN, ERROR

LOCAL = {"Host": "127.0.0.1:3002"}


async def asked(service: CheckedService, method: str, path: str, body: Json | None = None) -> Json:
    """Call an operation, and hold its answer to its schema."""
    response = await service.http.request(method, path, json=body, headers=LOCAL)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    hold(answer, ADMIN[method, path.partition("?")[0]])
    return answer


async def test_every_answer_has_its_form() -> None:
    """With calls that failed and webhooks that were sent, wait and were lost."""
    async with checked_service() as service:
        await asked(service, "POST", "/_emulator/faults", {"operation": "map", "status": 503, "times": 2})
        await asked(service, "POST", "/_emulator/faults", {"webhook": "crawl.page", "copies": 0, "late": "1m"})
        await asked(service, "POST", "/_emulator/faults", {"webhook": "crawl.page", "late": "1h"})
        await asked(service, "GET", "/_emulator/faults")
        await service.ask("POST", "/v2/crawl", {"url": f"{ORIGIN}/", "limit": 3, "webhook": HOOK})
        await service.ask("POST", "/v2/map", {"url": ORIGIN}, status=503)
        await service.events()
        calls = await asked(service, "GET", "/_emulator/journal")
        webhooks = await asked(service, "GET", "/_emulator/deliveries")
        await asked(service, "DELETE", "/_emulator/faults")
        await asked(service, "POST", "/_emulator/clock", {"advance": "2h"})
        for path in ("", "/health", "/clock"):
            await asked(service, "GET", f"/_emulator{path}")
        await asked(service, "POST", "/_emulator/credits", {"credits": 5, "key": "fc-any"})
        await asked(service, "POST", "/_emulator/credits", {"credits": 5})
        await asked(service, "POST", "/_emulator/reset")

    assert [one["faked"] for one in calls["requests"]] == [True, False]
    assert {one["state"] for one in webhooks["deliveries"]} >= {"lost", "attempt", "delivered"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/_emulator/nowhere", None, 404),
        ("DELETE", "/_emulator/health", None, 405),
        ("GET", "/_emulator/journal?limit=x", None, 400),
        ("POST", "/_emulator/clock", {}, 400),
        ("POST", "/_emulator/credits", {"credits": -1}, 400),
    ],
)
async def test_its_errors_have_the_form_of_the_others(
    method: str, path: str, body: Json | None, status: int
) -> None:
    async with echo_world() as world:
        response = await world.client.request(method, path, json=body)

    assert response.status_code == status
    hold(response.json(), ERROR)


async def test_it_explains_each_of_its_operations() -> None:
    """And every example in the explanation works."""
    assert MANUAL.keys() == ADMIN.keys()
    async with checked_service() as service:
        told = await asked(service, "GET", "/_emulator")
        for one in told["operations"]:
            for body in one.get("bodies", [None]):
                await asked(service, one["method"], one["path"], body)


@pytest.mark.parametrize(("query", "count"), [("", 100), ("?limit=3", 3), ("?limit=0", 100), ("?limit=99999", 120)])
async def test_a_list_has_a_limit(query: str, count: int) -> None:
    """100 rows by default, and at most 1,000 in one answer."""
    async with echo_world() as world:
        for _ in range(120):
            await world.get("/v2/echo/1")
        rows = (await world.client.get(f"/_emulator/journal{query}")).json()["requests"]

    assert [row["seq"] for row in rows] == list(range(120, 120 - count, -1))
