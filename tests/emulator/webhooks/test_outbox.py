"""Webhooks that go out: what they hold, in which order they arrive, and when they come again."""

import json
from datetime import timedelta
from typing import Any

import httpx
import pytest

from receiver.core.clock import VirtualClock
from receiver.core.signing import verify
from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.webhooks.outbox import SILENT_WIDTH, Treatment, build_body, wants
from tests.doubles import event_of, eventually, turns
from tests.emulator.world import HOOK, World, open_world

OTHER_HOOK = "http://127.0.0.1:8/other"


async def put(world: World, count: int = 1, *, target: WebhookTarget | None = None, start: int = 0) -> None:
    for number in range(start, start + count):
        await world.put(target or WebhookTarget(HOOK), "crawl.page", "job-1", data=[{"number": number}])


def numbers(world: World) -> list[int]:
    return [event["data"][0]["number"] for event in world.endpoint.events]


async def states(world: World) -> list[str]:
    return [one.state for one in reversed(await world.outbox.deliveries())]


@pytest.mark.parametrize(
    ("events", "event_type", "passes"),
    [
        ((), "crawl.page", True),
        (("page",), "crawl.page", True),
        (("crawl.page",), "crawl.page", True),
        (("completed",), "crawl.page", False),
        (("batch_scrape.page",), "crawl.page", False),
        (("completed",), "monitor.check.completed", False),
        (("check",), "monitor.check.completed", True),
        (("check.completed",), "monitor.check.completed", True),
        (("monitor.check.completed",), "monitor.check.completed", True),
        (("page",), "monitor.page", True),
        (("started", "page"), "extract.started", True),
    ],
)
def test_a_filter_takes_the_names_that_the_service_takes(
    events: tuple[str, ...], event_type: str, passes: bool
) -> None:
    """The full type, its second part, or all after its first part."""
    assert wants(events, event_type) is passes


def test_a_body_has_the_keys_in_the_order_of_the_service() -> None:
    """Vector A and B of the service's facts, made anew from their parts."""
    a = build_body(
        "crawl.started",
        "019f2c10-0000-7000-8000-000000000001",
        "6f1d3c52-8a54-4b1e-9d0e-2f6f0a7f9a11",
        success=True,
        data=[],
        error=None,
        metadata={},
    )
    b = build_body(
        "batch_scrape.page",
        "019f2c10-0000-7000-8000-000000000002",
        "0b9c7b1e-54a7-4c6e-8f0b-7d1f5f2f6c22",
        success=False,
        data=[{"metadata": {"sourceURL": "https://example.com/café"}}],
        error="Délai dépassé ⏱",
        metadata={"équipe": "données"},
    )

    assert (len(a), len(b)) == (158, 268)
    a_signature = "sha256=bc7b05c74c91137db419a32ed5b7241ed5cd05877a5e688b056271b763380f0b"
    b_signature = "sha256=aed25d4b82ad98312218f0ff5089825fb5708b7478dd520fa1d813c9ff3a0ac9"
    assert verify(a, a_signature, ["example-secret-1"])
    assert verify(b, b_signature, ["clé-secrète-2"])


@pytest.mark.parametrize("value", ["\ud800 alone", "nul \x00", "\u2028", "emoji 😀", "x" * 100_000])
def test_any_text_of_a_page_makes_valid_json(value: str) -> None:
    """The body is UTF-8, and has the same text when it is read."""
    body = build_body("crawl.page", "1", "2", success=True, data=[{"markdown": value}], error=None, metadata={})

    assert json.loads(body.decode("utf-8"))["data"] == [{"markdown": value}]


def test_what_json_has_no_word_for_becomes_null() -> None:
    """As in JavaScript."""
    body = build_body("crawl.page", "1", "2", success=True, data=[{"x": float("nan")}], error=None, metadata={})

    assert json.loads(body)["data"] == [{"x": None}]


async def test_a_delivery_has_the_headers_of_its_webhook_and_the_signature() -> None:
    """The body is signed as it is sent; nothing of the connection can be replaced."""
    headers = {
        "X-Own": "one",
        "content-type": "application/x-own",
        "Host": "elsewhere",
        "Content-Length": "3",
        "x-firecrawl-signature": "sha256=0",
    }
    async with open_world(secret="s3cret") as world:
        await put(world, target=WebhookTarget(HOOK, headers=headers, metadata={"case": "7"}))
        await world.quiet()

    (request,) = world.endpoint.requests
    assert (request.method, str(request.url)) == ("POST", HOOK)
    assert request.headers["x-own"] == "one"
    assert request.headers.get_list("content-type") == ["application/x-own"]
    assert request.headers["host"] == "127.0.0.1:9"
    assert request.headers.get_list("content-length") == [str(len(request.content))]
    (signature,) = request.headers.get_list("x-firecrawl-signature")
    assert verify(request.content, signature, ["s3cret"])
    assert json.loads(request.content)["metadata"] == {"case": "7"}


