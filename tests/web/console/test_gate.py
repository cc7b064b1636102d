"""The gate: host names, sign-in, form tokens, read-only, and the headers of every answer."""

from datetime import timedelta

import pytest

from receiver.core.clock import VirtualClock
from receiver.web.console.gate import MAX_FORM, local_target
from receiver.web.console.sessions import COOKIE, MAX_TRIES, SESSION_LENGTH
from tests.stores.opened import DEAD, Opened
from tests.web.console.browsing import Browser
from tests.web.console.conftest import MakeBrowser

PASSWORD = "correct horse"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8001", "localhost", "[::1]:8001", "ops.example.com", "OPS.example.com:80"]
)
async def test_it_answers_to_its_own_names(browse: MakeBrowser, opened: Opened, host: str) -> None:
    browser = browse(names=("ops.example.com",))

    await browser.page("/", headers={"host": host})


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:8001", "a b"]
)
async def test_it_refuses_other_host_names(browser: Browser, opened: Opened, host: str) -> None:
    """A foreign page whose name leads here sends its own name (DNS rebinding)."""
    await browser.page("/", 421, {"host": host})


async def test_every_answer_forbids_scripts_frames_and_caching(browser: Browser, opened: Opened) -> None:
    for path in ("/", "/nothing", "/static/console.js", "/sign-in"):
        answer = await browser.http.get(path)

        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
    assert (await browser.http.get("/")).headers["cache-control"] == "no-store"


async def test_a_get_changes_nothing_and_other_methods_are_refused(browser: Browser, opened: Opened) -> None:
    assert (await browser.http.get("/sign-out")).status_code == 405
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert (await browser.http.request(method, "/")).status_code == 405


async def test_a_form_needs_the_token_of_its_session(browse: MakeBrowser, opened: Opened) -> None:
    browser, stranger = browse(), browse()
    token = await browser.token()

    assert (await browser.http.post("/handlers/one/pause", data={})).status_code == 403
    assert (await browser.http.post("/handlers/one/pause", data={"token": "0" * 64})).status_code == 403
    assert (await stranger.http.post("/handlers/one/pause", data={"token": token})).status_code == 403
    assert (await browser.http.post("/handlers/one/pause", data={"token": token})).status_code == 400


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
    ],
)
async def test_a_form_from_another_site_is_refused(
    browser: Browser, opened: Opened, headers: dict[str, str]
) -> None:
    token = await browser.token()

    answer = await browser.http.post("/sign-out", data={"token": token}, headers=headers)

    assert answer.status_code == 403


async def test_a_long_form_is_refused(browser: Browser, opened: Opened) -> None:
    answer = await browser.http.post("/sign-out", data={"token": await browser.token(), "more": "x" * MAX_FORM})

    assert answer.status_code == 413


async def test_a_form_that_is_no_form_is_refused(browser: Browser, opened: Opened) -> None:
    await browser.token()

    answer = await browser.http.post("/sign-out", content=b"\xff\x00&&&==" + b"a=1&" * 500)

    assert answer.status_code == 403


async def test_with_a_password_everything_waits_for_the_sign_in(browse: MakeBrowser, opened: Opened) -> None:
    browser = browse(password=PASSWORD)

    answer = await browser.http.get("/deliveries?type=crawl.page")
    assert (answer.status_code, answer.headers["location"]) == (
        303,
        "/sign-in?next=/deliveries%3Ftype%3Dcrawl.page",
    )
    assert (await browser.http.get("/changes")).status_code == 303
    assert (await browser.send("/handlers/one/pause")).status_code == 403

    signed_in = await browser.send("/sign-in", password=PASSWORD, next="/deliveries?type=crawl.page")
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/deliveries?type=crawl.page")
    cookie = signed_in.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Secure" not in cookie
    assert "Sign out" in await browser.page("/deliveries")

    await browser.send("/sign-out", at="/deliveries")
    assert (await browser.http.get("/deliveries")).status_code == 303


async def test_over_https_the_cookie_is_secure(browse: MakeBrowser, opened: Opened) -> None:
    browser = browse("https://localhost", password=PASSWORD)

    assert "Secure" in (await browser.http.get("/sign-in")).headers["set-cookie"]


async def test_a_wrong_password_is_refused_and_after_five_nobody_may_try(
    browse: MakeBrowser, opened: Opened, clock: VirtualClock
) -> None:
    browser = browse(password=PASSWORD)
    for _ in range(MAX_TRIES):
        assert (await browser.send("/sign-in", password="guess")).status_code == 403

    refused = await browser.send("/sign-in", password=PASSWORD)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")

    clock.advance(timedelta(minutes=1))
    assert (await browser.send("/sign-in", password=PASSWORD)).status_code == 303


async def test_a_session_ends_after_twelve_hours(browse: MakeBrowser, opened: Opened, clock: VirtualClock) -> None:
    browser = browse(password=PASSWORD)
    await browser.send("/sign-in", password=PASSWORD)
    await browser.page("/")

    clock.advance(SESSION_LENGTH)

    assert (await browser.http.get("/")).status_code == 303


@pytest.mark.parametrize("cookie", ["", "a.b.c.d", "x", "a.1.9999999999.0000", "é", "...."])
async def test_a_made_up_cookie_is_no_session(browse: MakeBrowser, opened: Opened, cookie: str) -> None:
    browser = browse(password=PASSWORD)

    answer = await browser.http.get("/", headers=[(b"cookie", f"{COOKIE}={cookie}".encode())])

    assert answer.status_code == 303


async def test_read_only_shows_no_action_and_takes_none(browse: MakeBrowser, opened: Opened) -> None:
    await opened.in_state(DEAD)
    browser = browse(read_only=True)

    page = await browser.page("/work-items/1")

    assert "Retry" not in page
    assert "read-only" in page
    assert (await browser.send("/work-items/retry", ids="1")).status_code == 403
    assert (await browser.send("/handlers/one/pause")).status_code == 403


@pytest.mark.parametrize(
    ("target", "leads_to"),
    [
        ("/deliveries?a=b", "/deliveries?a=b"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nset-cookie: x", "/"),
        ("deliveries", "/"),
    ],
)
def test_a_sign_in_leads_only_to_pages_of_this_console(target: str, leads_to: str) -> None:
    assert local_target(target) == leads_to
