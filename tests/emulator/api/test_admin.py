"""The admin API: health, reset, journal, deliveries, faults, clock, credits, and who may call it."""

import random
from datetime import timedelta
from typing import Any

import pytest

from receiver.emulator.account.keys import team_of_key
from receiver.emulator.api.faults import CallFault, InjectedFaults, WebhookFault
from receiver.emulator.api.journal import MAX_SHOWN_BODY, Journal
from receiver.emulator.contracts import JobFailure
from receiver.emulator.failures import CallRefused
from receiver.emulator.options import EmulatorOptions
from receiver.emulator.webhooks.outbox import AS_USUAL, Treatment
from tests.cases import for_each
from tests.doubles import NOON
from tests.emulator.api.calling import KEY, echo_world

TABLE = [
    ("GET", "/_emulator"),
    ("GET", "/_emulator/health"),
    ("POST", "/_emulator/reset"),
    ("GET", "/_emulator/journal"),
    ("GET", "/_emulator/deliveries"),
    ("GET", "/_emulator/faults"),
    ("POST", "/_emulator/faults"),
    ("DELETE", "/_emulator/faults"),
    ("GET", "/_emulator/clock"),
    ("POST", "/_emulator/clock"),
    ("POST", "/_emulator/credits"),
]


@pytest.mark.parametrize(("method", "path"), TABLE)
async def test_only_this_machine_may_call_it(method: str, path: str) -> None:
    """No other host, no page of a browser, and no name that leads here."""
    async with echo_world(client_host="192.0.2.7") as world:
        assert (await world.client.request(method, path)).status_code == 403
    async with echo_world() as world:
        page = await world.client.request(method, path, headers={"Origin": "https://evil.test"})
        rebound = await world.client.request(method, path, headers={"Host": "evil.test:3002"})
        assert (page.status_code, rebound.status_code) == (403, 403)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:3002", "[::1]:3002", "LOCALHOST"])
async def test_health_needs_no_key(host: str) -> None:
    """It tells the emulator's time."""
    async with echo_world() as world:
        answer = await world.client.get("/_emulator/health", headers={"Host": host})

    assert answer.json() == {"success": True, "status": "ok", "now": "2026-08-04T12:00:00.000Z"}


async def test_the_journal_has_calls_newest_first() -> None:
    """With what was asked for and what was answered; the admin API itself is not in it."""
    async with echo_world() as world:
        await world.post("/v2/echo?a=b", {"url": "https://example.com", "headers": {"Cookie": "s3cret"}})
        await world.client.get("/v2/echo/1")
        await world.client.get("/nowhere", headers=KEY)
        rows = (await world.client.get("/_emulator/journal")).json()["requests"]
        one = (await world.client.get("/_emulator/journal?limit=1")).json()["requests"]
        older = (await world.client.get(f"/_emulator/journal?before={rows[0]['seq']}&path=/v2")).json()["requests"]
        wrong = await world.client.get("/_emulator/journal?before=x")

    assert [(row["method"], row["path"], row["status"]) for row in rows] == [
        ("GET", "/nowhere", 404),
        ("GET", "/v2/echo/1", 401),
        ("POST", "/v2/echo?a=b", 200),
    ]
    assert one == rows[:1]
    assert older == rows[1:]
    assert wrong.status_code == 400
    assert rows[1]["error"] == "Unauthorized: Token missing"
    assert rows[2] | {"seconds": 0} == {
        "seq": 1,
        "at": "2026-08-04T12:00:00.000Z",
        "method": "POST",
        "path": "/v2/echo?a=b",
        "status": 200,
        "team": team_of_key(b"fc-test"),
        "body": '{"url":"https://example.com","headers":{"Cookie":"…"}}',
        "error": None,
        "code": None,
        "seconds": 0,
        "faked": False,
    }


