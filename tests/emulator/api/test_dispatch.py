"""From HTTP to the operations: keys, bodies, limits, credits, idempotency keys, errors."""

import asyncio
import functools
import json
import logging
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from receiver.emulator.api.calls import MAX_BODY, MAX_UPLOAD, Answer, ApiOperation, UploadedFile
from receiver.emulator.api.dispatch import RouteTable
from receiver.emulator.app import Emulator
from receiver.emulator.failures import CallRefused, ScrapeFailed
from receiver.emulator.options import EmulatorOptions
from tests.doubles import event_of
from tests.emulator.api.calling import KEY, echo_world

UUID = "019f2c10-0000-7000-8000-000000000001"


async def test_an_operation_gets_its_call() -> None:
    """The version, the team, path, query, headers, the body without nulls, and how the caller reached it."""
    async with echo_world() as world:
        answer = await world.client.patch(
            f"/v2/echo/{UUID}?limit=5&limit=6",
            headers={**KEY, "X-A": "b", "Host": "emulator.test:99", "X-Forwarded-Proto": "https"},
            json={"goal": None, "name": "x", "schema": {"default": None}, "list": [{"a": None}]},
        )
        (call,) = world.echo.calls

    assert answer.status_code == 200
    assert (call.version, call.path, call.query) == (2, {"id": UUID}, {"limit": "6"})
    assert call.body == {"name": "x", "schema": {"default": None}, "list": [{}]}
    assert call.nulls == {"goal"}
    assert call.headers["x-a"] == "b"
    assert call.base_url == "https://emulator.test:99"
    assert len(call.team) == 36


@pytest.mark.parametrize("host", ["a b", "", "x/y", "[", "a@b", "a:b", 'x"'])
async def test_a_strange_host_is_not_repeated(host: str) -> None:
    """The URLs in answers then have the server's own address."""
    async with echo_world() as world:
        await world.get("/v2/echo/1", headers={"Host": host})
        assert world.echo.calls[0].base_url == "http://127.0.0.1:3002"


async def test_version_1_is_told_by_the_path() -> None:
    """As the path says."""
    async with echo_world() as world:
        await world.post("/v1/scrape", {"url": "x"})
        assert world.echo.calls[0].version == 1


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        ("GET", "/v3/scrape", 404, "There is no operation GET /v3/scrape"),
        ("GET", "/v2", 404, "There is no operation GET /v2"),
        ("GET", "/v2/echo/", 405, "/v2/echo/ does not have GET, it has POST"),
        ("PUT", "/v2/echo/1", 405, "/v2/echo/1 does not have PUT, it has DELETE, GET, PATCH"),
        ("GET", "/v2/echo//parse", 404, "There is no operation GET /v2/echo//parse"),
    ],
)
async def test_unknown_operations_are_told_in_json(method: str, path: str, status: int, error: str) -> None:
    """404 for a path, 405 with Allow for a method."""
    async with echo_world() as world:
        answer = await world.client.request(method, path, headers=KEY)

    assert (answer.status_code, answer.json()) == (status, {"success": False, "error": error})
    assert ("allow" in answer.headers) is (status == 405)


async def test_fixed_paths_go_before_ids_and_a_last_slash_is_ignored() -> None:
    """As `/crawl/active` beside `/crawl/{id}`."""
    async with echo_world() as world:
        await world.get("/v2/echo/active")
        await world.get("/v2/echo/5/")

    assert [call.path for call in world.echo.calls] == [{}, {"id": "5"}]


def test_no_operation_is_given_twice() -> None:
    """Two parts that bring the same one are a mistake."""

    async def handle(call: Any) -> Answer:
        return Answer({})

    operation = ApiOperation("GET", "/v2/a", handle, "account")
    with pytest.raises(ValueError, match="given twice"):
        RouteTable([operation, operation])