async def test_deliveries_to_one_address_arrive_in_order() -> None:
    """Each waits for the answer to the one before."""
    async with open_world() as world:
        await put(world, 50)
        await world.quiet()

    assert numbers(world) == list(range(50))


async def test_a_failed_delivery_comes_again_by_the_schedule_and_then_fails() -> None:
    """After 1, 5 and 15 minutes of the emulator's clock, each time with the same body; meanwhile others arrive."""
    async with open_world() as world:
        world.endpoint.answer = _failing_for(0)
        await put(world, 2)
        await world.quiet()
        assert numbers(world) == [0, 1]
        assert await states(world) == ["retry 1", "delivered"]
        (waiting,) = [one for one in await world.outbox.deliveries() if one.next_attempt_at]
        assert waiting.next_attempt_at == world.clock.now() + timedelta(minutes=1)

        await world.pass_time(seconds=59)
        assert numbers(world) == [0, 1]
        await world.pass_time(seconds=1)
        assert numbers(world) == [0, 1, 0]
        await world.pass_time(minutes=4, seconds=59)
        assert numbers(world) == [0, 1, 0]
        await world.pass_time(seconds=1)
        assert numbers(world) == [0, 1, 0, 0]
        await world.pass_time(minutes=15)
        assert numbers(world) == [0, 1, 0, 0, 0]
        await world.pass_time(days=1)
        assert numbers(world) == [0, 1, 0, 0, 0]

        assert await states(world) == ["failed", "delivered"]
        failed = (await world.outbox.deliveries())[1]
        assert [attempt["status"] for attempt in failed.attempts] == [503] * 4
        assert failed.next_attempt_at is None
        bodies = {request.content for request in world.endpoint.requests}
        assert len(bodies) == 2


async def test_a_retry_that_is_answered_ends_the_delivery() -> None:
    """Any status from 200 to 299 does."""
    async with open_world() as world:
        world.endpoint.answer = lambda request: httpx.Response(500)
        await put(world)
        await world.quiet()
        world.endpoint.answer = lambda request: httpx.Response(204)
        await world.pass_time(minutes=1)

        assert await states(world) == ["delivered"]
        assert [one["status"] for one in (await world.outbox.deliveries())[0].attempts] == [500, 204]


async def test_redirects_are_not_followed() -> None:
    """They are failures."""
    async with open_world() as world:
        world.endpoint.answer = lambda request: httpx.Response(307, headers={"location": OTHER_HOOK})
        await put(world)
        await world.quiet()

        assert [str(request.url) for request in world.endpoint.requests] == [HOOK]
        assert await states(world) == ["retry 1"]


async def test_an_endpoint_has_ten_seconds_of_real_time() -> None:
    """The emulator's clock, which may run faster, does not count. While it is silent, others are sent beside."""
    network = VirtualClock()
    async with open_world(network_clock=network) as world:
        world.endpoint.silent = True
        await put(world, 1 + SILENT_WIDTH)
        await eventually(lambda: len(world.endpoint.requests) == 1)
        world.clock.advance(timedelta(hours=1))
        network.advance(timedelta(seconds=9))
        await turns()
        assert len(world.endpoint.requests) == 1
        network.advance(timedelta(seconds=1))
        await eventually(lambda: len(world.endpoint.requests) == 1 + SILENT_WIDTH)
        network.advance(timedelta(seconds=10))
        await world.quiet()

        assert await states(world) == ["retry 1"] * (1 + SILENT_WIDTH)
        assert (await world.outbox.deliveries())[0].attempts[0]["status"] is None


async def test_an_address_that_answers_again_gets_one_at_a_time() -> None:
    """What was refused comes again, and new events arrive in order."""
    async with open_world() as world:
        world.endpoint.answer = _refuse
        await put(world, 40)
        await world.quiet()
        assert await states(world) == ["retry 1"] * 40
        assert sorted(numbers(world)) == list(range(40))

        world.endpoint.answer = lambda request: httpx.Response(200)
        await world.pass_time(minutes=1)
        assert await states(world) == ["delivered"] * 40
        world.endpoint.requests.clear()
        await put(world, 30)
        await world.quiet()
        assert numbers(world) == list(range(30))