def test_the_journal_is_bounded_and_keeps_no_secret() -> None:
    """Old calls go, long bodies are cut, and values under secret names are hidden at any depth."""
    journal = Journal(most=2)

    def add(body: dict[str, Any]) -> None:
        journal.add(
            at=NOON, method="POST", path="/", status=200, team=None, body=body, answer={}, seconds=0, faked=False
        )

    add({})
    add({"a": "x" * 100_000})
    add({"a": [{"webhook": {"headers": {"K": "s3cret"}, "Token": "s3cret"}}], "headers": ["s3cret"]})

    last, before = journal.entries()
    assert "s3cret" not in last.body
    assert len(before.body) == MAX_SHOWN_BODY + 1
    journal.forget_all()
    assert journal.entries() == []


async def test_the_next_two_scrapes_answer_429() -> None:
    """With Retry-After; the third works, and other operations always did."""
    async with echo_world() as world:
        asked = {"operation": "scrape", "status": 429, "times": 2, "retryAfter": 7}
        listed = (await world.client.post("/_emulator/faults", json=asked)).json()
        answers = [await world.post("/v2/scrape", {}) for _ in range(3)]
        other = await world.post("/v2/crawl", {})
        journal = (await world.client.get("/_emulator/journal?path=/v2/scrape")).json()["requests"]

    assert listed["faults"] == [asked]
    assert [answer.status_code for answer in answers] == [429, 429, 200]
    assert answers[0].headers["retry-after"] == "7"
    assert answers[0].json() == {"success": False, "error": "Rate limit exceeded"}
    assert other.status_code == 200
    assert [row["faked"] for row in journal] == [False, True, True]


async def test_jobs_that_are_to_fail_are_asked_for() -> None:
    """They are listed until they have failed."""
    asked = {"job": "crawl", "times": 2, "after": 3, "error": "no more"}
    async with echo_world() as world:
        listed = (await world.client.post("/_emulator/faults", json=asked)).json()
        wrong = await world.client.post("/_emulator/faults", json={"job": "scrape"})
        first = world.emulator.faults.choose_job("crawl")
        other = world.emulator.faults.choose_job("batch_scrape")
        left = (await world.client.get("/_emulator/faults")).json()["faults"]

    assert listed["faults"] == [asked]
    assert wrong.status_code == 400
    assert (first, other) == (JobFailure(3, "no more"), None)
    assert left == [{**asked, "times": 1}]


@for_each(
    ("fault", "method", "path", "limit", "met"),
    [
        ({"operation": "*"}, "GET", "/v2/echo/{id}", "crawlStatus", True),
        ({"operation": "/v2/echo/{id}"}, "GET", "/v2/echo/{id}", "crawlStatus", True),
        ({"operation": "/v2/echo/{id}", "method": "POST"}, "GET", "/v2/echo/{id}", "crawlStatus", False),
        ({"operation": "crawl"}, "GET", "/v2/echo/{id}", "crawlStatus", False),
        ({"operation": "crawlStatus", "method": "GET"}, "GET", "/v2/echo/{id}", "crawlStatus", True),
    ],
)
def test_a_fault_meets_what_it_names(fault: dict[str, Any], method: str, path: str, limit: str, met: bool) -> None:
    """A kind of calls, a path, or everything."""
    faults = InjectedFaults(random.Random(1), calls=[CallFault(status=500, **fault)])

    assert (faults.take(method, path, limit) is not None) is met
    assert faults.take(method, path, limit) is None or not met
    assert (faults.calls == []) is met