async def test_calls_need_a_key() -> None:
    """401 with the service's texts; unknown paths are told without."""
    async with echo_world(EmulatorOptions(keys=("fc-right",))) as world:
        missing = await world.client.get("/v2/echo/1")
        wrong = await world.client.get("/v2/echo/1", headers={"Authorization": "Bearer fc-wrong"})
        right = await world.client.get("/v2/echo/1", headers={"Authorization": "Bearer fc-right"})

    assert (missing.status_code, missing.json()["error"]) == (401, "Unauthorized: Token missing")
    assert (wrong.status_code, wrong.json()["error"]) == (401, "Unauthorized: Invalid token")
    assert right.status_code == 200
    assert "fc-" not in missing.text + wrong.text


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", "BAD_REQUEST_INVALID_JSON"),
        (b'{"a":NaN}', "BAD_REQUEST_INVALID_JSON"),
        (b"[" * 100_000, "BAD_REQUEST_INVALID_JSON"),
        (b"\xff", "BAD_REQUEST_INVALID_JSON"),
        (b'{"a":[' + b"0," * 600_000 + b"0]}", "BAD_REQUEST_INVALID_JSON"),
        (b"[]", "BAD_REQUEST"),
        (b'"x"', "BAD_REQUEST"),
    ],
)
async def test_a_malformed_body_is_refused(content: bytes, code: str) -> None:
    """Before the operation sees it."""
    async with echo_world() as world:
        answer = await world.post("/v2/echo", content=content)

    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert world.echo.calls == []