@pytest.mark.parametrize(
    ("treatment", "arrivals", "state"),
    [(Treatment(copies=2), 2, "delivered"), (Treatment(copies=0), 0, "lost")],
)
async def test_faults_duplicate_or_lose_deliveries(treatment: Treatment, arrivals: int, state: str) -> None:
    """A duplicate has the same id; a lost one is listed."""
    async with open_world() as world:
        world.outbox.treatments = _Always(treatment)
        await put(world)
        await world.quiet()

        assert len(world.endpoint.requests) == arrivals
        assert len({event["webhookId"] for event in world.endpoint.events}) == min(arrivals, 1)
        assert await states(world) == [state]


async def test_faults_make_deliveries_late_and_change_their_order() -> None:
    """Each is held back for a time of its own on the emulator's clock."""
    async with open_world() as world:
        world.outbox.treatments = _InTurn([3, 2, 1])
        await put(world, 3)
        await world.quiet()
        assert numbers(world) == []
        await world.pass_time(seconds=3)

        assert numbers(world) == [2, 1, 0]


async def test_private_hosts_are_skipped_if_they_are_not_allowed() -> None:
    """They are listed; a public host is asked."""
    async with open_world(to_private=False) as world:
        await put(world)
        await put(world, target=WebhookTarget("https://hooks.example.com/"), start=1)
        await world.quiet()

        assert numbers(world) == [1]
        assert await states(world) == ["skipped", "delivered"]


@pytest.mark.parametrize(
    "url", ["http://", "nonsense", "ftp://127.0.0.1/", "http://[::1", "http://127.0.0.1:99999/"]
)
async def test_an_unusable_address_fails_by_the_schedule(url: str) -> None:
    """It hinders nobody else."""
    async with open_world() as world:
        await put(world, target=WebhookTarget(url))
        await put(world, start=1)
        await world.pass_time(minutes=1)
        await world.pass_time(minutes=5)
        await world.pass_time(minutes=15)

        assert await states(world) == ["failed", "delivered"]


async def test_a_header_that_no_request_may_have_fails_only_its_delivery() -> None:
    """The others to the same address arrive."""
    async with open_world() as world:
        await put(world, target=WebhookTarget(HOOK, headers={"X-Bad": "a\r\nb: c", "É": "x"}))
        await put(world, start=1)
        await world.quiet()

        assert 1 in numbers(world)


async def test_many_addresses_keep_few_connections() -> None:
    """Idle ones are closed, and each address gets its own."""
    async with open_world() as world:
        for number in range(200):
            await put(world, target=WebhookTarget(f"http://127.0.0.1:9/{number}"))
            await world.quiet()

        assert len(world.endpoint.requests) == 200
        assert len(world.outbox._lanes) <= 64


async def test_a_fault_of_the_state_is_told_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """A delivery that could not be read is not forgotten."""
    async with open_world() as world:
        await world.database.run(lambda c: c.execute("ALTER TABLE webhook_deliveries RENAME TO gone") and None)
        world.outbox._wake_lane(HOOK)
        await world.quiet()
        assert [event_of(record) for record in caplog.records] == ["webhooks_crashed"]
        await world.database.run(lambda c: c.execute("ALTER TABLE gone RENAME TO webhook_deliveries") and None)
        await put(world)
        await world.pass_time(minutes=1)
        assert numbers(world) == [0]


async def test_deliveries_are_listed_newest_first_by_pages_and_jobs() -> None:
    """The journal asks for them like this."""
    async with open_world() as world:
        await put(world, 5)
        await world.put(WebhookTarget(HOOK), "crawl.completed", "job-2")
        await world.quiet()

        newest, second = await world.outbox.deliveries(limit=2)
        assert (newest.job_id, newest.type, second.job_id) == ("job-2", "crawl.completed", "job-1")
        assert len(await world.outbox.deliveries(before=second.seq)) == 4
        assert [one.job_id for one in await world.outbox.deliveries(job_id="job-2")] == ["job-2"]
        assert await world.outbox.counts() == {"delivered": 6}


def _refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


def _failing_for(number: int) -> Any:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(503 if json.loads(request.content)["data"][0]["number"] == number else 200)

    return answer


class _Always:
    def __init__(self, treatment: Treatment) -> None:
        self._treatment = treatment

    def choose(self, event_type: str) -> Treatment:
        return self._treatment


class _InTurn:
    def __init__(self, seconds: list[int]) -> None:
        self._seconds = seconds

    def choose(self, event_type: str) -> Treatment:
        return Treatment(late=timedelta(seconds=self._seconds.pop(0)))