async def test_a_fault_has_its_own_text_and_code() -> None:
    """Whatever the test needs; faults can be listed and cleared."""
    async with echo_world() as world:
        fault = {"operation": "*", "status": 408, "code": "SCRAPE_TIMEOUT", "error": "too slow", "method": "POST"}
        await world.client.post("/_emulator/faults", json={**fault, "times": 9})
        met = await world.post("/v2/scrape", {})
        left = (await world.client.get("/_emulator/faults")).json()["faults"]
        cleared = (await world.client.delete("/_emulator/faults")).json()["faults"]
        after = await world.post("/v2/scrape", {})

    assert (met.status_code, met.json()) == (
        408,
        {"success": False, "code": "SCRAPE_TIMEOUT", "error": "too slow"},
    )
    assert left == [{**fault, "times": 8}]
    assert (cleared, after.status_code) == ([], 200)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"operation": "scrape"},
        {"operation": "scrape", "status": 200},
        {"operation": "scrape", "status": 600},
        {"operation": "scrape", "status": "429"},
        {"operation": "scrape", "status": 429, "times": 0},
        {"operation": "scrape", "status": 429, "times": 1e9},
        {"operation": "scrape", "status": 429, "method": "HEAD"},
        {"operation": "", "status": 429},
        {"operation": "scrape", "status": 429, "colour": "red"},
        {"webhook": ""},
        {"webhook": "crawl.pages"},
        {"webhook": "check.*"},
        {"webhook": "*", "copies": -1},
        {"webhook": "*", "copies": 101},
        {"webhook": "*", "late": "soon"},
        {"webhook": "*", "late": -1},
        {"webhook": "*", "late": 1e300},
        {"webhook": "*", "shuffle": True},
        {"webhook": "*", "status": 500},
    ],
)
async def test_a_wrong_fault_is_refused(body: dict[str, Any]) -> None:
    """With the same error body as the API."""
    async with echo_world() as world:
        answer = await world.client.post("/_emulator/faults", json=body)
        listed = (await world.client.get("/_emulator/faults")).json()["faults"]

    assert (answer.status_code, answer.json()["code"], listed) == (400, "BAD_REQUEST", [])


async def test_a_fault_of_an_unknown_operation_is_refused() -> None:
    """It would wait for ever."""
    async with echo_world() as world:
        answer = await world.client.post("/_emulator/faults", json={"operation": "dance", "status": 500})

    assert answer.status_code == 400
    assert "operation: no call is 'dance'" in answer.json()["error"]


def test_the_journal_says_what_was_wrong_with_a_request() -> None:
    """`Bad Request` alone does not."""
    journal = Journal()
    details = [{"path": ["formats", 0], "message": "no such format"}]
    journal.add(
        at=NOON,
        method="POST",
        path="/v2/scrape",
        status=400,
        team=None,
        body={},
        answer={"success": False, "error": "Bad Request", "details": details},
        seconds=0.1,
        faked=False,
    )

    assert journal.entries()[0].error == "Bad Request: formats.0: no such format"


async def test_a_fault_of_no_webhook_tells_which_there_are() -> None:
    async with echo_world() as world:
        answer = await world.client.post("/_emulator/faults", json={"webhook": "crawl.pages"})

    issue = answer.json()["details"][0]
    assert issue["path"] == ["webhook"]
    assert issue["message"].startswith(
        "No event has a type like 'crawl.pages'. The types are crawl.started, crawl.page"
    )


async def test_faults_of_webhooks_reach_the_outbox() -> None:
    """Late, twice, or never."""
    async with echo_world() as world:
        await world.client.post("/_emulator/faults", json={"webhook": "crawl.*", "copies": 2, "late": "5m"})
        await world.client.post("/_emulator/faults", json={"webhook": "*", "copies": 0, "times": 2})
        faults = world.emulator.faults
        chosen = [faults.choose(kind) for kind in ("crawl.page", "crawl.page", "monitor.page", "agent.action")]

    assert chosen == [Treatment(2, timedelta(minutes=5)), Treatment(0), Treatment(0), AS_USUAL]


def test_shuffled_webhooks_change_places() -> None:
    """By a chance that a seed repeats."""

    def drawn(seed: int) -> list[timedelta]:
        fault = WebhookFault(webhook="*", times=20, shuffle=timedelta(minutes=1))
        faults = InjectedFaults(random.Random(seed), webhooks=[fault])
        return [faults.choose("crawl.page").late for _ in range(20)]

    assert drawn(1) == drawn(1) != sorted(drawn(1))
    assert all(timedelta(0) <= late <= timedelta(minutes=1) for late in drawn(2))