async def test_a_body_may_be_absent_or_of_any_content_type() -> None:
    """GET and DELETE ignore theirs, as the SDK sends JSON there too."""
    async with echo_world() as world:
        await world.post("/v2/echo")
        await world.post("/v2/echo", content=b'{"a":1}', headers={"Content-Type": "text/plain"})
        await world.client.request("DELETE", "/v2/echo/1", headers=KEY, content=b"{nonsense")

    assert [call.body for call in world.echo.calls] == [{}, {"a": 1}, {}]


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize(("path", "most"), [("/v2/echo", MAX_BODY), ("/v2/echo/1/parse", MAX_UPLOAD)])
async def test_a_body_is_limited(path: str, most: int, *, announced: bool) -> None:
    """413, whether its length was told or not."""
    multipart = {"Content-Type": "multipart/form-data; boundary=b"} if "parse" in path else {}

    async def endless() -> Any:
        head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        yield head if multipart else b'{"a":"'
        for _ in range(most // 1_000_000 + 1):
            yield b"x" * 1_000_000

    headers = {**multipart, **({"Content-Length": str(most + 1)} if announced else {})}
    async with echo_world() as world:
        answer = await world.post(path, content=endless(), headers=headers)

    assert (answer.status_code, answer.json()) == (413, {"success": False, "error": "Request body is too large"})
    assert world.echo.calls == []


async def test_an_upload_has_its_file_and_options() -> None:
    """Options are JSON in a part of their own."""
    async with echo_world() as world:
        answer = await world.client.post(
            "/v2/echo/1/parse",
            headers=KEY,
            files={"file": ("a.txt", b"words")},
            data={"options": '{"formats":["markdown"],"x":null}'},
        )
        (call,) = world.echo.calls
        assert call.files == {"file": UploadedFile("a.txt", "text/plain", b"words")}
        broken = await world.post(
            "/v2/echo/1/parse", content=b"--x", headers={"Content-Type": "multipart/form-data; boundary=y"}
        )

    assert answer.status_code == 200
    assert call.body == {"formats": ["markdown"]}
    assert broken.status_code == 400


@pytest.mark.parametrize(
    ("error", "status", "body"),
    [
        (CallRefused(404, "Job not found"), 404, {"success": False, "error": "Job not found"}),
        (
            CallRefused(400, "Bad Request", code="BAD_REQUEST", details=[{"code": "custom"}]),
            400,
            {"success": False, "code": "BAD_REQUEST", "error": "Bad Request", "details": [{"code": "custom"}]},
        ),
        (
            ScrapeFailed("SCRAPE_DNS_RESOLUTION_ERROR", "no such host"),
            200,
            {"success": False, "code": "SCRAPE_DNS_RESOLUTION_ERROR", "error": "no such host"},
        ),
        (
            ScrapeFailed("SCRAPE_TIMEOUT", "too slow"),
            408,
            {"success": False, "code": "SCRAPE_TIMEOUT", "error": "too slow"},
        ),
    ],
)
async def test_an_error_of_an_operation_is_an_answer(error: Exception, status: int, body: dict[str, Any]) -> None:
    """With the service's status and body."""

    def fail(call: Any) -> Answer:
        raise error

    async with echo_world() as world:
        world.echo.answer = fail
        answer = await world.post("/v2/echo", {})

    assert (answer.status_code, answer.json()) == (status, body)


async def test_a_fault_of_ours_has_an_id_and_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The log has the traceback under that id, the answer neither text nor frames."""

    def crash(call: Any) -> Answer:
        raise RuntimeError("a secret")

    async with echo_world() as world:
        world.echo.answer = crash
        with caplog.at_level(logging.ERROR):
            answer = await world.post("/v2/echo", {})

    (record,) = [one for one in caplog.records if event_of(one) == "emulated_call_failed"]
    assert (answer.status_code, answer.json()["code"]) == (500, "UNKNOWN_ERROR")
    assert vars(record)["id"] in answer.json()["error"]
    assert "secret" not in answer.text


async def test_every_answer_has_the_usual_headers() -> None:
    """Also an error; browsers may read them, and a preflight needs no key."""
    async with echo_world() as world:
        for answer in (await world.get("/v2/echo/1"), await world.client.get("/nowhere")):
            assert answer.headers["access-control-allow-origin"] == "*"
            assert answer.headers["x-response-time"].endswith("ms")
            assert answer.headers["content-type"] == "application/json"
        preflight = await world.client.options(
            "/v2/scrape", headers={"Access-Control-Request-Headers": "authorization"}
        )

    assert (preflight.status_code, preflight.headers["access-control-allow-headers"]) == (204, "authorization")


@pytest.mark.parametrize("options", [EmulatorOptions(), EmulatorOptions(keys=("fc-test",), open_access=True)])
async def test_pages_of_other_hosts_need_a_key_that_they_cannot_know(options: EmulatorOptions) -> None:
    """A site that somebody visits must not read the programs on the visitor's machine through the emulator."""
    async with echo_world(options) as world:
        answers = [
            await world.client.request(method, "/v2/echo", headers=KEY | {"Origin": origin})
            for method in ("OPTIONS", "POST")
            for origin in ("https://evil.test", "null", "http://127.0.0.1.evil.test", "http://[")
        ]
        own = await world.client.post("/v2/echo", json={}, headers=KEY | {"Origin": "http://localhost:5173"})

    assert [one.status_code for one in (*answers, own)] == [403] * 8 + [200]
    assert world.echo.calls[1:] == []


async def test_a_page_of_another_host_may_call_with_a_configured_key() -> None:
    async with echo_world(EmulatorOptions(keys=("fc-test",))) as world:
        headers = {"Origin": "https://docs.acme.test"}
        answers = [
            await world.client.post("/v2/echo", json={}, headers=headers | {"Authorization": f"Bearer {key}"})
            for key in ("fc-test", "fc-guessed")
        ]

    assert [one.status_code for one in answers] == [200, 401]


async def test_the_root_says_what_this_is() -> None:
    """A small JSON message, without a key."""
    async with echo_world() as world:
        answer = await world.client.get("/")

    assert answer.status_code == 200
    assert "emulator" in answer.json()["message"]


async def test_credits_are_needed_and_limit_a_crawl() -> None:
    """402 without enough; a crawl gets the limit that is affordable."""
    async with echo_world(EmulatorOptions(credits=2)) as world:
        assert (await world.post("/v2/scrape", {})).status_code == 200
        assert (await world.post("/v2/crawl", {"limit": 50})).json()["body"] == {"limit": 2}
        poor = await world.post("/v2/batch/scrape", {"urls": ["a", "b", "c"]})
        assert (poor.status_code, poor.json()["error"][:20]) == (402, "Insufficient credits")
        await world.client.post("/_emulator/credits", json={"credits": 0})
        assert (await world.post("/v1/crawl", {})).status_code == 402
        assert (await world.get("/v2/echo/1")).status_code == 200


async def test_rate_limits_follow_the_plan() -> None:
    """The answer says when to come again, and the window moves with the emulator's clock."""
    async with echo_world(EmulatorOptions(plan="free")) as world:
        answers = [await world.post("/v2/crawl", {}) for _ in range(3)]
        assert [one.status_code for one in answers] == [200, 200, 429]
        assert answers[2].headers["retry-after"] == "60"
        await world.client.post("/_emulator/clock", json={"advance": "1m"})
        assert (await world.post("/v2/crawl", {})).status_code == 200


@pytest.mark.parametrize("path", ["/v1/crawl", "/v2/crawl", "/v1/batch/scrape", "/v2/batch/scrape"])
async def test_a_start_with_a_used_key_is_refused(path: str) -> None:
    """409, unless the first call started nothing."""
    header = {"X-Idempotency-Key": UUID}

    def fail(call: Any) -> Answer:
        raise CallRefused(400, "wrong")

    async with echo_world() as world:
        answer, world.echo.answer = world.echo.answer, fail
        assert (await world.post(path, {}, headers=header)).status_code == 400
        world.echo.answer = answer
        assert (await world.post(path, {}, headers=header)).status_code == 200
        again = await world.post(path, {}, headers=header)
        assert (again.status_code, again.json()["error"]) == (409, "Idempotency key already used")
        assert (await world.post(path, {}, headers={"X-Idempotency-Key": "5"})).status_code == 400
        assert (await world.post("/v2/scrape", {}, headers=header)).status_code == 200


async def test_two_starts_at_one_time_share_no_key() -> None:
    """Only one of them starts something."""
    async with echo_world() as world:
        starts = (world.post("/v2/crawl", {}, headers={"X-Idempotency-Key": UUID}) for _ in range(5))
        statuses = [answer.status_code for answer in await asyncio.gather(*starts)]

    assert sorted(statuses) == [200, 409, 409, 409, 409]


def _answered(body: dict[str, Any], call: Any) -> Answer:
    return Answer(body)


async def test_surrogates_and_odd_numbers_in_an_answer_are_still_json() -> None:
    """A page may hold what UTF-8 cannot."""
    async with echo_world() as world:
        for value in ("\ud800", float("nan"), 2**70):
            body = {"success": True, "value": value}
            world.echo.answer = functools.partial(_answered, body)
            answer = await world.post("/v2/echo", {})
            assert answer.status_code == 200
            assert "NaN" not in answer.text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON, path=st.sampled_from(["/v2/echo", "/v2/crawl", "/v1/batch/scrape", "/_emulator/faults"]))