async def test_the_clock_is_told_and_advanced() -> None:
    """By seconds, or by a duration in words; what is due happens on the way."""
    async with echo_world(EmulatorOptions(speed=60)) as world:
        made: list[str] = []
        world.emulator.clock.call_later(timedelta(hours=1), lambda: made.append("due"))
        told = (await world.client.get("/_emulator/clock")).json()
        moved = (await world.client.post("/_emulator/clock", json={"advance": "1h30m"})).json()
        again = (await world.client.post("/_emulator/clock", json={"advance": 0.5})).json()
        wrong = await world.client.post("/_emulator/clock", json={"advance": "-1h"})
        absent = await world.client.post("/_emulator/clock")

    assert told == {"success": True, "now": "2026-08-04T12:00:00.000Z", "speed": 60}
    assert (moved["now"], made) == ("2026-08-04T13:30:00.000Z", ["due"])
    assert again["now"] == "2026-08-04T13:30:00.500Z"
    assert (wrong.status_code, absent.status_code) == (400, 400)


async def test_credits_can_be_set_by_key_by_team_or_for_all() -> None:
    """The key itself is not repeated."""
    async with echo_world() as world:

        async def left(key: str) -> int:
            answer = await world.client.get("/v2/team/credit-usage", headers={"Authorization": f"Bearer {key}"})
            return int(answer.json()["data"]["remainingCredits"])

        by_key = await world.client.post("/_emulator/credits", json={"credits": 5, "key": "one"})
        by_team = await world.client.post("/_emulator/credits", json={"credits": 6, "team": team_of_key(b"two")})
        assert [await left("one"), await left("two"), await left("three")] == [5, 6, 100_000]
        assert by_key.json() == {"success": True, "team": team_of_key(b"one"), "credits": 5}
        assert by_team.status_code == 200
        await world.client.post("/_emulator/credits", json={"credits": 0})
        assert [await left("one"), await left("three")] == [0, 0]
        assert (await world.client.post("/_emulator/credits", json={"credits": -1})).status_code == 400


async def test_a_reset_forgets_everything() -> None:
    """Tables, parts, faults, windows, the journal, and credits that were set."""
    async with echo_world(EmulatorOptions(plan="free")) as world:
        reference, _ = world.parts.uploads.announce("team-1", "a.pdf", "")
        header = {"X-Idempotency-Key": "019f2c10-0000-7000-8000-000000000001"}
        for _ in range(2):
            await world.post("/v2/crawl", {}, headers=header)
        await world.client.post("/_emulator/credits", json={"credits": 1})
        await world.client.post("/_emulator/faults", json={"operation": "*", "status": 500, "times": 99})
        assert (await world.client.post("/_emulator/reset")).json() == {"success": True}
        assert (await world.client.get("/_emulator/journal")).json()["requests"] == []
        assert (await world.post("/v2/crawl", {}, headers=header)).status_code == 200
        usage = (await world.get("/v2/team/credit-usage")).json()["data"]
        with pytest.raises(CallRefused):
            world.parts.uploads.put(reference, b"%PDF")

    assert (usage["remainingCredits"], usage["planCredits"]) == (100_000, 100_000)


async def test_deliveries_are_listed() -> None:
    """Those of the outbox, by state and by job."""
    async with echo_world() as world:
        answer = (await world.client.get("/_emulator/deliveries?job=5&limit=3")).json()

    assert answer == {"success": True, "counts": {}, "deliveries": []}


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/_emulator/nowhere", 404), ("PUT", "/_emulator/clock", 405)]
)
async def test_unknown_operations_are_told_in_json(method: str, path: str, status: int) -> None:
    """As in the API."""
    async with echo_world() as world:
        answer = await world.client.request(method, path)

    assert (answer.status_code, answer.json()["success"]) == (status, False)


async def test_ids_are_the_same_in_every_run_with_a_seed() -> None:
    """Here those of faults of ours."""

    async def identity() -> str:
        def crash(call: Any) -> Any:
            raise RuntimeError

        async with echo_world(EmulatorOptions(seed=5)) as world:
            world.echo.answer = crash
            return str((await world.post("/v2/echo", {})).json()["error"])

    assert await identity() == await identity()