async def test_any_json_gets_an_answer_of_the_service(value: Any, path: str) -> None:
    """Success or an error body, never a fault."""
    async with echo_world() as world:
        answer = await world.post(path, content=json.dumps(value).encode())

    assert answer.status_code in (200, 400)
    assert answer.json()["success"] is (answer.status_code == 200)


async def test_outside_of_its_lifespan_it_says_so() -> None:
    """A test that forgot to enter it gets no riddle."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(Emulator()), base_url="http://e.test") as client:
        with pytest.raises(RuntimeError, match="within its lifespan"):
            await client.get("/")


async def test_a_server_can_start_and_end_it() -> None:
    """By the lifespan protocol of ASGI; a state that cannot be opened fails the start."""

    async def live(emulator: Emulator) -> list[str]:
        asked = iter(["lifespan.startup", "lifespan.shutdown"])
        told: list[str] = []

        async def receive() -> Any:
            return {"type": next(asked)}

        async def send(message: Any) -> None:
            told.append(message["type"])

        await emulator({"type": "lifespan"}, receive, send)
        return told

    assert await live(Emulator()) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_sockets_at_unknown_paths_are_refused() -> None:
    """They are closed, not left open."""
    told: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        told.append(message)

    async with echo_world() as world:
        await world.emulator(
            {"type": "websocket", "path": "/v2/scrape/1", "headers": [], "query_string": b""}, receive, send
        )

    assert [one["type"] for one in told] == ["websocket.close"]
